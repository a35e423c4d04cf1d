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

	mixed  []float32 // [rows][ConvDim] after convolution, SiLU and L2 norms
	out    []float32 // [rows][VHeads·Dim] before the gated norm
	rowOf  []int32   // span of each row
	mixing bool
}

// deltaFloats is kernel.DeltaWeights as memory.
type deltaFloats struct{ conv, a, dtBias, norm []float32 }

// DeltaNet implements kernel.Backend.
func (b *Backend) DeltaNet(kc kernel.Cache, layer int, dst, qkv, z, beta, alpha kernel.Buffer, w kernel.DeltaWeights, s kernel.DeltaShape, step *kernel.Step) {
	t, c, n := &b.delta, kc.(*cache), step.Rows
	t.c, t.layer, t.s, t.step = c, layer, s, step
	t.w = deltaFloats{
		floats(w.Conv, c.cfg.ConvDim*s.ConvKernel), floats(w.A, s.VHeads),
		floats(w.DtBias, s.VHeads), floats(w.Norm, s.Dim),
	}
	width := s.VHeads * s.Dim
	t.dst, t.z = floats(dst, n*width), floats(z, n*width)
	t.qkv = floats(qkv, n*c.cfg.ConvDim)
	t.beta, t.alpha = floats(beta, n*s.VHeads), floats(alpha, n*s.VHeads)
	t.mixed, t.out = grow(t.mixed, n*c.cfg.ConvDim), grow(t.out, n*width)
	t.rowOf = t.rowOf[:0]
	for i, span := range step.Spans {
		c.state(span.State) // threads must find slots, not make them
		for range span.Len {
			t.rowOf = append(t.rowOf, int32(i))
		}
	}
	t.mixing = true
	b.pool.run(n, t)
	t.mixing = false
	b.pool.run(len(step.Spans)*s.VHeads, t)
	for i := range step.Spans {
		t.shift(&step.Spans[i])
	}
}

// do mixes one row, or runs one V head of one span.
func (t *deltaTask) do(_, i int) {
	if t.mixing {
		t.mix(i)
		return
	}
	t.head(&t.step.Spans[i/t.s.VHeads], i%t.s.VHeads)
}

// convState is the layer's last inputs of a span, oldest first.
func (t *deltaTask) convState(s *kernel.Span) []float32 {
	n := t.c.layout.conv
	return t.c.state(s.State).conv[t.layer*n : (t.layer+1)*n]
}

// mix convolves one row with the rows before it, which may lie in the step or
// in the state, applies SiLU, and normalises its q and k heads.
func (t *deltaTask) mix(row int) {
	s := &t.step.Spans[t.rowOf[row]]
	channels, taps := t.c.cfg.ConvDim, t.s.ConvKernel
	out := t.mixed[row*channels : (row+1)*channels]
	clear(out)
	for tap := range taps {
		back := row - s.Row - (taps - 1 - tap) // row of the span, negative in the state
		var in []float32
		if back >= 0 {
			in = t.qkv[(s.Row+back)*channels:][:channels]
		} else {
			in = t.convState(s)[(back+taps-1)*channels:][:channels]
		}
		w := t.w.conv[tap:]
		for ch, x := range in {
			out[ch] += x * w[ch*taps]
		}
	}
	padded(func(p [3]*float32, n int) { t.b.ops.silu(p[0], n) }, out)
	d, keys := t.s.Dim, t.s.KHeads*t.s.Dim
	for h := range t.s.KHeads {
		t.l2Norm(out[h*d:(h+1)*d], 1/math.Sqrt(float64(d)))
		t.l2Norm(out[keys+h*d:keys+(h+1)*d], 1)
	}
}

// l2Norm is x·scale / sqrt(Σx²+eps), in place.
func (t *deltaTask) l2Norm(x []float32, scale float64) {
	f := float32(scale / math.Sqrt(float64(t.b.sumSquares(x))+float64(t.s.Eps)))
	for i := range x {
		x[i] *= f
	}
}

// shift brings the last inputs of a span into its state.
func (t *deltaTask) shift(s *kernel.Span) {
	channels := t.c.cfg.ConvDim
	state := t.convState(s)
	kept := len(state) / max(channels, 1)
	fresh := min(kept, s.Len)
	copy(state, state[fresh*channels:])
	copy(state[(kept-fresh)*channels:], t.qkv[(s.Row+s.Len-fresh)*channels:(s.Row+s.Len)*channels])
}

// head runs V head p over the rows of a span: 16 columns of the state at a
// time, which stay in the nearest cache over all rows.
func (t *deltaTask) head(s *kernel.Span, p int) {
	d, heads, channels := t.s.Dim, t.s.VHeads, t.c.cfg.ConvDim
	kHead := p / (heads / t.s.KHeads)
	if t.s.Tiled {
		kHead = p % t.s.KHeads
	}
	n := d * roundUp(d, kvTile)
	state := t.c.state(s.State).s[t.layer*t.c.layout.s+p*n:][:n]
	for col := 0; col < d; col += kvTile {
		columns := state[col*d : (col+kvTile)*d]
		for i := range s.Len {
			r := s.Row + i
			mixed := t.mixed[r*channels : (r+1)*channels]
			q, k := mixed[kHead*d:], mixed[(t.s.KHeads+kHead)*d:]
			v := mixed[2*t.s.KHeads*d+p*d+col:]
			out := t.out[r*heads*d+p*d+col:]
			gate := decay(t.alpha[r*heads+p], t.w.a[p], t.w.dtBias[p])
			beta := sigmoid32(t.beta[r*heads+p])
			t.columns(columns, k[:d], q[:d], v[:min(kvTile, d-col)], gate, beta, out)
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
