package cpu

import (
	"math"

	"corenode/engine/kernel"
)

// deltaTask is one Gated DeltaNet layer over a step, in the recurrent form: a
// row's result is the same wherever a prefill is cut.
type deltaTask struct {
	b     *Backend
	c     *cache
	layer int
	s     kernel.DeltaShape
	w     deltaFloats
	step  *kernel.Step

	dst, qkv, z, beta, alpha []float32

	mixed []float32 // [rows][ConvDim] after convolution, SiLU and L2 norms
	out   []float32 // [rows][VHeads·Dim] before the gated norm
	gates []float32 // [rows][VHeads] of decay and beta
	rowOf []int32   // span of each row
	phase deltaPhase

	convs map[*float32][]float32 // by the first value of their buffer
}

// deltaFloats is kernel.DeltaWeights as memory; conv is [ConvKernel][ConvDim].
type deltaFloats struct{ conv, a, dtBias, norm []float32 }

// DeltaNet implements kernel.Backend.
func (b *Backend) DeltaNet(kc kernel.Cache, layer int, dst, qkv, z, beta, alpha kernel.Buffer, w kernel.DeltaWeights, s kernel.DeltaShape, step *kernel.Step) {
	t, c, n := &b.delta, kc.(*cache), step.Rows
	t.c, t.layer, t.s, t.step = c, layer, s, step
	t.w = deltaFloats{
		t.byTap(floats(w.Conv, c.cfg.ConvDim*s.ConvKernel), s.ConvKernel), floats(w.A, s.VHeads),
		floats(w.DtBias, s.VHeads), floats(w.Norm, s.Dim),
	}
	width := s.VHeads * s.Dim
	t.dst, t.z = floats(dst, n*width), floats(z, n*width)
	t.qkv = floats(qkv, n*c.cfg.ConvDim)
	t.beta, t.alpha = floats(beta, n*s.VHeads), floats(alpha, n*s.VHeads)
	t.mixed, t.out = grow(t.mixed, n*c.cfg.ConvDim), grow(t.out, n*width)
	t.gates = grow(t.gates, 2*n*s.VHeads)
	t.rowOf = t.rowOf[:0]
	for i, span := range step.Spans {
		c.state(span.State) // threads must find slots, not make them
		for _, slot := range span.Saves {
			c.state(slot)
		}
		for range span.Len {
			t.rowOf = append(t.rowOf, int32(i))
		}
	}
	t.phase = deltaMix
	b.pool.run(n, t)
	t.phase = deltaHeads
	b.pool.run(len(step.Spans)*s.VHeads, t)
	t.phase = deltaShift
	b.pool.run(len(step.Spans), t)
}

// deltaPhase says what a unit of work is.
type deltaPhase int

const (
	deltaMix   deltaPhase = iota // one row
	deltaHeads                   // one V head of one span
	deltaShift                   // the convolution state of one span
)

// byTap returns convolution weights as [taps][channels], so that channels are
// adjacent. Each buffer is turned once; Upload forgets what it overwrites.
func (t *deltaTask) byTap(w []float32, taps int) []float32 {
	if turned, ok := t.convs[&w[0]]; ok {
		return turned
	}
	channels := len(w) / taps
	turned := asFloats(heapBytes(4 * len(w)))
	for i, v := range w {
		turned[i%taps*channels+i/taps] = v
	}
	if t.convs == nil {
		t.convs = map[*float32][]float32{}
	}
	t.convs[&w[0]] = turned
	return turned
}

// do runs one unit of the phase.
func (t *deltaTask) do(_, i int) {
	switch t.phase {
	case deltaMix:
		t.mix(i)
	case deltaHeads:
		t.head(&t.step.Spans[i/t.s.VHeads], i%t.s.VHeads)
	case deltaShift:
		t.shift(&t.step.Spans[i])
	}
}

// convState is the layer's last inputs in a slot, oldest first.
func (t *deltaTask) convState(slot int32) []float32 {
	n := t.c.layout.conv
	return t.c.state(slot).conv[t.layer*n : (t.layer+1)*n]
}

// matrix is the layer's V head p in a slot, [columns/16][Dim][16].
func (t *deltaTask) matrix(slot int32, p int) []float32 {
	n := t.s.Dim * roundUp(t.s.Dim, kvTile)
	return t.c.state(slot).s[t.layer*t.c.layout.s+p*n:][:n]
}

// mix convolves one row with the rows before it, which may lie in the step or
// in the state, applies SiLU, normalises its q and k heads, and computes the gates.
func (t *deltaTask) mix(row int) {
	s := &t.step.Spans[t.rowOf[row]]
	channels, taps := t.c.cfg.ConvDim, t.s.ConvKernel
	out := t.mixed[row*channels : (row+1)*channels]
	clear(out)
	body := channels &^ 15
	for tap := range taps {
		back := row - s.Row - (taps - 1 - tap) // row of the span, negative in the state
		in := t.input(s, back)
		w := t.w.conv[tap*channels : (tap+1)*channels]
		t.b.ops.addProduct(ptr(out), ptr(in), ptr(w), body)
		for ch := body; ch < channels; ch++ {
			out[ch] += in[ch] * w[ch]
		}
	}
	t.b.siluRow(out)
	d, keys := t.s.Dim, t.s.KHeads*t.s.Dim
	for h := range t.s.KHeads {
		t.l2Norm(out[h*d:(h+1)*d], 1/math.Sqrt(float64(d)))
		t.l2Norm(out[keys+h*d:keys+(h+1)*d], 1)
	}
	for p := range t.s.VHeads {
		at := row*t.s.VHeads + p
		t.gates[2*at] = decay(t.alpha[at], t.w.a[p], t.w.dtBias[p])
		t.gates[2*at+1] = sigmoid32(t.beta[at])
	}
}

// input is what a row of a span brought to the convolution; rows before the
// first are negative and lie in the state.
func (t *deltaTask) input(s *kernel.Span, row int) []float32 {
	channels := t.c.cfg.ConvDim
	if row >= 0 {
		return t.qkv[(s.Row+row)*channels:][:channels]
	}
	return t.convState(s.State)[(row+t.s.ConvKernel-1)*channels:][:channels]
}

// l2Norm is x·scale / sqrt(Σx²+eps), in place.
func (t *deltaTask) l2Norm(x []float32, scale float64) {
	f := float32(scale / math.Sqrt(float64(t.b.sumSquares(x))+float64(t.s.Eps)))
	for i := range x {
		x[i] *= f
	}
}

// shift brings the last inputs of a span into its state, and before that those
// of its first rows into the slots that save them.
func (t *deltaTask) shift(s *kernel.Span) {
	kept := t.s.ConvKernel - 1
	for i, slot := range s.Saves {
		t.keepInputs(t.convState(slot), s, i-kept+1)
	}
	t.keepInputs(t.convState(s.State), s, s.Len-kept)
}

// keepInputs fills a convolution state with the inputs of a span from row first
// on. It goes from old to new, so it may shift the state of the span itself.
func (t *deltaTask) keepInputs(state []float32, s *kernel.Span, first int) {
	channels := t.c.cfg.ConvDim
	for i := range t.s.ConvKernel - 1 {
		copy(state[i*channels:(i+1)*channels], t.input(s, first+i))
	}
}

// head runs V head p over the rows of a span: 16 columns of the state at a
// time, which stay in the nearest cache over all rows.
func (t *deltaTask) head(s *kernel.Span, p int) {
	d, heads, channels := t.s.Dim, t.s.VHeads, t.c.cfg.ConvDim
	kHead := p / (heads / t.s.KHeads)
	if t.s.Tiled {
		kHead = p % t.s.KHeads
	}
	state := t.matrix(s.State, p)
	for col := 0; col < d; col += kvTile {
		columns := state[col*d : (col+kvTile)*d]
		for i := range s.Len {
			r := s.Row + i
			mixed := t.mixed[r*channels : (r+1)*channels]
			q, k := mixed[kHead*d:], mixed[(t.s.KHeads+kHead)*d:]
			v := mixed[2*t.s.KHeads*d+p*d+col:]
			out := t.out[r*heads*d+p*d+col:]
			g := t.gates[2*(r*heads+p):]
			t.columns(columns, k[:d], q[:d], v[:min(kvTile, d-col)], g[0], g[1], out)
			if i < len(s.Saves) {
				copy(t.matrix(s.Saves[i], p)[col*d:], columns)
			}
		}
	}
	for i := range s.Len {
		at := (s.Row+i)*heads*d + p*d
		t.gatedNorm(t.dst[at:at+d], t.out[at:at+d], t.z[at:at+d])
	}
}

// columns advances up to 16 columns by one token.
func (t *deltaTask) columns(state, k, q, v []float32, gate, beta float32, out []float32) {
	if len(v) == kvTile {
		t.b.ops.delta(&state[0], &k[0], &q[0], len(k), &v[0], gate, beta, &out[0])
		return
	}
	var in, o [kvTile]float32
	copy(in[:], v)
	t.b.ops.delta(&state[0], &k[0], &q[0], len(k), &in[0], gate, beta, &o[0])
	copy(out[:len(v)], o[:])
}

// gatedNorm writes norm(o)·w·silu(z); o is used up.
func (t *deltaTask) gatedNorm(dst, o, z []float32) {
	t.b.normRow(o, o, t.w.norm, t.s.Eps)
	t.b.siluMulRow(dst, z, o)
}

// decay is exp(A·softplus(alpha+bias)), A = -exp(A_log).
func decay(alpha, a, bias float32) float32 {
	x := float64(alpha) + float64(bias)
	softplus := x
	if x <= 20 { // beyond it the two are equal in float32
		softplus = math.Log1p(math.Exp(x))
	}
	return float32(math.Exp(float64(a) * softplus))
}
