package cpu

import (
	"fmt"
	"testing"
	"time"

	"corenode/engine/kernel"
)

// deltaModels are the Gated DeltaNet shapes of published models.
var deltaModels = []struct {
	name   string
	shape  kernel.DeltaShape
	layers int
}{
	{"35B", kernel.DeltaShape{KHeads: 16, VHeads: 32, Dim: 128, ConvKernel: 4, Tiled: true, Eps: 1e-6}, 30},
	{"0.8B", kernel.DeltaShape{KHeads: 16, VHeads: 16, Dim: 128, ConvKernel: 4, Tiled: true, Eps: 1e-6}, 18},
}

// deltaBench is all layers of a model and inputs of rows rows, the same for each layer.
type deltaBench struct {
	be                       *Backend
	cache                    kernel.Cache
	w                        kernel.DeltaWeights
	shape                    kernel.DeltaShape
	layers                   int
	out, qkv, z, beta, alpha kernel.Buffer
}

func newDeltaBench(b *testing.B, be *Backend, s kernel.DeltaShape, layers, slots, rows int) *deltaBench {
	conv, width := (2*s.KHeads+s.VHeads)*s.Dim, s.VHeads*s.Dim
	cache, err := be.NewCache(kernel.CacheConfig{LinearLayers: layers, StateSlots: slots, ConvDim: conv, ConvKernel: s.ConvKernel,
		VHeads: s.VHeads, StateDim: s.Dim})
	if err != nil {
		b.Fatal(err)
	}
	r := newRand(1)
	mk := func(n int) kernel.Buffer { return upload(be, normals(r, n, 1)) }
	a := normals(r, s.VHeads, 1)
	for i := range a { // as models are initialized: A up to 16, steps of 0.001 to 0.1
		a[i] = -16 * float32(i+1) / float32(len(a))
	}
	bias := normals(r, s.VHeads, 1)
	for i := range bias {
		bias[i] -= 4.5
	}
	return &deltaBench{be, cache, kernel.DeltaWeights{Conv: mk(conv * s.ConvKernel), A: upload(be, a), DtBias: upload(be, bias),
		Norm: mk(s.Dim)}, s, layers,
		mk(rows * width), mk(rows * conv), mk(rows * width), mk(rows * s.VHeads), mk(rows * s.VHeads)}
}

// step runs all layers over spans of n rows of as many sequences as there are.
func (d *deltaBench) step(pos, n, sequences int) {
	step := &kernel.Step{Rows: n * sequences}
	for i := range sequences {
		step.Spans = append(step.Spans, kernel.Span{Row: i * n, Len: n, Pos: pos, State: int32(i)})
	}
	for l := range d.layers {
		d.be.DeltaNet(d.cache, l, d.out, d.qkv, d.z, d.beta, d.alpha, d.w, d.shape, step)
	}
}

// BenchmarkDeltaPrefill compares the chunked form with the recurrent one: the same rows in
// spans that are too short for chunks.
func BenchmarkDeltaPrefill(b *testing.B) {
	for _, m := range deltaModels {
		for _, n := range []int{512, 2048} {
			b.Run(fmt.Sprintf("%s/rows=%d", m.name, n), func(b *testing.B) {
				d := newDeltaBench(b, open(b, Options{}), m.shape, 1, 1, n)
				const short = 8
				var chunked, recurrent time.Duration
				for b.Loop() {
					start := time.Now()
					d.step(0, n, 1)
					middle := time.Now()
					for at := 0; at < n; at += 2 * short { // half of the rows are enough to know
						d.step(at, short, 1)
					}
					chunked, recurrent = chunked+middle.Sub(start), recurrent+2*time.Since(middle)
				}
				rows := float64(b.N * n)
				b.ReportMetric(chunked.Seconds()/rows*1e6, "us/row")
				b.ReportMetric(recurrent.Seconds()/rows*1e6, "recurrent-us/row")
				b.ReportMetric(recurrent.Seconds()/chunked.Seconds(), "ratio")
				macs := float64(m.shape.VHeads*m.shape.Dim) * float64(3*m.shape.Dim+deltaChunk)
				b.ReportMetric(2*macs*rows/chunked.Seconds()/1e9, "GFLOPS")
			})
		}
	}
}

// BenchmarkDeltaDecode reports bytes of the state read and written, beside what a
// plain pass that reads and writes gets.
func BenchmarkDeltaDecode(b *testing.B) {
	for _, m := range deltaModels {
		for _, sequences := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/sequences=%d", m.name, sequences), func(b *testing.B) {
				be := open(b, Options{})
				d := newDeltaBench(b, be, m.shape, m.layers, sequences, sequences)
				d.step(0, 1, sequences)
				bytes := 2 * float64(d.cache.BytesUsed())
				u := newUpdater(b, be, d.cache.BytesUsed())
				var best, ceiling float64
				for b.Loop() {
					start := time.Now()
					d.step(1, 1, sequences)
					best = max(best, bytes/time.Since(start).Seconds())
					ceiling = max(ceiling, u.pass())
				}
				b.ReportMetric(best/1e9, "GB/s")
				b.ReportMetric(ceiling/1e9, "update-GB/s")
				b.ReportMetric(best/ceiling, "share")
				b.ReportMetric(bytes/best/float64(m.layers*sequences)*1e6, "us/layer-row")
			})
		}
	}
}

// updater reads and writes memory of its own on all threads.
type updater struct {
	be  *Backend
	mem block
}

func newUpdater(b *testing.B, be *Backend, bytes int64) *updater {
	mem, err := newBlock(int(bytes) &^ 63)
	if err != nil {
		b.Fatal(err)
	}
	u := &updater{be, mem}
	b.Cleanup(u.mem.free)
	return u
}

// pass returns bytes per second, read and written ones.
func (u *updater) pass() float64 {
	start := time.Now()
	const piece = 16 << 10
	f := u.mem.floats()
	u.be.pool.run(len(f)/piece, taskFunc(func(_, i int) {
		u.be.ops.scale(&f[i*piece], &f[i*piece], 1, piece)
	}))
	return 8 * float64(len(f)/piece*piece) / time.Since(start).Seconds()
}

// BenchmarkDeltaState copies and resets the state of one sequence.
func BenchmarkDeltaState(b *testing.B) {
	be := open(b, Options{})
	m := deltaModels[0]
	d := newDeltaBench(b, be, m.shape, m.layers, 2, 1)
	d.step(0, 1, 1)
	d.cache.CopyState(1, 0)
	one := d.cache.BytesUsed() / 2
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(2 * one)
		for b.Loop() {
			d.cache.CopyState(1, 0)
		}
	})
	b.Run("reset", func(b *testing.B) {
		b.SetBytes(one)
		for b.Loop() {
			d.cache.ResetState(1)
		}
	})
}
