package fused

import (
	"math"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/tune"
	"corenode/engine/kernel/cuda/wide"
	"corenode/engine/kernel/ref"
	"corenode/engine/modelfile"
)

// exact is how far from the reference logits may be, as a relative Frobenius error: nothing is rounded but sums in
// float32.
const exact = 1e-5

// near is how far they may be where K and V are rounded: a value in the middle between two may become either.
const near = 4 * exact

// brains is the same of states that are rounded to bfloat16: it was 0.00014 at most.
const brains = 1e-3

// tolerance is that of a plan.
func (p plan) tolerance() float64 {
	switch {
	case p.states == kernel.StateBF16:
		return brains
	case p.store == kernel.KVF32:
		return exact
	}
	return near
}

// plan is a network with random weights.
type plan struct {
	name             string
	heads, kvHeads   int
	d                int
	store            kernel.KVType
	hidden, vocab    int
	types            [3]kernel.Type // of matrices, in turns
	state, taps      int            // width of DeltaNet's, and inputs of its convolution
	states           kernel.StateType
	half             int  // pairs of a head that turn
	gated, extras    bool // extras are biases, norms of q and k, sinks, a window
	shared, ungated  bool // a shared expert; without a gate
	experts, top, ff int
	wider            int // by so much is the shared expert
	predicts         bool
	layers           string // a letter each: A attention, L linear; small: with an FFN, large: with experts
}

// inputs are the random numbers of a plan, the same for every backend.
type inputs struct {
	plan
	*rand.Rand
	t    testing.TB
	b    kernel.Backend
	next int // type of the next matrix
}

func (in *inputs) normals(n int, scale float64) []float32 {
	return devicetest.Normals(in.Rand, n, scale)
}

func (in *inputs) vector(n int, around float32) kernel.Buffer {
	v := in.normals(n, 0.2)
	for i := range v {
		v[i] += around
	}
	x := in.b.NewBuffer(n)
	in.b.Upload(x, 0, v)
	return x
}

// matrix is of the plan's next type.
func (in *inputs) matrix(experts, rows, cols int) kernel.Weight {
	typ := in.types[in.next%3]
	in.next++
	return in.typed(typ, experts, rows, cols)
}

func (in *inputs) typed(typ kernel.Type, experts, rows, cols int) kernel.Weight {
	data, err := modelfile.Quantize(typ, in.normals(experts*rows*cols, 1/math.Sqrt(float64(cols))))
	if err != nil {
		in.t.Fatal(err)
	}
	w, err := in.b.Load(kernel.Source{Name: "w", Type: typ, Experts: experts, Rows: rows, Cols: cols, Data: data})
	if err != nil {
		in.t.Fatal(err)
	}
	return w
}

// network is the plan's on a backend. K heads of DeltaNet are half of its V heads.
func (p plan) network(t testing.TB, b kernel.Backend) *kernel.Network {
	in := &inputs{plan: p, Rand: rand.New(rand.NewPCG(3, 4)), t: t, b: b}
	n := &kernel.Network{
		Hidden: p.hidden, Vocabulary: p.vocab, Eps: 1e-6, Heads: p.heads, KVHeads: p.kvHeads, HeadDim: p.d,
		QueryScale: float32(1 / math.Sqrt(float64(p.d))), RopeGain: 1.1, Neox: p.extras,
		Embed: in.matrix(1, p.vocab, p.hidden), Head: in.matrix(1, p.vocab, p.hidden), Norm: in.vector(p.hidden, 1),
		Delta: kernel.DeltaShape{KHeads: 1, VHeads: 2, Dim: p.state, ConvKernel: p.taps, Tiled: p.extras, Eps: 1e-6},
	}
	for i := range p.half {
		n.InvFreq = append(n.InvFreq, math.Pow(100, -float64(i)/float64(p.half)))
	}
	counts := map[bool]int{}
	for _, kind := range p.layers {
		linear := kind == 'l' || kind == 'L'
		l := kernel.Layer{Index: counts[linear], Norm: in.vector(p.hidden, 1), FFNNorm: in.vector(p.hidden, 1)}
		counts[linear]++
		if linear {
			in.linear(&l, n.Delta)
		} else {
			in.attention(&l)
		}
		in.rest(&l, kind < 'a')
		n.Layers = append(n.Layers, l)
	}
	if !p.predicts {
		return n
	}
	l := kernel.Layer{Index: counts[false], Norm: in.vector(p.hidden, 1), FFNNorm: in.vector(p.hidden, 1)}
	in.attention(&l)
	in.rest(&l, p.layers[0] < 'a')
	n.Prediction = &kernel.Prediction{
		Embed: n.Embed, Head: in.matrix(1, p.vocab, p.hidden), ENorm: in.vector(p.hidden, 1), HNorm: in.vector(p.hidden, 1),
		FromE: in.matrix(1, p.hidden, p.hidden), FromH: in.matrix(1, p.hidden, p.hidden), Layer: l, Norm: in.vector(p.hidden, 1),
	}
	return n
}

func (in *inputs) attention(l *kernel.Layer) {
	q, kv := in.heads*in.d, in.kvHeads*in.d
	wide := q
	if in.gated {
		wide = 2 * q
	}
	a := &kernel.Attention{Gated: in.gated}
	a.Q, a.K, a.V = in.matrix(1, wide, in.hidden), in.matrix(1, kv, in.hidden), in.matrix(1, kv, in.hidden)
	l.Attention, l.Out = a, in.matrix(1, in.hidden, q)
	if in.extras {
		a.QBias, a.KBias, a.VBias, l.OutBias = in.vector(wide, 0), in.vector(kv, 0), in.vector(kv, 0), in.vector(in.hidden, 0)
		a.QNorm, a.KNorm, a.Sinks, a.Window = in.vector(in.d, 1), in.vector(in.d, 1), in.vector(in.heads, 0), 40
	}
}

func (in *inputs) linear(l *kernel.Layer, s kernel.DeltaShape) {
	channels, wide := (2*s.KHeads+s.VHeads)*s.Dim, s.VHeads*s.Dim
	l.Linear = &kernel.Linear{
		QKV: in.matrix(1, channels, in.hidden), Z: in.matrix(1, wide, in.hidden),
		Beta: in.matrix(1, s.VHeads, in.hidden), Alpha: in.matrix(1, s.VHeads, in.hidden),
		Small: kernel.DeltaWeights{Conv: in.vector(channels*s.ConvKernel, 0.2), A: in.vector(s.VHeads, -0.5),
			DtBias: in.vector(s.VHeads, 0.5), Norm: in.vector(s.Dim, 1)},
	}
	in.b.Upload(l.Linear.Small.DtBias, 0, []float32{-8}) // a head that hardly forgets
	l.Out = in.matrix(1, in.hidden, wide)
}

// rest is the FFN or experts.
func (in *inputs) rest(l *kernel.Layer, experts bool) {
	ffn := func(inner int) kernel.FFN {
		return kernel.FFN{Gate: in.matrix(1, inner, in.hidden), Up: in.matrix(1, inner, in.hidden), Down: in.matrix(1, in.hidden, inner)}
	}
	if !experts {
		l.FFN = ffn(in.ff)
		return
	}
	l.Router, l.Routing = in.matrix(1, in.experts, in.hidden), kernel.Routing{Top: in.top}
	l.Experts = kernel.ExpertStack{Gate: in.matrix(in.experts, in.ff, in.hidden), Up: in.matrix(in.experts, in.ff, in.hidden),
		Down: in.matrix(in.experts, in.hidden, in.ff)}
	if in.extras {
		l.RouterBias = in.vector(in.experts, 0)
	}
	if in.shared {
		l.FFN = ffn(in.ff + in.wider)
		if !in.ungated {
			l.SharedGate = in.matrix(1, 1, in.hidden)
		}
	}
}

// rig is a plan on a device and on the reference, with sequences of some length in both caches.
type rig struct {
	testing.TB
	plan
	cuda     *Backend
	network  *kernel.Network
	fused    *decoder
	cache    kernel.Cache
	refs     kernel.Backend
	want     *kernel.Network
	refCache kernel.Cache
	spans    []kernel.Span
	random   *rand.Rand
	hidden   kernel.Buffer // what the reference's latest pass or prediction ended with
}

const (
	pageTokens = 16
	savesMax   = 3 // slots behind those of the sequences
)

// newRig has a sequence for each length, which many tokens are before.
func newRig(t testing.TB, p plan, device cuda.Driver, images map[string]string, lengths ...int) *rig {
	t.Helper()
	b, err := eager.New(device, eager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{TB: t, plan: p, refs: ref.New(), random: rand.New(rand.NewPCG(uint64(len(p.name)), 9))}
	w := &wide.Backend{Backend: b}
	w.Reshape(tune.For(""))
	if r.cuda, err = extend(w, images); err != nil {
		t.Fatal(err)
	}
	r.network, r.want = p.network(t, r.cuda), p.network(t, r.refs)
	f, err := r.cuda.Fuse(r.network)
	if f == nil || err != nil {
		t.Fatalf("the network is not fused: %v", err)
	}
	r.fused = f.(*decoder)
	r.fused.blocks = 16 // so that parts of attention have more than one tile
	c := kernel.CacheConfig{KVHeads: p.kvHeads, HeadDim: p.d, PageTokens: pageTokens, Pages: 8 * len(lengths), KV: p.store}
	for _, l := range r.network.Layers {
		if l.Attention != nil {
			c.Layers++
		} else {
			c.LinearLayers++
		}
	}
	if p.predicts {
		c.Layers++
	}
	if c.LinearLayers > 0 {
		c.StateSlots, c.ConvDim, c.ConvKernel, c.VHeads, c.StateDim = len(lengths)+savesMax, 4*p.state, p.taps, 2, p.state
		c.States = p.states
	}
	if r.cache, err = r.cuda.NewCache(c); err != nil {
		t.Fatal(err)
	}
	if r.refCache, err = r.refs.NewCache(c); err != nil {
		t.Fatal(err)
	}
	for i, n := range lengths {
		r.fill(c, i, n)
	}
	return r
}

// fill puts random K and V before a sequence.
func (r *rig) fill(c kernel.CacheConfig, i, n int) {
	s := kernel.Span{Row: 0, Len: n, State: int32(i)}
	for j := range 8 {
		s.Pages = append(s.Pages, int32(8*i+(j*3+i)%8))
	}
	width := r.kvHeads * r.d
	in := &inputs{Rand: r.random}
	for layer := range c.Layers {
		if n == 0 {
			break
		}
		if layer == c.Layers-1 && r.predicts {
			in.Rand = rand.New(rand.NewPCG(uint64(i), 5)) // so that the other layers have what they have without
		}
		k, v := in.normals(n*width, 1), in.normals(n*width, 1)
		for b, cache := range map[kernel.Backend]kernel.Cache{r.cuda: r.cache, r.refs: r.refCache} {
			to := [2]kernel.Buffer{b.NewBuffer(n * width), b.NewBuffer(n * width)}
			b.Upload(to[0], 0, k)
			b.Upload(to[1], 0, v)
			b.StoreKV(cache, layer, to[0], to[1], &kernel.Step{Rows: n, Spans: []kernel.Span{s}})
		}
	}
	s.Pos, s.Len = n, 1
	r.spans = append(r.spans, s)
}

// step is the next one of some sequences, whose logits are all asked for.
func (r *rig) step(sequences ...int) *kernel.Input {
	return r.drafted(make([]int, len(sequences)), sequences...)
}

// drafted is a step of some sequences with so many tokens of a draft each, whose states are saved where there is
// one. Keep says how many are.
func (r *rig) drafted(drafts []int, sequences ...int) *kernel.Input {
	in := &kernel.Input{Cache: r.cache}
	saved := int32(len(r.spans))
	for n, i := range sequences {
		s := r.spans[i]
		s.Row, s.Len = len(in.Tokens), 1+drafts[n]
		for range s.Len {
			in.Rows = append(in.Rows, kernel.Row{Row: int32(len(in.Tokens)), Logits: true})
			in.Tokens = append(in.Tokens, int32(r.random.IntN(r.vocab)))
		}
		for range drafts[n] {
			s.Saves = append(s.Saves, saved)
			saved++
		}
		in.Step.Spans = append(in.Step.Spans, s)
		r.spans[i].Pos += s.Len
	}
	in.Step.Rows = len(in.Tokens)
	return in
}

// keep takes the i-th sequence of a step back to where it had so many of its rows, which are not all.
func (r *rig) keep(in *kernel.Input, i, sequence, rows int) {
	s := in.Step.Spans[i]
	r.spans[sequence].Pos, r.spans[sequence].State = s.Pos+rows, s.Saves[rows-1]
}

// run computes a step and returns what it gave.
func (r *rig) run(in *kernel.Input) *kernel.Output {
	r.Helper()
	if !r.fused.Step(in) {
		r.Fatal("the step is not fused")
	}
	n := len(in.Rows)
	out := &kernel.Output{Tokens: make([]int32, n), Free: make([]int32, n), Logits: make([][]float32, n)}
	for i := range out.Logits {
		out.Logits[i] = make([]float32, r.vocab)
	}
	r.cuda.Collect(out)
	return out
}
