package cpu

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"corenode/engine/kernel"
)

// attendLayers is the number of layers in a benchmark of decode: together they
// are far above every cache.
const attendLayers = 28

// attendBench is a cache of sequences of depth positions in the shape of a 0.6B
// model: 16 query heads, 8 KV heads of 128.
type attendBench struct {
	be     *Backend
	cache  kernel.Cache
	step   kernel.Step // one row of each sequence
	q, out kernel.Buffer
	bytes  float64 // of K and V that a layer reads
}

func newAttendBench(b *testing.B, o Options, kv kernel.KVType, layers, depth, sequences, rows int) *attendBench {
	const page = 32
	a := &attendBench{be: open(b, o)}
	per := (depth + page - 1) / page
	cfg := kernel.CacheConfig{Layers: layers, KVHeads: 8, HeadDim: 128, PageTokens: page, Pages: per * sequences, KV: kv}
	cache, err := a.be.NewCache(cfg)
	if err != nil {
		b.Fatal(err)
	}
	a.cache = cache
	fill := 512
	x := upload(a.be, normals(newRand(1), fill*1024, 1))
	for s := range sequences {
		pages := make([]int32, per)
		for i := range pages {
			pages[i] = int32(s*per + i)
		}
		for at := 0; at < depth; at += fill {
			n := min(fill, depth-at)
			step := &kernel.Step{Rows: n, Spans: []kernel.Span{{Len: n, Pos: at, Pages: pages}}}
			for layer := range layers {
				a.be.StoreKV(cache, layer, x, x, step)
			}
		}
		a.step.Spans = append(a.step.Spans, kernel.Span{Row: a.step.Rows, Len: rows, Pos: depth - rows, Pages: pages})
		a.step.Rows += rows
	}
	a.bytes = float64(a.be.PageBytes(cfg)) / float64(layers) / page * float64(depth*sequences)
	a.q, a.out = upload(a.be, normals(newRand(2), a.step.Rows*2048, 1)), a.be.NewBuffer(a.step.Rows*2048)
	return a
}

// attend runs layers layers and returns the seconds of one.
func (a *attendBench) attend(layers int) float64 {
	start := time.Now()
	for layer := range layers {
		a.be.Attend(a.cache, layer, a.out, a.q, &a.step, 16, 0, 0.088, nil)
	}
	return time.Since(start).Seconds() / float64(layers)
}

// BenchmarkAttendDecode is how fast attention of decode reads K and V, and its
// share of what plain reading gets in the same minute.
func BenchmarkAttendDecode(b *testing.B) {
	for _, c := range []struct{ depth, sequences, layers int }{{2048, 1, attendLayers}, {2048, 8, attendLayers / 4},
		{16384, 1, attendLayers / 4}} {
		for _, kv := range []kernel.KVType{kernel.KVF16, kernel.KVQ8, kernel.KVF32} {
			for _, level := range Levels() {
				if level == "portable" {
					continue
				}
				b.Run(fmt.Sprintf("depth=%d/sequences=%d/kv=%s/%s", c.depth, c.sequences, kv, level), func(b *testing.B) {
					a := newAttendBench(b, Options{Level: level}, kv, c.layers, c.depth, c.sequences, 1)
					r := openReader(b, 0)
					var best, read float64
					for b.Loop() {
						read = max(read, r.Pass())
						best = max(best, a.bytes/a.attend(c.layers))
					}
					b.ReportMetric(best/1e9, "KV-GB/s")
					b.ReportMetric(read, "read-GB/s")
					b.ReportMetric(best/1e9/read, "share")
				})
			}
		}
	}
}

// BenchmarkAttendPrefill is the arithmetic of attention for a prompt in one
// piece, masked products left out, and its share of the multiply-adds that the
// registers could do.
func BenchmarkAttendPrefill(b *testing.B) {
	for _, depth := range []int{512, 2048} {
		for _, kv := range []kernel.KVType{kernel.KVF16, kernel.KVQ8, kernel.KVF32} {
			for _, level := range Levels() {
				if level == "portable" {
					continue
				}
				b.Run(fmt.Sprintf("tokens=%d/kv=%s/%s", depth, kv, level), func(b *testing.B) {
					a := newAttendBench(b, Options{Level: level}, kv, 1, depth, 1, depth)
					work := 2 * 2 * 2048 * float64(depth) * float64(depth+1) / 2
					var best, peak float64
					for b.Loop() {
						peak = max(peak, a.be.multiplyPass())
						best = max(best, work/a.attend(1))
					}
					b.ReportMetric(best/1e9, "GFLOPS")
					b.ReportMetric(peak/1e9, "peak-GFLOPS")
					b.ReportMetric(best/peak, "share")
				})
			}
		}
	}
}

// BenchmarkStoreKV is the cost of storing a layer's K and V.
func BenchmarkStoreKV(b *testing.B) {
	for _, rows := range []int{1, 512} {
		for _, kv := range []kernel.KVType{kernel.KVF16, kernel.KVQ8, kernel.KVF32} {
			b.Run(fmt.Sprintf("rows=%d/kv=%s", rows, kv), func(b *testing.B) {
				a := newAttendBench(b, Options{}, kv, 1, 1024, 1, rows)
				x := upload(a.be, normals(newRand(1), rows*1024, 1))
				for b.Loop() {
					a.be.StoreKV(a.cache, 0, x, x, &a.step)
				}
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*rows)*1e6, "us/row")
			})
		}
	}
}

// BenchmarkAttendPrompt is a layer's attention of a prompt's rows after depth
// positions: as a span of generated rows, and as one of a prompt. Matrix tiles
// reach their speed only some milliseconds after they were last at rest, so one
// kind runs for a while before the other.
func BenchmarkAttendPrompt(b *testing.B) {
	for _, c := range []struct{ rows, depth int }{{512, 0}, {90, 2000}, {64, 8000}, {512, 32768}} {
		for _, prompt := range []bool{false, true} {
			b.Run(fmt.Sprintf("rows=%d/depth=%d/prompt=%v", c.rows, c.depth, prompt), func(b *testing.B) {
				a := newAttendBench(b, Options{}, kernel.KVF16, 1, c.depth+c.rows, 1, c.rows)
				a.step.Spans[0].Prompt = prompt
				var seconds []float64
				for b.Loop() {
					seconds = append(seconds, a.attend(1))
				}
				slices.Sort(seconds)
				b.ReportMetric(seconds[0]*1e3, "best-ms")
				b.ReportMetric(seconds[len(seconds)/2]*1e3, "median-ms")
			})
		}
	}
}

// multiplyRounds is how many rounds of multiplications a thread claims at once.
const multiplyRounds = 1 << 16

// multiplier multiplies and adds in registers, as fast as they can.
type multiplier struct{ b *Backend }

func (m multiplier) do(_, _ int) { m.b.ops.multiply(multiplyRounds) }

// multiplyPass returns float32 operations per second of all threads together,
// a multiply-add being two: what arithmetic could reach at most.
func (b *Backend) multiplyPass() float64 {
	tasks := 8 * b.Threads()
	start := time.Now()
	b.pool.run(tasks, multiplier{b})
	return float64(2*tasks*multiplyRounds*b.ops.multiplies) / time.Since(start).Seconds()
}
