package cpu

import (
	"fmt"
	"testing"
	"time"

	"corenode/engine/kernel"
)

// BenchmarkOneRow is the product of one row with large matrices, in GB/s of the
// model file: from memory, beside plain reading in between, and again and again
// with a small one that stays in the second cache. Where the last is no more than
// some times the first per thread, a kernel's own work shows in its speed.
func BenchmarkOneRow(b *testing.B) {
	const rows, cols, matrices = 6144, 1024, 24
	for _, typ := range []kernel.Type{kernel.Q8_0, kernel.Q4_0, kernel.Q4_K, kernel.Q5_K, kernel.Q6_K} {
		b.Run(fmt.Sprintf("type=%d", typ), func(b *testing.B) {
			be, reader, r := open(b, Options{}), openReader(b, 0), newRand(1)
			src := randomSource(r, typ, 1, rows, cols)
			var w []kernel.Weight
			for i := range matrices {
				src.Name = fmt.Sprint(i) // a name of its own, or memory is shared
				w = append(w, load(b, be, src))
			}
			near := []kernel.Weight{load(b, be, randomSource(r, typ, 1, 1024, cols))}
			x, out := upload(be, normals(r, cols, 1)), []kernel.Buffer{be.NewBuffer(rows)}
			var read, far, close []float64
			for b.Loop() {
				read = append(read, reader.Pass())
				start := time.Now()
				for i := range w {
					be.MatMul(out, x, 1, w[i:i+1])
				}
				far = append(far, float64(matrices*len(src.Data))/time.Since(start).Seconds()/1e9)
				be.MatMul(out, x, 1, near) // brings it near
				start = time.Now()
				for range matrices {
					be.MatMul(out, x, 1, near)
				}
				close = append(close, float64(matrices*len(src.Data)*1024/rows)/time.Since(start).Seconds()/1e9)
			}
			b.ReportMetric(median(far), "GB/s")
			b.ReportMetric(median(close), "near-GB/s")
			b.ReportMetric(median(read), "read-GB/s")
			b.ReportMetric(median(far)/median(read), "share")
		})
	}
}
