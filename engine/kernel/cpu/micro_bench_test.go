package cpu

import (
	"fmt"
	"testing"
	"corenode/engine/kernel"
)

func BenchmarkMicro(b *testing.B) {
	for _, level := range []string{"avx512vnni", "avx2"} {
		for _, kv := range []kernel.KVType{kernel.KVF16, kernel.KVQ8, kernel.KVF32} {
			for idx := range queryRows {
				be := open(b, Options{Level: level, Threads: 1})
				s := newTileShape(kernel.CacheConfig{KV: kv, HeadDim: 128})
				mem := newBlock(s.half * 64)
				var list [80]*byte
				for i := range list {
					list[i] = &mem.b[min(i, 63)*s.half]
				}
				q := grow(nil, 12*128)
				sc := grow(nil, 12*scoreStride)
				out := grow(nil, 12*128)
				n := queryRows[idx]
				b.Run(fmt.Sprintf("scores/%s/%s/%d", level, kv, n), func(b *testing.B) {
					for b.Loop() {
						be.ops.scores[kv][idx](&sc[0], &q[0], &list[0], 32, 128)
					}
					b.ReportMetric(float64(n)*512*128*2*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
					b.ReportMetric(float64(s.half*32)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
				})
				b.Run(fmt.Sprintf("values/%s/%s/%d", level, kv, n), func(b *testing.B) {
					for b.Loop() {
						be.ops.values[kv][idx](&out[0], &sc[0], &list[32], 512, 128)
					}
					b.ReportMetric(float64(n)*512*128*2*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
					b.ReportMetric(float64(s.half*32)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
				})
				mem.free()
			}
		}
		be := open(b, Options{Level: level, Threads: 1})
		b.Run("peak/"+level, func(b *testing.B) {
			for b.Loop() {
				be.multiplyPass()
			}
			b.ReportMetric(float64(2*8*multiplyRounds*be.ops.multiplies)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
		})
		b.Run("softmax/"+level, func(b *testing.B) {
			p := normals(newRand(1), 512, 1)
			var st [2]float32
			for b.Loop() {
				be.ops.softmax(&p[0], 512, &st)
			}
		})
	}
}
