package cpu

import (
	"fmt"
	"testing"
	"time"

	"corenode/engine/kernel"
)

func BenchmarkMicro(b *testing.B) {
	fast := func(b *testing.B, n, bytes float64, f func()) {
		best := 1e9
		for b.Loop() {
			s := time.Now()
			for range 4 {
				f()
			}
			best = min(best, time.Since(s).Seconds()/4)
		}
		b.ReportMetric(n/best/1e9, "GFLOPS")
		b.ReportMetric(bytes/best/1e9, "GB/s")
		b.ReportMetric(best*1e9, "ns-best")
	}
	for _, level := range []string{"avx512vnni", "avx2"} {
		be := open(b, Options{Level: level, Threads: 1})
		for _, kv := range []kernel.KVType{kernel.KVF16, kernel.KVQ8, kernel.KVF32} {
			for idx := range queryRows {
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
					fast(b, float64(n)*512*128*2, float64(s.half*32), func() { be.ops.scores[kv][idx](&sc[0], &q[0], &list[0], 32, 128) })
				})
				b.Run(fmt.Sprintf("values/%s/%s/%d", level, kv, n), func(b *testing.B) {
					fast(b, float64(n)*512*128*2, float64(s.half*32), func() { be.ops.values[kv][idx](&out[0], &sc[0], &list[32], 512, 128) })
				})
				if kv == kernel.KVF32 && n == 12 {
					b.Run(fmt.Sprintf("product/%s/%s/%d", level, kv, n), func(b *testing.B) {
						fast(b, float64(n)*512*128*2, float64(s.half*32), func() { be.ops.product(&out[0], &sc[0], &asFloats(mem.b)[0], 512, 128, 128) })
					})
				}
				mem.free()
			}
		}
		b.Run("peak/"+level, func(b *testing.B) {
			fast(b, float64(2*multiplyRounds*be.ops.multiplies), 1, func() { be.ops.multiply(multiplyRounds) })
		})
		b.Run("softmax/"+level, func(b *testing.B) {
			p := normals(newRand(1), 512, 1)
			var st [2]float32
			fast(b, 512, 512*4, func() { be.ops.softmax(&p[0], 512, &st) })
		})
	}
}
