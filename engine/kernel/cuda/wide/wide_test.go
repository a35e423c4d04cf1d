package wide

import (
	"fmt"
	"slices"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/interp"
)

// operations are compared with the reference on fresh random input. Together they run every
// instruction of every kernel.
var operations = []struct {
	name  string
	check func(r *rig)
}{
	{"products", checkProducts}, {"products of single warps", plainly(checkProducts)},
	{"blocks", checkBlocks}, {"experts", checkExperts}, {"experts of single warps", plainly(checkExperts)}, {"attention", checkAttention}, {"recurrence", checkRecurrence},
}

// TestOperationsAgreeWithTheReference looks for races, too.
func TestOperationsAgreeWithTheReference(t *testing.T) {
	r := newRig(t, interp.Config{Shadow: true})
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) { o.check(r.with(t)) })
	}
	if d, ok := r.Device.(*interp.Device); ok {
		ours := map[string]bool{}
		for _, text := range images() {
			for _, name := range devicetest.Entries(text) {
				ours[name] = true
			}
		}
		for _, line := range d.Unexecuted() {
			if ours[kernelOf(line)] {
				t.Errorf("no test runs %s", line)
			}
		}
		t.Logf("%d instructions of warps", d.Instructions())
	}
}

// plainly is a check of the kernels for compute capability 8.0.
func plainly(check func(r *rig)) func(r *rig) {
	return func(r *rig) {
		groups := r.cuda.groups
		r.cuda.groups = false
		check(r)
		r.cuda.groups = groups
	}
}

func checkProducts(r *rig) {
	for _, c := range []struct {
		typ           kernel.Type
		n, rows, cols int
		scale         float64
	}{
		{kernel.F16, 32, 290, 264, 1}, {kernel.BF16, 133, 290, 72, 1}, {kernel.F16, 40, 3, 8, 1e5}, {kernel.F32, 33, 3, 16, 1},
		{kernel.F16, 31, 3, 16, 1}, {kernel.BF16, 40, 3, 200, 1e5},
	} {
		first, second, x := r.Source(c.typ, 1, c.rows, c.cols), r.Source(kernel.F16, 1, 2, c.cols), r.Normals(c.n*c.cols, c.scale)
		clear(x[c.cols : 2*c.cols])
		r.Agree(fmt.Sprintf("MatMul %+v", c), tensor, func(b kernel.Backend) []float32 {
			to := []kernel.Buffer{b.NewBuffer(c.n * c.rows), b.NewBuffer(c.n * 2)}
			b.MatMul(to, upload(b, x), c.n, []kernel.Weight{r.Load(b, first), r.Load(b, second)})
			return append(download(b, to[0]), download(b, to[1])...)
		})
	}
}

// blocks is how far a product of blocks may be from that of what they mean.
const blocks = 1e-2

// checkBlocks is of matrices that stay blocks of a model file.
func checkBlocks(r *rig) {
	for _, typ := range []kernel.Type{kernel.Q8_0, kernel.Q4_K, kernel.F8E4M3} {
		cols := map[kernel.Type]int{kernel.Q8_0: 160, kernel.Q4_K: 512, kernel.F8E4M3: 384}[typ]
		first, x := r.Source(typ, 1, 131, cols), r.Normals(34*cols, 1)
		r.Agree(fmt.Sprintf("MatMul of type %d", typ), blocks, func(b kernel.Backend) []float32 {
			to := b.NewBuffer(34 * 131)
			b.MatMul([]kernel.Buffer{to}, upload(b, x), 34, []kernel.Weight{r.Load(b, first)})
			return download(b, to)
		})
		const experts, wide, narrow = 2, 256, 40
		in, logits, biases := r.Normals(150*wide, 1), r.Normals(150*experts, 1), r.Normals(experts*wide, 1)
		into := []kernel.Source{r.Source(typ, experts, narrow, wide), r.Source(kernel.F16, experts, 33, narrow)}
		from := []kernel.Source{r.Source(kernel.F16, experts, wide, narrow), r.Source(typ, experts, 33, wide)}
		for _, c := range []struct {
			n      int
			stack  []kernel.Source
			biased bool
		}{{150, into, false}, {32, into, true}, {32, from, false}} {
			cols := c.stack[0].Cols
			r.Agree(fmt.Sprintf("Experts of type %d, %d rows of %d", typ, c.n, cols), blocks, func(b kernel.Backend) []float32 {
				s := kernel.ExpertStack{Gate: r.Load(b, c.stack[0]), Up: r.Load(b, c.stack[0]), Down: r.Load(b, c.stack[1])}
				if c.biased {
					s.GateBias, s.UpBias, s.DownBias = upload(b, biases), upload(b, biases), upload(b, biases)
					s.Limit, s.Alpha = 0.8, 1.7
				}
				to := b.NewBuffer(c.n * 33)
				b.Experts(to, upload(b, in[:c.n*cols]), upload(b, logits[:c.n*experts]), c.n, s, kernel.Routing{Top: 1})
				return download(b, to)
			})
		}
	}
}

func checkExperts(r *rig) {
	for _, c := range []struct {
		n, experts, top, hidden, ff int
		gate, down                  kernel.Type
		biased                      bool
	}{
		{40, 5, 2, 72, 72, kernel.F16, kernel.BF16, false}, {150, 2, 2, 16, 8, kernel.BF16, kernel.F16, true},
		{35, 3, 1, 8, 24, kernel.F16, kernel.F16, true},
		{32, 2, 1, 136, 8, kernel.BF16, kernel.BF16, false},
	} {
		x, logits := r.Normals(c.n*c.hidden, 1), r.Normals(c.n*c.experts, 2)
		for i := range c.n {
			logits[i*c.experts] -= 100 // an expert without rows, but where all are needed
		}
		sources := []kernel.Source{
			r.Source(c.gate, c.experts, c.ff, c.hidden), r.Source(c.gate, c.experts, c.ff, c.hidden),
			r.Source(c.down, c.experts, c.hidden, c.ff),
		}
		biases := [][]float32{r.Normals(c.experts*c.ff, 1), r.Normals(c.experts*c.ff, 1), r.Normals(c.experts*c.hidden, 1)}
		r.Agree(fmt.Sprintf("Experts %+v", c), tensor, func(b kernel.Backend) []float32 {
			s := kernel.ExpertStack{Gate: r.Load(b, sources[0]), Up: r.Load(b, sources[1]), Down: r.Load(b, sources[2])}
			if c.biased {
				s.GateBias, s.UpBias, s.DownBias = upload(b, biases[0]), upload(b, biases[1]), upload(b, biases[2])
				s.Limit, s.Alpha = 0.8, 1.7
			}
			to := b.NewBuffer(c.n * c.hidden)
			b.Experts(to, upload(b, x), upload(b, logits), c.n, s, kernel.Routing{Top: c.top, Scale: 1.5})
			return download(b, to)
		})
	}
}

func checkAttention(r *rig) {
	for _, c := range []devicetest.Attention{
		{Heads: 2, KVHeads: 1, Dim: 64, Page: 16, Spans: [][2]int{{3, 2}, {37, 70}, {5, 1}, {0, 33}}},
		{Heads: 1, KVHeads: 1, Dim: 128, Page: 64, Spans: [][2]int{{70, 33}}, Window: 40, Sinks: true},
		{Heads: 2, KVHeads: 2, Dim: 40, Page: 32, Spans: [][2]int{{100, 40}}, Window: 7},
		{Heads: 2, KVHeads: 1, Dim: 256, Page: 16, Spans: [][2]int{{10, 35}}, Sinks: true},
		{Heads: 1, KVHeads: 1, Dim: 200, Page: 16, Spans: [][2]int{{40, 32}}, Window: 3},
		{Heads: 1, KVHeads: 1, Dim: 104, Page: 16, Spans: [][2]int{{0, 33}}},
		{Heads: 1, KVHeads: 1, Dim: 100, Page: 16, Spans: [][2]int{{0, 33}}},
		{Heads: 1, KVHeads: 1, Dim: 24, Page: 16, Spans: [][2]int{{0, 64}}, Sinks: true},
	} {
		in := c.Input(r.Random)
		r.Agree(fmt.Sprintf("Attend %+v", c), tensor, func(b kernel.Backend) []float32 { return c.Attend(r, b, in) })
	}
}

// delta runs a step, then another one from the states that it left.
func delta(r *rig, c devicetest.Recurrence, b kernel.Backend, in map[string][]float32) []float32 {
	v := c.On(r, b, in)
	defer v.Cache.Close()
	all := v.Run(1, 0, c.Step())
	for i := range c.Spans {
		all = append(all, v.Run(1, 0, &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pos: 900, State: int32(i)}}})...)
	}
	return all
}

// TestStatesAreRoundedWhenTheyAreStored: a step from no state computes the same whatever states are stored as.
func TestStatesAreRoundedWhenTheyAreStored(t *testing.T) {
	r := newRig(t, interp.Config{})
	for _, d := range []int{64, 128} {
		c := devicetest.Recurrence{KHeads: 1, VHeads: 2, Dim: d, Taps: 4, Tiled: true, Spans: []kernel.Span{{Len: 33}, {Len: 70}}}
		in, b := c.Input(r.Random), r.cuda
		exactly := c.On(r, b, in)
		c.States = kernel.StateBF16
		rounded := c.On(r, b, in)
		exactly.Run(1, 0, c.Step())
		rounded.Run(1, 0, c.Step())
		values := c.VHeads * d * d
		for slot := range c.Spans {
			read := func(of *devicetest.Layer, each int) []byte {
				at := b.States(of.Cache, 1, c.Shape()) + b.Places(of.Cache).Slot(slot)
				return devicetest.Read(t, b.Device(), b.Stream(), at, each*values)
			}
			devicetest.WantRounded(t, read(rounded, 2), read(exactly, 4))
		}
	}
}

func checkRecurrence(r *rig) {
	for _, c := range []devicetest.Recurrence{
		{KHeads: 1, VHeads: 2, Dim: 64, Taps: 4, Tiled: true,
			Spans: []kernel.Span{{Len: 2}, {Len: 70}, {Len: 40, Saves: []int32{5}}, {Len: 32}}},
		{KHeads: 1, VHeads: 1, Dim: 128, Taps: 4, Spans: []kernel.Span{{Len: 130}}},
		{KHeads: 1, VHeads: 1, Dim: 128, Taps: 4, Tiled: true, Spans: []kernel.Span{{Len: 32}}},
		{KHeads: 1, VHeads: 1, Dim: 64, Taps: 4, Spans: []kernel.Span{{Len: 32}}},
		{KHeads: 1, VHeads: 2, Dim: 64, Taps: 4, Tiled: true, States: kernel.StateBF16,
			Spans: []kernel.Span{{Len: 70}, {Len: 32, Saves: []int32{5}}}},
		{KHeads: 1, VHeads: 1, Dim: 128, Taps: 4, States: kernel.StateBF16, Spans: []kernel.Span{{Len: 65}}},
		{KHeads: 1, VHeads: 2, Dim: 32, Taps: 2, Spans: []kernel.Span{{Len: 33}}},
	} {
		in := c.Input(r.Random)
		r.Agree(fmt.Sprintf("DeltaNet %+v", c), tensor, func(b kernel.Backend) []float32 { return delta(r, c, b, in) })
	}
}

// TestLongPromptsGoInPasses lays out more chunks than are prepared at once.
func TestLongPromptsGoInPasses(t *testing.T) {
	b := &Backend{}
	const rows = chunksMax*chunkRows + 10
	passes := b.passes(&kernel.Step{Rows: rows + 40, Spans: []kernel.Span{{Len: rows, State: 7}, {Row: rows, Len: 40, State: 8}}})
	if want := []pass{{0, chunksMax, 1}, {2*chunksMax + 5, 2, 2}}; fmt.Sprint(passes) != fmt.Sprint(want) {
		t.Fatalf("passes %v, want %v", passes, want)
	}
	got := b.chunks.next[passes[1].at:]
	want := []int32{chunksMax * chunkRows, 10, rows, 40, chunksMax * chunkRows, 10, 7, 0, 1, rows, 40, 8, 1, 2}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the last pass is %v, want %v", got, want)
	}
}

// TestTheInterpreterGivesTheSameBits: products have the bits of a GPU, and those of the interpreter in another order.
func TestTheInterpreterGivesTheSameBits(t *testing.T) {
	r := newRig(t, interp.Config{})
	other, err := New(interp.Open(interp.Config{Seed: 7}), eager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	for _, typ := range []kernel.Type{kernel.F16, kernel.BF16} {
		w, x := r.Source(typ, 1, 40, 136), r.Normals(33*136, 1)
		var got [2][]float32
		for i, b := range []kernel.Backend{r.cuda, other} {
			to := b.NewBuffer(33 * 40)
			b.MatMul([]kernel.Buffer{to}, upload(b, x), 33, []kernel.Weight{r.Load(b, w)})
			got[i] = download(b, to)
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("type %d: the bits differ, by %g", typ, distance(got[0], got[1]))
		}
	}
}

// TestARowAloneIsNearTheSameRowAmongMany: a step of few rows and one of many round differently, and not by much;
// among many, the others do not matter.
func TestARowAloneIsNearTheSameRowAmongMany(t *testing.T) {
	r := newRig(t, interp.Config{})
	const rows, cols = 9, 136
	w, x := r.Load(r.cuda, r.Source(kernel.F16, 1, rows, cols)), r.Normals(160*cols, 1)
	product := func(n int) []float32 {
		to := r.cuda.NewBuffer(n * rows)
		r.cuda.MatMul([]kernel.Buffer{to}, upload(r.cuda, x[:n*cols]), n, []kernel.Weight{w})
		return download(r.cuda, to)[:rows]
	}
	alone, some, many := product(1), product(rowsMin), product(160)
	if !slices.Equal(some, many) {
		t.Errorf("the bits of a row among %d and among 160 differ", rowsMin)
	}
	if far := distance(many, alone); !(far <= 1e-2) {
		t.Errorf("alone and among many: error %g", far)
	}
}
