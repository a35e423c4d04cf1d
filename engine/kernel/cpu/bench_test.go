package cpu

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"corenode/engine/kernel"
)

// openReader is a reader that is freed with the benchmark.
func openReader(b *testing.B, be *Backend) *reader {
	r := newReader(be)
	b.Cleanup(r.free)
	return r
}

func BenchmarkReadBandwidth(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			r := openReader(b, open(b, Options{Threads: threads}))
			b.SetBytes(readBytes)
			for b.Loop() {
				r.pass()
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
// its bytes as a share of what plain reading gets in the same minute.
func BenchmarkDecode(b *testing.B) {
	for _, typ := range []kernel.Type{kernel.Q8_0, kernel.Q4_0, kernel.Q4_K, kernel.Q5_K, kernel.Q6_K, kernel.F16} {
		for _, n := range []int{1, 8} {
			b.Run(fmt.Sprintf("type=%d/rows=%d", typ, n), func(b *testing.B) {
				be := open(b, Options{})
				w, r := newStepWeights(b, be, typ, 28), openReader(b, be)
				buf, head := stepBuffers(be, n), be.NewBuffer(n*151936)
				var best, step float64
				for b.Loop() {
					best = max(best, r.pass())
					start := time.Now()
					w.step(be, n, buf, head)
					step = max(step, float64(w.bytes)/time.Since(start).Seconds())
				}
				b.ReportMetric(step/1e9, "GB/s")
				b.ReportMetric(best/1e9, "read-GB/s")
				b.ReportMetric(step/best, "share")
				b.ReportMetric(float64(w.bytes)/step*1e3, "ms/step")
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
	act := heapBytes(bandRows * steps * recordSize)
	panel, l, full := unsafe.SliceData(w.data), w.layout, be.ops.tileFull(true)
	tile := new([tileMax * panelRows]float32)
	run := func(repeats int) {
		for range repeats {
			be.ops.matMul[l][len(tileRows)-1](&tile[0], &act[0], full*recordSize, panel, steps)
		}
	}
	if be.ops.bands != nil {
		s := &be.mm.bands[0]
		s.configure(shapes[l].group)
		base, sums := unsafe.SliceData(s.mem), asFloats(s.mem[bandSumsAt:])
		be.ops.bands.unpack[l](skip(base, bandCodesAt), panel, steps)
		run = func(repeats int) {
			for range repeats / 20 { // sums of 20 bands lie in the scratch
				be.ops.bands.multiply[l](&sums[0], 4*panelRows, &sums[0], 0, &act[0], 20, 0, skip(base, bandCodesAt), steps, 0, 21*steps, base)
			}
		}
	}
	run(20) // brings it near
	start := time.Now()
	run(repeats)
	return float64(repeats*full*panelRows*steps*stepCols) / time.Since(start).Seconds()
}

// BenchmarkAttend is one layer of attention, 16 query heads and 8 KV heads of 128.
func BenchmarkAttend(b *testing.B) {
	for _, c := range []struct{ pos, n, sequences int }{{2048, 1, 1}, {2048, 1, 8}, {1536, 512, 1}} {
		b.Run(fmt.Sprintf("pos=%d/rows=%d/sequences=%d", c.pos, c.n, c.sequences), func(b *testing.B) {
			be := open(b, Options{})
			per := (c.pos + c.n + 15) / 16
			cache, err := be.NewCache(kernel.CacheConfig{Layers: 1, KVHeads: 8, HeadDim: 128, PageTokens: 16, Pages: per * c.sequences})
			if err != nil {
				b.Fatal(err)
			}
			var step kernel.Step
			kv := upload(be, normals(newRand(1), (c.pos+c.n)*1024, 1))
			for s := range c.sequences {
				pages := make([]int32, per)
				for i := range pages {
					pages[i] = int32(s*per + i)
				}
				be.StoreKV(cache, 0, kv, kv, &kernel.Step{Rows: c.pos + c.n, Spans: []kernel.Span{{Len: c.pos + c.n, Pages: pages}}})
				step.Spans = append(step.Spans, kernel.Span{Row: step.Rows, Len: c.n, Pos: c.pos, Pages: pages})
				step.Rows += c.n
			}
			q, out := upload(be, normals(newRand(2), step.Rows*2048, 1)), be.NewBuffer(step.Rows*2048)
			for b.Loop() {
				be.Attend(cache, 0, out, q, &step, 16, 0.088)
			}
			sec := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(cache.BytesUsed())/sec/1e9, "KV-GB/s")
			b.ReportMetric(4*2048*float64(step.Rows)*(float64(c.pos)+float64(c.n)/2)/sec/1e9, "GFLOPS")
		})
	}
}

func BenchmarkDeltaNet(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			be := open(b, Options{})
			const heads, d, conv = 32, 128, 8192
			cache, err := be.NewCache(kernel.CacheConfig{LinearLayers: 1, StateSlots: 1, ConvDim: conv, ConvKernel: 4, VHeads: heads, StateDim: d})
			if err != nil {
				b.Fatal(err)
			}
			r := newRand(1)
			mk := func(n int) kernel.Buffer { return upload(be, normals(r, n, 0.1)) }
			w := kernel.DeltaWeights{Conv: mk(conv * 4), A: mk(heads), DtBias: mk(heads), Norm: mk(d)}
			out, qkv, z, beta, alpha := mk(n*heads*d), mk(n*conv), mk(n*heads*d), mk(n*heads), mk(n*heads)
			step := &kernel.Step{Rows: n, Spans: []kernel.Span{{Len: n}}}
			for b.Loop() {
				be.DeltaNet(cache, 0, out, qkv, z, beta, alpha, w, kernel.DeltaShape{KHeads: 16, VHeads: heads, Dim: d, ConvKernel: 4, Eps: 1e-6}, step)
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*n)*1e6, "us/row")
		})
	}
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
