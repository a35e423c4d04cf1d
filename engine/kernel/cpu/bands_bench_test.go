//go:build unix

package cpu

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"corenode/engine/kernel"
)

// processTime is the time that processors gave to this process.
func processTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBands is products of one matrix on one thread in tiles and in bands, in turn, in
// billions of multiplications a second of processor time.
func BenchmarkBands(b *testing.B) {
	for _, typ := range []kernel.Type{kernel.Q8_0, kernel.Q4_0, kernel.Q4_K, kernel.Q6_K} {
		for _, n := range []int{64, 128, 512} {
			b.Run(fmt.Sprintf("type=%d/rows=%d", typ, n), func(b *testing.B) {
				var be [2]*Backend
				var w [2][]kernel.Weight
				var x, out [2]kernel.Buffer
				if be := open(b, Options{Threads: 1}); be.ops.bands == nil {
					b.Skip("this level has no bands")
				}
				src := randomSource(newRand(2), typ, 1, 3072, 1024)
				in := normals(newRand(3), n*1024, 1)
				for i := range be {
					be[i] = open(b, Options{Threads: 1})
					kernels := *be[i].ops
					if kernels.bands = nil; i == 1 {
						bands := *be[i].ops.bands
						bands.min, kernels.bands = 2, &bands
					}
					be[i].ops = &kernels
					w[i] = []kernel.Weight{load(b, be[i], src)}
					x[i], out[i] = upload(be[i], in), be[i].NewBuffer(n*3072)
				}
				var rates [2][]float64
				for b.Loop() {
					for i := range be {
						calls := 512 / n
						start := processTime()
						for range calls {
							be[i].MatMul([]kernel.Buffer{out[i]}, x[i], n, w[i])
						}
						rates[i] = append(rates[i], float64(calls*n*3072*1024)/(processTime()-start).Seconds()/1e9)
					}
				}
				b.ReportMetric(median(rates[0]), "tiles-GMAC/s")
				b.ReportMetric(median(rates[1]), "bands-GMAC/s")
			})
		}
	}
}
