package cudatest

import (
	"fmt"
	"math"
	"testing"

	"corenode/engine/kernel/cuda"
)

// own begins a block in which each thread has memory of its own.
func own(bytes int) string { return fmt.Sprintf("{\n.local .align 8 .b8 own[%d];\n", bytes) }

// Moves checks what moves, packs and picks values, and memory of a thread.
func Moves(t *testing.T, d cuda.Driver) {
	values := integerValues()
	for body, answer := range map[string]func(a, b, c uint64) uint64{
		"mov.b64 %d, {%ra, %rb};":                          func(a, b, _ uint64) uint64 { return a&math.MaxUint32 | b<<32 },
		"mov.b64 {%rd, %re}, %a;\nmov.b64 %d, {%re, %rd};": func(a, _, _ uint64) uint64 { return a>>32 | a<<32 },
		"mov.b32 %rd, {%ha, %hb};" + result32:              func(a, b, _ uint64) uint64 { return a&0xffff | b&0xffff<<16 },
		"mov.b32 {%hd, %hc}, %ra;\nmov.b32 %rd, {%hc, %hd};" + result32: func(a, _, _ uint64) uint64 {
			return a>>16&0xffff | a&0xffff<<16
		},
		"slct.s32.s32 %rd, %ra, %rb, %rc;" + result32: func(a, b, c uint64) uint64 {
			if int32(c) >= 0 {
				return a & math.MaxUint32
			}
			return b & math.MaxUint32
		},
		"set.lt.u32.s32 %rd, %ra, %rb;" + result32: func(a, b, _ uint64) uint64 {
			return math.MaxUint32 * uint64(b2i(int32(a) < int32(b)))
		},
		"setp.lt.s32 %p, %ra, %rb;\nsetp.gt.and.s32 %q, %ra, 7, %p;\nselp.b64 %d, 3, 4, %q;": func(a, b, _ uint64) uint64 {
			return 4 - uint64(b2i(int32(a) < int32(b) && int32(a) > 7))
		},
		"setp.eq.u32 %p|%q, %ra, %rb;\nselp.b64 %d, 1, 0, %q;": func(a, b, _ uint64) uint64 { return uint64(b2i(uint32(a) != uint32(b))) },
		"mov.u32 %rd, 9;\nsetp.ge.s32 %p, %ra, 0;\n@!%p mov.u32 %rd, %rb;" + result32: func(a, b, _ uint64) uint64 {
			if int32(a) >= 0 {
				return 9
			}
			return b & math.MaxUint32
		},
		own(32) + "st.local.b64 [own+8], %a;\nst.local.b16 [own+10], %hb;\nld.local.b64 %d, [own+8];\n}": func(a, b, _ uint64) uint64 {
			return a&^0xffff_0000 | b&0xffff<<16
		},
		own(8) + ".reg .b64 %where;\nmov.u64 %where, own;\ncvta.local.u64 %where, %where;\n" +
			"st.b64 [%where], %b;\nld.b64 %d, [%where];\n}": func(_, b, _ uint64) uint64 {
			return b
		},
		own(8) + "st.local.b64 [own], %a;\nld.local.s8 %rd, [own+3];\ncvt.s64.s32 %d, %rd;\n}": func(a, _, _ uint64) uint64 {
			return uint64(int8(a >> 24))
		},
		own(8) + "st.local.b64 [own], %a;\nld.local.u8 %rd, [own+3];" + result32 + "\n}": func(a, _, _ uint64) uint64 {
			return a >> 24 & 255
		},
	} {
		expect(t, d, body, values, answer)
	}
	floats := floatValues()
	expect(t, d, "copysign.f32 %rd, %ra, %rb;"+result32, floats, func(a, b, _ uint64) uint64 { return a&0x8000_0000 | b&0x7fff_ffff })
	for name, test := range map[string]func(x float64) bool{
		"finite":     func(x float64) bool { return x-x == 0 },
		"infinite":   func(x float64) bool { return math.IsInf(x, 0) },
		"notanumber": func(x float64) bool { return x != x },
		"normal":     func(x float64) bool { return x == 0 || x-x == 0 && math.Abs(x) >= 0x1p-126 }, // zeros, too: an H200 says so
		"subnormal":  func(x float64) bool { return x != 0 && math.Abs(x) < 0x1p-126 },
	} {
		expect(t, d, "testp."+name+".f32 %p, %ra;\nselp.b64 %d, 1, 0, %p;", floats, func(a, _, _ uint64) uint64 {
			return uint64(b2i(test(single(a))))
		})
	}
}
