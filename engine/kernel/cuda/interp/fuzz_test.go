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

// TestOddInstructions gives every instruction modifiers and arguments that mostly
// do not belong to it: each is refused or decoded, and the kernel ends.
func TestOddInstructions(t *testing.T) {
	mods := []string{"", ".b32", ".sync", ".sync.idx.b32", ".pred", ".f16x2", ".shared.b64", ".m16n8k16.f32.bf16.bf16.f32", ".async.bulk.tensor.2d",
		".rn.f32.s64", ".global.v4.u32", ".arrive.b64", ".mma_async.sync.aligned.m64n8k16.f32.f16.f16", ".lo.s32", ".async.wait_group", ".init.b64",
		".finite.f32", ".lt.and.s32", ".red.popc.u32", ".sync.aligned.m8n8.x4.shared.b16", ".shared.add.u32", ".wait_group.sync.aligned"}
	args := []string{"", "%r1", "%p1", "7", "[%rd1]", "{}", "%r1, {}", "{}, %r1", "%r1|%p1, %r2", "%r1, %r2", "%p1, %r1, %r2", "_, 0f00000000", "%r1, [%rd1]",
		"%r1, %r2, %r3, %r4", "%r1, %r2, %r3, 4, 5", "[%r1], [%rd1], 16", "[%r1], {%r1, %r2}, [%r2]", "{%r1, %r2, %r3, %r4}, [%r1]",
		"{%r1,%r2,%r3,%r4}, %rd1, %rd2, %p1, 1, 1, 0, 0", "%p1|%p0, %r1, %r2, !%p1"}
	decoded := 0
	for op := range operations {
		for _, m := range mods {
			for _, a := range args {
				f, err := parse(kernelText(op + m + " " + a + ";"))
				if err != nil {
					continue
				}
				k, err := decode(f, f.entries[0], nil)
				if err != nil {
					continue
				}
				decoded++
				r, err := newRun(k, cuda.Launch{Block: cuda.Dim{X: 40}, Params: make([]byte, k.paramBytes)}, sharedMax)
				if err != nil {
					t.Fatal(err)
				}
				r.memory, r.ran, r.limit, r.shadow = &arena{total: 1}, make([]bool, len(k.code)), 1<<10, true
				r.execute(1)
			}
		}
	}
	if decoded < 200 {
		t.Errorf("%d forms were decoded", decoded)
	}
}
