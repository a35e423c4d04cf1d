package interp

import (
	"testing"

	"corenode/engine/kernel/cuda"
)

// BenchmarkInstructions is a loop of ordinary instructions over full warps.
func BenchmarkInstructions(b *testing.B) {
	const text = `.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .b64 %a; .reg .b32 %i, %n; .reg .f32 %x, %y; .reg .pred %p;
ld.param.u64 %a, [p]; mov.u32 %i, 0; mov.f32 %x, 0f3F800000;
l: ld.global.f32 %y, [%a]; fma.rn.f32 %x, %x, %y, %y; add.f32 %x, %x, %y; mul.f32 %x, %x, %y;
and.b32 %n, %i, 7; shl.b32 %n, %n, 2; add.s32 %i, %i, 1; setp.lt.s32 %p, %i, 1000; @%p bra l;
ret;
}
`
	r := newRig(b, Config{Seed: 1})
	f, p := r.function(text, "k"), r.in(make([]byte, 64))
	for b.Loop() {
		r.must(r.stream.Launch(f, cuda.Launch{Grid: cuda.Dim{X: 4}, Block: cuda.Dim{X: 128}, Params: params(p)}))
		r.must(r.stream.Synchronize())
	}
	b.ReportMetric(float64(r.device.Instructions())*lanes/1e6/b.Elapsed().Seconds(), "Mlanes/s")
}

// BenchmarkKernels runs the test kernels with and without the shadow.
func BenchmarkKernels(b *testing.B) {
	for _, c := range kernelCases {
		for name, shadow := range map[string]bool{"plain": false, "shadow": true} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				text := ptxFiles(b)[c.name+".nvcc.ptx"]
				r := newRig(b, Config{Seed: 1, Memory: 1 << 34, Shadow: shadow})
				for b.Loop() {
					if _, err := c.run(r, text); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
