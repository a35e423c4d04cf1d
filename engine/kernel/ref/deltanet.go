package ref

import (
	"math"

	"corenode/engine/kernel"
)

// DeltaNet implements kernel.Backend token by token: no chunks, so a prefill
// cut anywhere gives the same bits.
func (*Backend) DeltaNet(kc kernel.Cache, layer int, dst, qkv, z, beta, alpha kernel.Buffer,
	w kernel.DeltaWeights, s kernel.DeltaShape, step *kernel.Step) {
	c := kc.(*cache)
	width, channels := s.VHeads*s.Dim, c.cfg.ConvDim
	for _, span := range step.Spans {
		l := c.linear(layer, span.State)
		for i := range span.Len {
			r := span.Row + i
			mixed := l.convolve(mem(qkv)[r*channels:(r+1)*channels], mem(w.Conv), s.ConvKernel)
			for p := range s.VHeads {
				at := r*width + p*s.Dim
				gate := decay(mem(alpha)[r*s.VHeads+p], mem(w.A)[p], mem(w.DtBias)[p])
				b := sigmoid(float64(mem(beta)[r*s.VHeads+p]))
				o := l.update(mixed, s, p, gate, b)
				gatedNorm(mem(dst)[at:at+s.Dim], o, mem(z)[at:at+s.Dim], mem(w.Norm), s.Eps)
			}
			if i < len(span.Saves) {
				saved := c.linear(layer, span.Saves[i])
				copy(saved.conv, l.conv)
				c.keep(saved.s, l.s)
			}
		}
		c.keep(l.s, l.s)
	}
}

// keep stores states in the precision of the cache.
func (c *cache) keep(dst, src []float32) {
	copy(dst, src)
	if c.cfg.States == kernel.StateBF16 {
		for i, x := range dst {
			dst[i] = roundBrain(x)
		}
	}
}

// roundBrain is x after storage as bfloat16: nearest, ties to even.
func roundBrain(x float32) float32 {
	bits := math.Float32bits(x)
	if bits&0x7f800000 == 0x7f800000 { // infinite or no number
		return x
	}
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

// layerState is one layer's part of a state.
type layerState struct {
	conv []float32 // [ConvKernel-1][channels]
	s    []float32 // [VHeads][dk][dv]
}

func (c *cache) linear(layer int, slot int32) layerState {
	st := c.state(slot)
	conv := (c.cfg.ConvKernel - 1) * c.cfg.ConvDim
	s := c.cfg.VHeads * c.cfg.StateDim * c.cfg.StateDim
	return layerState{st.conv[layer*conv : (layer+1)*conv], st.s[layer*s : (layer+1)*s]}
}

// convolve is the causal depthwise convolution with SiLU for one token; it
// shifts the token's raw input into the state.
func (l layerState) convolve(x, w []float32, taps int) []float32 {
	n := len(x)
	out := make([]float32, n)
	for ch, v := range x {
		sum := float64(v) * float64(w[ch*taps+taps-1])
		for t := range taps - 1 {
			sum += float64(l.conv[t*n+ch]) * float64(w[ch*taps+t])
		}
		out[ch] = float32(silu(sum))
	}
	copy(l.conv, l.conv[min(n, len(l.conv)):])
	if len(l.conv) >= n {
		copy(l.conv[len(l.conv)-n:], x)
	}
	return out
}

// decay is exp(g), g = A·softplus(alpha + bias), A = -exp(A_log).
func decay(alpha, a, bias float32) float64 {
	x := float64(alpha) + float64(bias)
	softplus := x
	if x <= 20 { // beyond it the two are equal in float32
		softplus = math.Log1p(math.Exp(x))
	}
	return math.Exp(float64(a) * softplus)
}

// update advances V head p by one token and returns its output: decay, read
// for the delta, write, read with the new state.
func (l layerState) update(mixed []float32, s kernel.DeltaShape, p int, gate, beta float64) []float64 {
	d, kHead := s.Dim, p/(s.VHeads/s.KHeads)
	if s.Tiled {
		kHead = p % s.KHeads
	}
	keys := s.KHeads * d
	q := l2Norm(mixed[kHead*d:(kHead+1)*d], s.Eps)
	k := l2Norm(mixed[keys+kHead*d:keys+(kHead+1)*d], s.Eps)
	v := mixed[2*keys+p*d : 2*keys+(p+1)*d]
	m := l.s[p*d*d : (p+1)*d*d]
	read := make([]float64, d)
	for i := range d {
		for j := range d {
			read[j] += k[i] * gate * float64(m[i*d+j])
		}
	}
	out := make([]float64, d)
	for i := range d {
		for j := range d {
			x := gate*float64(m[i*d+j]) + k[i]*beta*(float64(v[j])-read[j])
			m[i*d+j] = float32(x)
			out[j] += q[i] / math.Sqrt(float64(d)) * x
		}
	}
	return out
}

// l2Norm is x / sqrt(Σx² + eps).
func l2Norm(x []float32, eps float32) []float64 {
	scale := 1 / math.Sqrt(dot(x, x)+float64(eps))
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) * scale
	}
	return out
}

// gatedNorm writes norm(o)·w·silu(z).
func gatedNorm(dst []float32, o []float64, z, w []float32, eps float32) {
	var sum float64
	for _, v := range o {
		sum += v * v
	}
	scale := 1 / math.Sqrt(sum/float64(len(o))+float64(eps))
	for i, v := range o {
		dst[i] = float32(v * scale * float64(w[i]) * silu(float64(z[i])))
	}
}
