package interp

import (
	"testing"

	"corenode/engine/kernel/cuda"
)

// FuzzLoad wants an error or kernels that end: with a result or a report, and
// without a panic.
func FuzzLoad(f *testing.F) {
	for _, text := range ptxFiles(f) {
		f.Add([]byte(text))
	}
	f.Add([]byte(kernelText("l: @%p1 bra l; .shared .b32 x[4]; mov.b32 %r1, x; shfl.sync.idx.b32 %r1|%p1, %r2, 1, 31, -1;")))
	f.Add([]byte(kernelText("bar.sync 0; vote.sync.any.pred %p1, %p1, -1; atom.global.add.u32 %r1, [%rd1], 1; redux.sync.add.s32 %r1, %r2, -1;")))
	f.Add([]byte(kernelText("bfi.b32 %r1, %r2, %r3, 3, 4; lop3.b32 %r1, %r2, %r3, %r4, 0x96; cvt.rn.f32.s32 %r1, %r2; selp.b32 %r1, %r2, %r3, %p1;")))
	f.Fuzz(func(t *testing.T, text []byte) {
		d := Open(Config{Shadow: true, Memory: 1 << 20})
		m, err := d.Load(text)
		if err != nil {
			return
		}
		for _, fn := range m.(*module).kernels {
			if fn.kernel.regs > 1<<12 || fn.kernel.localBytes > 1<<12 {
				continue
			}
			r, err := newRun(fn.kernel, cuda.Launch{Block: cuda.Dim{X: 64}, Params: make([]byte, fn.ParamBytes())}, fn.shared)
			if err != nil {
				continue
			}
			r.memory, r.shadow, r.ran, r.limit = d.arena, true, fn.cover.ran, 1<<12
			r.execute(1)
		}
	})
}
