package cpu

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"corenode/engine/kernel"
)

// openReader is a reader that is closed with the benchmark.
func openReader(b *testing.B, threads int) *Reader {
	r, err := NewReader(threads)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.Close)
	return r
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func BenchmarkReadBandwidth(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			r := openReader(b, threads)
			b.SetBytes(readBytes)
			for b.Loop() {
				r.Pass()
			}
		})
	}
}

// stepWeights are the matrices of a decode step of a 0.6B model, packed from
// random blocks; every layer has memory of its own.
type stepWeights struct {
	qkv, out, gateUp, down [][]kernel.Weight
	head                   []kernel.Weight
	bytes                  int
}

func newStepWeights(b *testing.B, be *Backend, typ kernel.Type, layers int) *stepWeights {
	s := &stepWeights{}
	r := newRand(1)
	protos := map[[2]int]kernel.Source{}
	mk := func(shapes ...[2]int) (ws []kernel.Weight) {
		for _, sh := range shapes {
			if _, ok := protos[sh]; !ok {
				protos[sh] = randomSource(r, typ, 1, sh[0], sh[1])
			}
			src := protos[sh]
			src.Name = fmt.Sprintf("w%d", s.bytes) // a name of its own, or memory is shared
			w := load(b, be, src)
			s.bytes += w.(*weight).size()
			ws = append(ws, w)
		}
		return ws
	}
	for range layers {
		s.qkv = append(s.qkv, mk([2]int{2048, 1024}, [2]int{1024, 1024}, [2]int{1024, 1024}))
		s.out = append(s.out, mk([2]int{1024, 2048}))
		s.gateUp = append(s.gateUp, mk([2]int{3072, 1024}, [2]int{3072, 1024}))
		s.down = append(s.down, mk([2]int{1024, 3072}))
	}
	s.head = mk([2]int{151936, 1024})
	return s
}

// step runs all products of one step for n rows, the head included.
func (s *stepWeights) step(be *Backend, n int, buf [5]kernel.Buffer, head kernel.Buffer) {
	for l := range s.qkv {
		be.MatMul(buf[1:4], buf[0], n, s.qkv[l])
		be.MatMul(buf[1:2], buf[4], n, s.out[l])
		be.MatMul(buf[2:4], buf[0], n, s.gateUp[l])
		be.MatMul(buf[1:2], buf[4], n, s.down[l])
	}
	if head != nil {
		be.MatMul([]kernel.Buffer{head}, buf[0], n, s.head)
	}
}

func stepBuffers(be *Backend, n int) (buf [5]kernel.Buffer) {
	for i := range buf {
		buf[i] = upload(be, normals(newRand(uint64(i)), n*3072, 1))
	}
	return buf
}

// BenchmarkDecode reports the products of a decode step of a 0.6B model, and
// its bytes as a share of what plain reading gets between the steps: medians.
func BenchmarkDecode(b *testing.B) {
	for _, typ := range []kernel.Type{kernel.Q8_0, kernel.Q4_0, kernel.Q4_K, kernel.Q5_K, kernel.Q6_K, kernel.F16} {
		for _, n := range []int{1, 4, 8, 16, 24, 32, 64} {
			b.Run(fmt.Sprintf("type=%d/rows=%d", typ, n), func(b *testing.B) {
				be := open(b, Options{})
				w, r := newStepWeights(b, be, typ, 28), openReader(b, 0)
				buf, head := stepBuffers(be, n), be.NewBuffer(n*151936)
				var read, step []float64
				for b.Loop() {
					read = append(read, r.Pass())
					start := time.Now()
					w.step(be, n, buf, head)
					step = append(step, float64(w.bytes)/time.Since(start).Seconds()/1e9)
				}
				b.ReportMetric(median(step), "GB/s")
				b.ReportMetric(median(read), "read-GB/s")
				b.ReportMetric(median(step)/median(read), "share")
				b.ReportMetric(float64(w.bytes)/median(step)/1e6, "ms/step")
			})
		}
	}
}

// BenchmarkPrefill is the products of 504 rows, in billions of operations.
func BenchmarkPrefill(b *testing.B) {
	const n, layers = 504, 2
	for _, typ := range allTypes {
		b.Run(fmt.Sprintf("type=%d", typ), func(b *testing.B) {
			be := open(b, Options{})
			r := newRand(2)
			w := []kernel.Weight{load(b, be, randomSource(r, typ, 1, 3072, 1024))}
			x, out := upload(be, normals(r, n*1024, 1)), []kernel.Buffer{be.NewBuffer(n * 3072)}
			for b.Loop() {
				be.MatMul(out, x, n, w)
			}
			b.ReportMetric(2*n*3072*1024*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
		})
	}
}

// BenchmarkRows is the product of one matrix with n rows on one thread, in
// billions of multiplications a second (the fastest call), and as a share of
// what the kernel of the level gives when all it reads is in the nearest cache.
func BenchmarkRows(b *testing.B) {
	for _, typ := range []kernel.Type{kernel.Q8_0, kernel.Q4_0, kernel.Q4_K, kernel.Q5_K, kernel.Q6_K} {
		for _, n := range []int{8, 16, 64, 512} {
			b.Run(fmt.Sprintf("type=%d/rows=%d", typ, n), func(b *testing.B) {
				be := open(b, Options{Threads: 1})
				r := newRand(2)
				w := []kernel.Weight{load(b, be, randomSource(r, typ, 1, 3072, 1024))}
				x, out := upload(be, normals(r, n*1024, 1)), []kernel.Buffer{be.NewBuffer(n * 3072)}
				var got, near float64
				for b.Loop() {
					start := time.Now()
					be.MatMul(out, x, n, w)
					got = max(got, float64(n*3072*1024)/time.Since(start).Seconds())
					near = max(near, nearRate(be, w[0].(*weight)))
				}
				b.ReportMetric(got/1e9, "GMAC/s")
				b.ReportMetric(near/1e9, "near-GMAC/s")
				b.ReportMetric(got/near, "share")
			})
		}
	}
}

// nearRate is the multiplications per second of one panel's first steps, again
// and again, for a full tile of rows.
func nearRate(be *Backend, w *weight) float64 {
	const steps, repeats = 8, 200
	act := heapBytes(20 * bandRows * steps * recordSize)
	panel, l, full := unsafe.SliceData(w.data), w.layout, be.ops.tileFull(true, 20*bandRows)
	tile := new(tileScratch)
	run := func(repeats int) {
		for range repeats {
			be.ops.matMul[l][tileIndex(full)](&tile[0], &act[0], full*recordSize, panel, steps)
		}
	}
	if be.ops.bands != nil {
		s := &be.mm.bands[0]
		s.configure(shapes[l].group)
		codes := unsafe.SliceData(s.codes)
		be.ops.bands.unpack[l](codes, panel, steps)
		run = func(repeats int) {
			for range repeats / 20 {
				be.ops.bands.multiply[l](&s.sums[0], 4*panelRows, &s.sums[0], 0, &act[0], 20, 0, codes, steps, 0, 0, 0, &s.fixed[0])
			}
		}
	}
	run(20) // brings it near
	start := time.Now()
	run(repeats)
	return float64(repeats*full*panelRows*steps*stepCols) / time.Since(start).Seconds()
}

func BenchmarkPool(b *testing.B) {
	be := open(b, Options{})
	nothing := taskFunc(func(int, int) {})
	for b.Loop() {
		be.pool.run(8, nothing)
	}
}

// BenchmarkLoad brings 64 million Q8_0 weights to the backend: packed in
// memory, and found in a finished cache.
func BenchmarkLoad(b *testing.B) {
	src := randomSource(newRand(1), kernel.Q8_0, 1, 16384, 4096)
	dir := b.TempDir()
	first := open(b, Options{CacheDir: dir, CacheKey: "k"})
	load(b, first, src)
	if err := first.Seal(); err != nil {
		b.Fatal(err)
	}
	for name, dir := range map[string]string{"packed": "", "cached": dir} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(src.Data)))
			for b.Loop() {
				be := open(b, Options{CacheDir: dir, CacheKey: "k"})
				load(b, be, src)
				be.Close()
			}
		})
	}
}
