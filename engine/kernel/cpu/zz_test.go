package cpu

import (
	"fmt"
	"testing"
	"time"

	"corenode/engine/kernel"
)

func BenchmarkFewNear(b *testing.B) {
	for _, n := range []int{8, 12, 16, 36, 516} {
		for _, rows := range []int{512, 3072} {
			b.Run(fmt.Sprintf("rows=%d/out=%d", n, rows), func(b *testing.B) {
				be := open(b, Options{Threads: 1})
				w := []kernel.Weight{load(b, be, randomSource(newRand(2), 8, 1, rows, 1024))}
				x, out := upload(be, normals(newRand(2), n*1024, 1)), []kernel.Buffer{be.NewBuffer(n * rows)}
				got := 1e9
				for b.Loop() {
					start := time.Now()
					be.MatMul(out, x, n, w)
					got = min(got, time.Since(start).Seconds())
				}
				start := time.Now()
				for range 10 {
					be.makeTiles(true, bytePtr(be.mm.codes), floats(x, n*1024), n, 1024)
				}
				q := time.Since(start).Seconds() / 10
				b.ReportMetric(float64(n*rows*1024)/got/1e9, "GMAC/s")
				b.ReportMetric((got-q)*1e9/float64(rows/32*16), "ns/step")
				b.ReportMetric(q*1e6, "quant-us")
			})
		}
	}
}
