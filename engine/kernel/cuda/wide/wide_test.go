package wide

import (
	"fmt"
	"math"
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

// attentionCase is a shape; spans are position and length.
type attentionCase struct {
	heads, kvHeads, d, page int
	spans                   [][2]int
	window                  int
	sinks                   bool
}

// attend stores what came before and attends with the spans' rows.
func (c attentionCase) attend(r *rig, b kernel.Backend, in [3][]float32) []float32 {
	var step kernel.Step
	pages := int32(0)
	for _, s := range c.spans {
		var table []int32
		for range up(s[0]+s[1], c.page) {
			table = append([]int32{pages}, table...) // not in order
			pages++
		}
		step.Spans = append(step.Spans, kernel.Span{Row: step.Rows, Len: s[1], Pos: s[0], Pages: table})
		step.Rows += s[1]
	}
	cache, err := b.NewCache(kernel.CacheConfig{Layers: 2, KVHeads: c.kvHeads, HeadDim: c.d, PageTokens: c.page, Pages: int(pages)})
	if err != nil {
		r.Fatal(err)
	}
	defer cache.Close()
	width, from := c.kvHeads*c.d, 0
	for i, s := range c.spans {
		n := s[0] + s[1]
		part := kernel.Step{Rows: n, Spans: []kernel.Span{{Len: n, Pages: step.Spans[i].Pages}}}
		for layer := range 2 { // the other layer's must not be seen
			k, v := in[layer][from*width:], in[1-layer][from*width:]
			b.StoreKV(cache, layer, upload(b, k[:n*width]), upload(b, v[:n*width]), &part)
		}
		from += n
	}
	q, sinks := upload(b, in[2][:step.Rows*c.heads*c.d]), kernel.Buffer(nil)
	if c.sinks {
		sinks = upload(b, in[2][:c.heads])
	}
	out := b.NewBuffer(q.Len())
	b.Attend(cache, 1, out, q, &step, c.heads, c.window, float32(1/math.Sqrt(float64(c.d))), sinks)
	return download(b, out)
}

// input is K, V and queries for a case.
func (c attentionCase) input(r *rig) [3][]float32 {
	tokens, rows := 0, 0
	for _, s := range c.spans {
		tokens, rows = tokens+s[0]+s[1], rows+s[1]
	}
	width := c.kvHeads * c.d
	return [3][]float32{r.Normals(tokens*width, 1), r.Normals(tokens*width, 1), r.Normals(rows*c.heads*c.d, 2)}
}

func checkAttention(r *rig) {
	for _, c := range []attentionCase{
		{heads: 2, kvHeads: 1, d: 64, page: 16, spans: [][2]int{{3, 2}, {37, 70}, {5, 1}, {0, 33}}},
		{heads: 1, kvHeads: 1, d: 128, page: 64, spans: [][2]int{{70, 33}}, window: 40, sinks: true},
		{heads: 2, kvHeads: 2, d: 40, page: 32, spans: [][2]int{{100, 40}}, window: 7},
		{heads: 2, kvHeads: 1, d: 256, page: 16, spans: [][2]int{{10, 35}}, sinks: true},
		{heads: 1, kvHeads: 1, d: 200, page: 16, spans: [][2]int{{40, 32}}, window: 3},
		{heads: 1, kvHeads: 1, d: 104, page: 16, spans: [][2]int{{0, 33}}},
		{heads: 1, kvHeads: 1, d: 100, page: 16, spans: [][2]int{{0, 33}}},
		{heads: 1, kvHeads: 1, d: 24, page: 16, spans: [][2]int{{0, 64}}, sinks: true},
	} {
		in := c.input(r)
		r.Agree(fmt.Sprintf("Attend %+v", c), tensor, func(b kernel.Backend) []float32 { return c.attend(r, b, in) })
	}
}

// recurrenceCase is a DeltaNet layer.
type recurrenceCase struct {
	kHeads, vHeads, d, taps int
	tiled                   bool
	spans                   []kernel.Span
	states                  kernel.StateType
}

// on is such a layer's cache of two on a backend, and what runs a step with it.
func (c recurrenceCase) on(r *rig, b kernel.Backend, in map[string][]float32) (kernel.Cache, func(step *kernel.Step) []float32) {
	channels, width := (2*c.kHeads+c.vHeads)*c.d, c.vHeads*c.d
	cache, err := b.NewCache(kernel.CacheConfig{PageTokens: 16, LinearLayers: 2, StateSlots: 6, ConvDim: channels, ConvKernel: c.taps,
		VHeads: c.vHeads, StateDim: c.d, States: c.states})
	if err != nil {
		r.Fatal(err)
	}
	weights := kernel.DeltaWeights{Conv: upload(b, in["conv"]), A: upload(b, in["a"]), DtBias: upload(b, in["bias"]), Norm: upload(b, in["norm"])}
	return cache, func(step *kernel.Step) []float32 {
		n, out := step.Rows, b.NewBuffer(step.Rows*width)
		b.DeltaNet(cache, 1, out, upload(b, in["qkv"][:n*channels]), upload(b, in["z"][:n*width]), upload(b, in["beta"][:n*c.vHeads]),
			upload(b, in["alpha"][:n*c.vHeads]), weights, c.shape(), step)
		return download(b, out)
	}
}

func (c recurrenceCase) shape() kernel.DeltaShape {
	return kernel.DeltaShape{KHeads: c.kHeads, VHeads: c.vHeads, Dim: c.d, ConvKernel: c.taps, Tiled: c.tiled, Eps: 1e-6}
}

// delta runs a step, then another one from the states that it left.
func (c recurrenceCase) delta(r *rig, b kernel.Backend, in map[string][]float32) []float32 {
	cache, run := c.on(r, b, in)
	defer cache.Close()
	all := run(c.step())
	for i := range c.spans {
		all = append(all, run(&kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pos: 900, State: int32(i)}}})...)
	}
	return all
}

// TestStatesAreRoundedWhenTheyAreStored: a step from no state computes the same whatever states are stored as.
func TestStatesAreRoundedWhenTheyAreStored(t *testing.T) {
	r := newRig(t, interp.Config{})
	for _, d := range []int{64, 128} {
		c := recurrenceCase{1, 2, d, 4, true, []kernel.Span{{Len: 33}, {Len: 70}}, kernel.StateF32}
		in, b := c.input(r), r.cuda
		exactly, run := c.on(r, b, in)
		c.states = kernel.StateBF16
		rounded, again := c.on(r, b, in)
		run(c.step())
		again(c.step())
		values := c.vHeads * d * d
		for slot := range c.spans {
			read := func(of kernel.Cache, each int) []byte {
				return devicetest.Read(t, b.Device(), b.Stream(), b.States(of, 1, c.shape())+b.Places(of).Slot(slot), each*values)
			}
			devicetest.WantRounded(t, read(rounded, 2), read(exactly, 4))
		}
	}
}

func (c recurrenceCase) step() *kernel.Step {
	step := &kernel.Step{}
	for i, s := range c.spans {
		s.Row, s.State = step.Rows, int32(i)
		step.Spans = append(step.Spans, s)
		step.Rows += s.Len
	}
	return step
}

func (c recurrenceCase) input(r *rig) map[string][]float32 {
	n, channels, width := c.step().Rows, (2*c.kHeads+c.vHeads)*c.d, c.vHeads*c.d
	in := map[string][]float32{
		"conv": r.Normals(channels*c.taps, 0.5), "a": r.Normals(c.vHeads, 1), "bias": r.Normals(c.vHeads, 1), "norm": r.Normals(c.d, 1),
		"qkv": r.Normals(n*channels, 1), "z": r.Normals(n*width, 1), "beta": r.Normals(n*c.vHeads, 1), "alpha": r.Normals(n*c.vHeads, 4),
	}
	for i, a := range in["a"] {
		in["a"][i] = float32(-math.Abs(float64(a)))
	}
	copy(in["alpha"], []float32{-12, 25, -0.1}) // softplus next to 0, where it is the value itself, and between
	return in
}

func checkRecurrence(r *rig) {
	for _, c := range []recurrenceCase{
		{1, 2, 64, 4, true, []kernel.Span{{Len: 2}, {Len: 70}, {Len: 40, Saves: []int32{5}}, {Len: 32}}, kernel.StateF32},
		{1, 1, 128, 4, false, []kernel.Span{{Len: 130}}, kernel.StateF32},
		{1, 1, 128, 4, true, []kernel.Span{{Len: 32}}, kernel.StateF32},
		{1, 1, 64, 4, false, []kernel.Span{{Len: 32}}, kernel.StateF32},
		{1, 2, 64, 4, true, []kernel.Span{{Len: 70}, {Len: 32, Saves: []int32{5}}}, kernel.StateBF16},
		{1, 1, 128, 4, false, []kernel.Span{{Len: 65}}, kernel.StateBF16},
		{1, 2, 32, 2, false, []kernel.Span{{Len: 33}}, kernel.StateF32},
	} {
		in := c.input(r)
		r.Agree(fmt.Sprintf("DeltaNet %+v", c), tensor, func(b kernel.Backend) []float32 { return c.delta(r, b, in) })
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
