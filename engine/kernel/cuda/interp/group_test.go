package interp

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel/cuda"
)

// operandPlace is where byte i of row r of an operand lies in shared memory, as
// canonical layouts are drawn: groups of 8 rows, one of them stride bytes after
// the other. A transposed operand has its depth as rows.
type operandPlace struct {
	swizzle int
	trans   bool
}

const (
	leadBytes   = 256
	groupStride = 2048
)

// at returns the place of an element of 2 bytes.
func (p operandPlace) at(row, depth int) int {
	r, i := row, depth*2
	if p.trans {
		r, i = depth, row*2
	}
	if p.swizzle == 0 {
		along, across := leadBytes, groupStride // 16 bytes further in the depth, 8 rows further
		if p.trans {
			along, across = groupStride, leadBytes
		}
		return r%8*16 + r/8*across + i/16*along + i%16
	}
	at := r%8*p.swizzle + r/8*groupStride + i/p.swizzle*leadBytes*32 + i%p.swizzle
	chunks := p.swizzle / 16
	return at&^(p.swizzle-1) | (at/16%chunks^at/128%chunks)*16 | at%16
}

// descriptor of an operand that begins at an address.
func (p operandPlace) descriptor(at int) uint64 {
	mode := map[int]uint64{0: 0, 128: 1, 64: 2, 32: 3}[p.swizzle]
	lead := uint64(leadBytes)
	if p.swizzle > 0 {
		lead = leadBytes * 32
	}
	return uint64(at)>>4 | lead>>4<<16 | groupStride>>4<<32 | mode<<62
}

// TestWarpgroupOperands multiplies 64x16 by 16x16 with each swizzle and order.
func TestWarpgroupOperands(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for _, swizzle := range []int{0, 32, 64, 128} {
		for _, trans := range []int{0, 1, 2, 3} {
			pa, pb := operandPlace{swizzle, trans&1 != 0}, operandPlace{swizzle, trans&2 != 0}
			const sizeA, sizeB = 32768, 16384
			data := make([]byte, sizeA+sizeB)
			fill(data, poison)
			a, b := make([]float32, 64*16), make([]float32, 16*16)
			for i := range a {
				a[i] = float32(random.IntN(9) - 4)
				binary.LittleEndian.PutUint16(data[pa.at(i/16, i%16):], uint16(encode("bf16", int(a[i]))))
			}
			for i := range b {
				b[i] = float32(random.IntN(9) - 4)
				binary.LittleEndian.PutUint16(data[sizeA+pb.at(i/16, i%16):], uint16(encode("bf16", int(b[i]))))
			}
			r := newRig(t, Config{Seed: 1, Shadow: true})
			out := make([]byte, 64*16*4)
			to := r.room(len(out))
			f := r.function(groupText(len(data), pa.descriptor(sharedBase), pb.descriptor(sharedBase+sizeA), trans), "k")
			r.must(f.AllowShared(len(data)))
			r.must(r.stream.Launch(f, cuda.Launch{Block: cuda.Dim{X: 128}, Shared: len(data), Params: params(r.in(data), to)}))
			r.must(r.stream.CopyOut(out, to))
			if err := r.stream.Synchronize(); err != nil {
				t.Fatalf("swizzle %d, transposed %d: %v", swizzle, trans, err)
			}
			want := matrixProductOf(a, b, 64, 16, 16)
			got := floats(out)
			for i := range got { // thread, value
				lane, v := i/8%32, i%8
				row, col := i/8/32*16+lane/4+v/2%2*8, v/4*8+lane%4*2+v%2
				if got[i] != want[row*16+col] {
					t.Fatalf("swizzle %d, transposed %d, row %d, column %d: %g, want %g", swizzle, trans, row, col, got[i], want[row*16+col])
				}
			}
		}
	}
}

// groupText is a kernel that copies its operands to shared memory as they lie and multiplies them.
func groupText(size int, a, b uint64, trans int) string {
	return fmt.Sprintf(`.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 all[];
.visible .entry k(.param .u64 p, .param .u64 q)
{
.reg .b64 %%g, %%o, %%d; .reg .b32 %%t, %%v, %%s, %%m; .reg .pred %%p; .reg .f32 %%f<8>;
ld.param.u64 %%g, [p]; ld.param.u64 %%o, [q]; mov.u32 %%t, %%tid.x; mul.lo.u32 %%s, %%t, 4; mov.u32 %%m, all;
l: cvt.u64.u32 %%d, %%s; add.u64 %%d, %%d, %%g; ld.global.u32 %%v, [%%d]; add.u32 %%t, %%m, %%s; st.shared.u32 [%%t], %%v;
add.u32 %%s, %%s, 512; setp.lt.u32 %%p, %%s, %d; @%%p bra l;
fence.proxy.async; bar.sync 0; setp.ne.u32 %%p, 0, 0;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%%f0, %%f1, %%f2, %%f3, %%f4, %%f5, %%f6, %%f7}, %d, %d, %%p, 1, 1, %d, %d;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
mov.u32 %%t, %%tid.x; mul.wide.u32 %%d, %%t, 32; add.u64 %%d, %%d, %%o;
st.global.v4.f32 [%%d], {%%f0, %%f1, %%f2, %%f3}; st.global.v4.f32 [%%d+16], {%%f4, %%f5, %%f6, %%f7}; ret;
}
`, size, a, b, trans&1, trans>>1)
}
