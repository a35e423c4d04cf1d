package main

import (
	"encoding/hex"
	"testing"

	"github.com/mmcloughlin/avo/reg"
)

// TestEncodings compares machine code with what the GNU assembler makes of the
// same instructions.
func TestEncodings(t *testing.T) {
	for _, c := range []struct {
		name string
		code []byte
		want string
	}{
		{"tileloadd (%rdx,%r14,1),%tmm4", encodeTileLoad(4, tileMem{reg.RDX, reg.R14, 0}), "c4a27b4b643200"},
		{"tileloadd (%r8,%r14,1),%tmm6", encodeTileLoad(6, tileMem{reg.R8, reg.R14, 0}), "c4827b4b743000"},
		{"tileloadd 32(%rax,%rdx,1),%tmm5", encodeTileLoad(5, tileMem{reg.RAX, reg.RDX, 32}), "c4e27b4b6c1020"},
		{"tileloadd 1088(%rcx,%rdx,1),%tmm7", encodeTileLoad(7, tileMem{reg.RCX, reg.RDX, 1088}), "c4e27b4bbc1140040000"},
		{"tileloadd -64(%r8),%tmm0", encodeTileLoad(0, tileMem{reg.R8, noIndex, -64}), "c4c27b4b4420c0"},
		{"tilestored %tmm3,0x0(%r13,%r14,1)", encodeTileStore(tileMem{reg.R13, reg.R14, 0}, 3), "c4827a4b5c3500"},
		{"tilestored %tmm2,64(%rbx,%r14,1)", encodeTileStore(tileMem{reg.RBX, reg.R14, 64}, 2), "c4a27a4b543340"},
		{"tdpbssd %tmm7,%tmm4,%tmm0", encodeDot(0, 4, 7), "c4e2435ec4"},
		{"tdpbssd %tmm7,%tmm5,%tmm3", encodeDot(3, 5, 7), "c4e2435edd"},
		{"tdpbssd %tmm6,%tmm4,%tmm2", encodeDot(2, 4, 6), "c4e24b5ed4"},
		{"tdpbsud %tmm7,%tmm4,%tmm0", encodeDotUnsigned(0, 4, 7), "c4e2425ec4"},
		{"tdpbsud %tmm6,%tmm5,%tmm1", encodeDotUnsigned(1, 5, 6), "c4e24a5ecd"},
		{"tdpbf16ps %tmm7,%tmm4,%tmm0", encodeDotBF16(0, 4, 7), "c4e2425cc4"},
		{"tdpbf16ps %tmm6,%tmm5,%tmm3", encodeDotBF16(3, 5, 6), "c4e24a5cdd"},
		{"tilezero %tmm0", encodeTileZero(0), "c4e27b49c0"},
		{"tilezero %tmm3", encodeTileZero(3), "c4e27b49d8"},
		{"ldtilecfg 0(%r9)", encodeLoadConfig(reg.R9), "c4c278494100"},
		{"ldtilecfg 0(%rbp)", encodeLoadConfig(reg.RBP), "c4e278494500"},
		{"tilerelease", encodeTileRelease(), "c4e27849c0"},
	} {
		if got := hex.EncodeToString(c.code); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
