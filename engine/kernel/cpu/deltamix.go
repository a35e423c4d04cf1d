package cpu

import (
	"math"

	"corenode/engine/kernel"
)

// deltaPrefetch is how many rows before their use inputs are fetched: rows are so
// wide that the processor does not see the next one coming.
const deltaPrefetch = 4

// deltaScratch is what a thread needs for a piece of a span.
type deltaScratch struct {
	dim, wide int // Dim, and Dim rounded up to deltaPair

	q, k []float32 // [deltaChunk][dim] of a K head, convolved and normed
	v, o []float32 // [deltaChunk][wide] of a V head
	// Gates of a V head by row: logarithm of the decay, decay, beta.
	log, decay, beta [deltaChunk]float32

	chunkScratch
	inputs [4]*float32
	next   *float32 // where the states of the thread's next unit may begin, or nil
}

// fit makes room for heads of dim values.
func (w *deltaScratch) fit(dim int) {
	if w.dim == dim {
		return
	}
	*w = deltaScratch{dim: dim, wide: roundUp(dim, deltaPair)}
	row := func(n int) []float32 { return asFloats(heapBytes(4 * deltaChunk * n)) }
	w.q, w.k, w.v, w.o = row(dim), row(dim), row(w.wide), row(w.wide)
	if dim%deltaPair == 0 {
		w.chunkScratch.fit(dim)
	}
}

// keys brings the q and k of n rows of a span, from row at on, into scratch.
func (t *deltaTask) keys(w *deltaScratch, s *kernel.Span, at, n, kHead int) {
	d := t.s.Dim
	for i := range n {
		q, k := w.q[i*d:(i+1)*d], w.k[i*d:(i+1)*d]
		t.convolve(w, q, s, at+i, kHead*d)
		t.convolve(w, k, s, at+i, (t.s.KHeads+kHead)*d)
		t.l2Norm(q, 1/math.Sqrt(float64(d)))
		t.l2Norm(k, 1)
	}
}

// values brings columns low to high of V head p and its gates into scratch.
func (t *deltaTask) values(w *deltaScratch, s *kernel.Span, at, n, p, low, high int) {
	d, heads := t.s.Dim, t.s.VHeads
	for i := range n {
		t.convolve(w, w.v[i*w.wide+low:i*w.wide+high], s, at+i, (2*t.s.KHeads+p)*d+low)
		g := (s.Row+at+i)*heads + p
		w.log[i], w.beta[i] = t.alpha[g], t.beta[g]
	}
	whole := roundUp(n, 16)
	clear(w.log[n:whole]) // a chunk multiplies what these rows give by zero: it must be finite
	clear(w.beta[n:whole])
	t.b.ops.gates(&w.log[0], &w.decay[0], &w.beta[0], t.w.a[p], t.w.dtBias[p], whole)
}

// convolve convolves the channels from first on of one row of a span, which may be
// any of len(dst), with those of the rows before it, and applies SiLU. The last
// channels go through a padded copy, so that a channel's result does not
// depend on where it lies.
func (t *deltaTask) convolve(w *deltaScratch, dst []float32, s *kernel.Span, row, first int) {
	taps, channels := t.s.ConvKernel, t.c.cfg.ConvDim
	if taps != len(w.inputs) {
		t.convolveAny(dst, s, row, first)
		return
	}
	for tap := range w.inputs {
		w.inputs[tap] = &t.input(s, row+tap-taps+1)[first]
	}
	body := len(dst) &^ 15
	prefetch := 0
	if row+deltaPrefetch < s.Len {
		prefetch = 4 * channels * deltaPrefetch
	}
	t.b.ops.convolve(ptr(dst), &w.inputs[0], &t.w.conv[first], 4*channels, prefetch, body)
	if body == len(dst) {
		return
	}
	var padded [5][16]float32 // the inputs, then weights of one tap
	var weights [4][16]float32
	for tap := range w.inputs {
		copy(padded[tap][:], t.input(s, row+tap-taps+1)[first+body:first+len(dst)])
		copy(weights[tap][:], t.w.conv[tap*channels+first+body:][:len(dst)-body])
		w.inputs[tap] = &padded[tap][0]
	}
	t.b.ops.convolve(&padded[4][0], &w.inputs[0], &weights[0][0], 64, 0, 16)
	copy(dst[body:], padded[4][:])
}

// convolveAny is convolve with any number of taps.
func (t *deltaTask) convolveAny(dst []float32, s *kernel.Span, row, first int) {
	taps, channels := t.s.ConvKernel, t.c.cfg.ConvDim
	clear(dst)
	body := len(dst) &^ 15
	for tap := range taps {
		in := t.input(s, row+tap-taps+1)[first:]
		w := t.w.conv[tap*channels+first:]
		t.b.ops.addProduct(ptr(dst), ptr(in), ptr(w), body)
		for ch := body; ch < len(dst); ch++ {
			dst[ch] += in[ch] * w[ch]
		}
	}
	t.b.siluRow(dst)
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

// convState is the layer's last inputs in a slot, oldest first.
func (t *deltaTask) convState(slot int32) []float32 {
	n := t.c.layout.conv
	return t.c.state(slot).conv[t.layer*n : (t.layer+1)*n]
}

// l2Norm is x·scale / sqrt(Σx²+eps), in place.
func (t *deltaTask) l2Norm(x []float32, scale float64) {
	f := float32(scale / math.Sqrt(float64(t.b.sumSquares(x))+float64(t.s.Eps)))
	body := len(x) &^ 15
	t.b.ops.scale(ptr(x), ptr(x), f, body)
	for i := body; i < len(x); i++ {
		x[i] *= f
	}
}

// shift brings the last inputs of a K head and its V heads into the state of a
// span, and before that those of its first rows into the slots that save them.
func (t *deltaTask) shift(s *kernel.Span, kHead int) {
	d, kept := t.s.Dim, t.s.ConvKernel-1
	move := func(head int) {
		for i, slot := range s.Saves {
			t.keepInputs(t.convState(slot), s, i-kept+1, head*d)
		}
		t.keepInputs(t.convState(s.State), s, s.Len-kept, head*d)
	}
	move(kHead)
	move(t.s.KHeads + kHead)
	for i := range t.s.VHeads / t.s.KHeads {
		move(2*t.s.KHeads + t.vHead(kHead, i))
	}
}

// keepInputs fills a head's channels of a convolution state with the inputs of a
// span from row first on. It goes from old to new, so it may shift the state of
// the span itself.
func (t *deltaTask) keepInputs(state []float32, s *kernel.Span, first, channel int) {
	channels := t.c.cfg.ConvDim
	for i := range t.s.ConvKernel - 1 {
		copy(state[i*channels+channel:][:t.s.Dim], t.input(s, first+i)[channel:])
	}
}
