package cpu

import (
	"testing"

	"corenode/engine/kernel"
)

// deltaLayers is some Gated DeltaNet layers of one shape with random weights,
// and the inputs of any number of sequences.
type deltaLayers struct {
	shape  kernel.DeltaShape
	layers int
	tokens int // of each sequence
	// gates changes the random alpha and beta of a token; nil leaves them.
	gates func(seq, pos, head int, alpha, beta float32) (float32, float32)
}

// deltaPiece is one span of a step.
type deltaPiece struct {
	seq, pos, n int
	slot        int32
	saves       []int32
}

// deltaRun is the layers on a backend, with a cache.
type deltaRun struct {
	deltaLayers
	t     testing.TB
	b     kernel.Backend
	cache kernel.Cache
	w     []kernel.DeltaWeights
	known map[[2]int][4][]float32
}

func (l deltaLayers) convDim() int { return (2*l.shape.KHeads + l.shape.VHeads) * l.shape.Dim }
func (l deltaLayers) width() int   { return l.shape.VHeads * l.shape.Dim }

// on brings the layers to a backend; the same layers have the same values on each.
func (l deltaLayers) on(t testing.TB, b kernel.Backend, slots int) *deltaRun {
	t.Helper()
	cache, err := b.NewCache(kernel.CacheConfig{PageTokens: 16, LinearLayers: l.layers, StateSlots: slots, ConvDim: l.convDim(),
		ConvKernel: l.shape.ConvKernel, VHeads: l.shape.VHeads, StateDim: l.shape.Dim})
	if err != nil {
		t.Fatal(err)
	}
	run := &deltaRun{deltaLayers: l, t: t, b: b, cache: cache, known: map[[2]int][4][]float32{}}
	for i := range l.layers {
		r := newRand(uint64(50 + i))
		a := normals(r, l.shape.VHeads, 1)
		for i := range a {
			a[i] = -a[i] * a[i]
		}
		run.w = append(run.w, kernel.DeltaWeights{Conv: upload(b, normals(r, l.convDim()*l.shape.ConvKernel, 0.5)), A: upload(b, a),
			DtBias: upload(b, normals(r, l.shape.VHeads, 1)), Norm: upload(b, normals(r, l.shape.Dim, 1))})
	}
	return run
}

// inputs are qkv, z, beta and alpha of all tokens of a sequence in a layer.
func (r *deltaRun) inputs(seq, layer int) [4][]float32 {
	key := [2]int{seq, layer}
	if in, ok := r.known[key]; ok {
		return in
	}
	var in [4][]float32
	for k, wide := range r.wide() {
		in[k] = normals(newRand(uint64(seq*1000+layer*10+k)), r.tokens*wide, 1)
	}
	for i := range in[3] {
		if heads := r.shape.VHeads; r.gates != nil {
			in[3][i], in[2][i] = r.gates(seq, i/heads, i%heads, in[3][i], in[2][i])
		}
	}
	r.known[key] = in
	return in
}

func (r *deltaRun) wide() [4]int {
	return [4]int{r.convDim(), r.width(), r.shape.VHeads, r.shape.VHeads}
}

// step computes pieces together and returns the output rows of each, all
// layers one after the other.
func (r *deltaRun) step(pieces ...deltaPiece) [][]float32 {
	r.t.Helper()
	var step kernel.Step
	for _, p := range pieces {
		step.Spans = append(step.Spans, kernel.Span{Row: step.Rows, Len: p.n, Pos: p.pos, State: p.slot, Saves: p.saves})
		step.Rows += p.n
	}
	out := make([][]float32, len(pieces))
	for layer := range r.layers {
		var in [4][]float32
		for _, p := range pieces {
			for k, all := range r.inputs(p.seq, layer) {
				wide := r.wide()[k]
				in[k] = append(in[k], all[p.pos*wide:(p.pos+p.n)*wide]...)
			}
		}
		dst := r.b.NewBuffer(step.Rows * r.width())
		r.b.DeltaNet(r.cache, layer, dst, upload(r.b, in[0]), upload(r.b, in[1]), upload(r.b, in[2]), upload(r.b, in[3]), r.w[layer],
			r.shape, &step)
		all := download(r.b, dst, step.Rows*r.width())
		for i, s := range step.Spans {
			out[i] = append(out[i], all[s.Row*r.width():(s.Row+s.Len)*r.width()]...)
		}
	}
	return out
}

// sequence computes a whole sequence in the given cuts, alone, and returns its
// rows of one layer after the other.
func (r *deltaRun) sequence(seq int, slot int32, cuts ...int) []float32 {
	r.t.Helper()
	layers := make([][]float32, r.layers)
	pos := 0
	for _, n := range cuts {
		out := r.step(deltaPiece{seq: seq, pos: pos, n: n, slot: slot})[0]
		for l := range layers {
			layers[l] = append(layers[l], out[l*n*r.width():(l+1)*n*r.width()]...)
		}
		pos += n
	}
	var all []float32
	for _, l := range layers {
		all = append(all, l...)
	}
	return all
}
