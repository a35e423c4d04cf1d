package cpu

import (
	"corenode/engine/kernel"
)

const (
	deltaChunk    = 64 // rows of a full chunk
	deltaChunkMin = 16 // rows of the shortest one
	deltaPair     = 32 // columns of a state that matrix products take together
)

// deltaTask is one Gated DeltaNet layer over a step. A unit of work is a part of
// the V heads of one K head of one span: it convolves its channels, runs its
// columns of the states and norms the outputs, a piece of at most a chunk at a time.
type deltaTask struct {
	b     *Backend
	c     *cache
	layer int
	s     kernel.DeltaShape
	w     deltaFloats
	step  *kernel.Step

	dst, qkv, z, beta, alpha []float32

	parts   int // of a K head's columns
	phase   deltaPhase
	scratch []deltaScratch // one per thread

	convs map[*float32][]float32 // by the first value of their buffer
}

// deltaFloats is kernel.DeltaWeights as memory; conv is [ConvKernel][ConvDim].
type deltaFloats struct{ conv, a, dtBias, norm []float32 }

// deltaPhase says what a unit of work is.
type deltaPhase int

const (
	deltaHeads deltaPhase = iota // a part of a K head of a span
	deltaNorms                   // a row's gated norms
	deltaShift                   // the convolution state of a K head's channels of a span
)

// DeltaNet implements kernel.Backend.
func (b *Backend) DeltaNet(kc kernel.Cache, layer int, dst, qkv, z, beta, alpha kernel.Buffer,
	w kernel.DeltaWeights, s kernel.DeltaShape, step *kernel.Step) {
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
	for _, span := range step.Spans {
		c.state(span.State) // threads must find slots, not make them
		for _, slot := range span.Saves {
			c.state(slot)
		}
	}
	for i := range t.scratch {
		t.scratch[i].fit(s.Dim)
	}
	group, heads := s.VHeads/s.KHeads, len(step.Spans)*s.KHeads
	t.parts = deltaParts(heads, group, group*roundUp(s.Dim, deltaPair)/deltaPair, b.Threads())
	t.run(deltaHeads, heads*t.parts)
	if t.parts > group {
		t.run(deltaNorms, n)
	}
	if t.parts > 1 {
		t.run(deltaShift, heads)
	}
}

func (t *deltaTask) run(p deltaPhase, units int) {
	t.phase = p
	t.b.pool.run(units, t)
}

// deltaParts is in how many equal parts the columns of a K head's V heads are
// computed: enough for all threads, whole V heads if possible. It changes no
// result: columns know nothing of each other before the gated norm.
func deltaParts(heads, group, pairs, threads int) int {
	parts := 1
	for parts < pairs && heads*parts < 2*threads {
		for parts++; parts < group && group%parts != 0 || parts >= group && pairs%parts != 0; {
			parts++
		}
	}
	return parts
}

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
func (t *deltaTask) do(worker, i int) {
	switch t.phase {
	case deltaHeads:
		head := i / t.parts
		w := &t.scratch[worker]
		w.next = t.firstState(i + len(t.scratch))
		t.heads(w, &t.step.Spans[head/t.s.KHeads], head%t.s.KHeads, i%t.parts)
	case deltaNorms:
		for p := range t.s.VHeads {
			t.gatedNorm(t.output(i, p), i, p, false)
		}
	case deltaShift:
		t.shift(&t.step.Spans[i/t.s.KHeads], i%t.s.KHeads)
	}
}

// output is V head p of a row of dst, gate that of z.
func (t *deltaTask) output(row, p int) []float32 {
	return t.dst[(row*t.s.VHeads+p)*t.s.Dim:][:t.s.Dim]
}

func (t *deltaTask) gate(row, p int) []float32 {
	return t.z[(row*t.s.VHeads+p)*t.s.Dim:][:t.s.Dim]
}

// vHead is the i-th V head that reads a K head.
func (t *deltaTask) vHead(kHead, i int) int {
	if t.s.Tiled {
		return i*t.s.KHeads + kHead
	}
	return kHead*(t.s.VHeads/t.s.KHeads) + i
}

// matrix is the layer's V head p in a slot, [columns/16][Dim][16].
func (t *deltaTask) matrix(slot int32, p int) []float32 {
	n := t.s.Dim * roundUp(t.s.Dim, kvTile)
	return t.c.state(slot).s[t.layer*t.c.layout.s+p*n:][:n]
}

// heads runs one part of the columns of a K head's V heads over a span. The span
// is cut at multiples of deltaChunk; which form computes a piece is for its
// length alone to say, and whether the span saves states.
func (t *deltaTask) heads(w *deltaScratch, s *kernel.Span, kHead, part int) {
	d := t.s.Dim
	wide := roundUp(d, deltaPair)
	total := t.s.VHeads / t.s.KHeads * wide
	for at := 0; at < s.Len; {
		n := min(s.Len-at, deltaChunk-(s.Pos+at)%deltaChunk)
		chunked := n >= deltaChunkMin && d%deltaPair == 0 && len(s.Saves) == 0
		t.keys(w, s, at, n, kHead)
		if chunked {
			t.products(w, n)
		}
		for from := total * part / t.parts; from < total*(part+1)/t.parts; {
			p, low := t.vHead(kHead, from/wide), from%wide
			high := min(wide, total*(part+1)/t.parts-from+low)
			t.values(w, s, at, n, p, min(low, d), min(high, d))
			if chunked {
				t.chunk(w, t.matrix(s.State, p), n, low, high)
			} else {
				next := w.next
				if i := (from + high - low) / wide; from+high-low < total*(part+1)/t.parts {
					next = &t.matrix(s.State, t.vHead(kHead, i))[0]
				}
				t.steps(w, s, at, n, p, low, min(high, roundUp(d, kvTile)), next)
			}
			t.finish(w, s.Row+at, n, p, min(low, d), min(high, d))
			from += high - low
		}
		at += n
	}
	if t.parts == 1 {
		t.shift(s, kHead)
	}
}

// firstState is where the states of a unit begin, nil if there is no such unit.
// The unit that follows as many units later as there are threads is likely to
// be the thread's own next one.
func (t *deltaTask) firstState(unit int) *float32 {
	if head := unit / t.parts; head < len(t.step.Spans)*t.s.KHeads {
		return &t.matrix(t.step.Spans[head/t.s.KHeads].State, t.vHead(head%t.s.KHeads, 0))[0]
	}
	return nil
}

// steps is the recurrent form: 16 columns at a time, which stay in the nearest
// cache over all rows. While it computes, the next 16 columns are fetched,
// and after the last ones those at next, if any.
func (t *deltaTask) steps(w *deltaScratch, s *kernel.Span, at, n, p, low, high int, next *float32) {
	d := t.s.Dim
	state := t.matrix(s.State, p)
	for col := low; col < high; col += kvTile {
		columns := state[col*d : (col+kvTile)*d]
		prefetch := next
		if col+kvTile < high {
			prefetch = &state[(col+kvTile)*d]
		} else if prefetch == nil {
			prefetch = &columns[0]
		}
		for i := range n {
			t.b.ops.delta(&columns[0], &w.k[i*d], &w.q[i*d], d, &w.v[i*w.wide+col], w.decay[i], w.beta[i], &w.o[i*w.wide+col], prefetch)
			if at+i < len(s.Saves) {
				copy(t.matrix(s.Saves[at+i], p)[col*d:], columns)
			}
		}
	}
}

// finish norms n rows of a V head and writes them, or writes columns that are
// to be normed when all are there.
func (t *deltaTask) finish(w *deltaScratch, row, n, p, low, high int) {
	for i := range n {
		o := w.o[i*w.wide:][:t.s.Dim]
		if high-low < t.s.Dim {
			copy(t.output(row+i, p)[low:high], o[low:high])
		} else {
			t.gatedNorm(o, row+i, p, i+deltaPrefetch < n)
		}
	}
}

// gatedNorm writes norm(o)·w·silu(z) of V head p of a row; o may be where it writes
// to. more says that the head's next rows are wanted too.
func (t *deltaTask) gatedNorm(o []float32, row, p int, more bool) {
	dst, z, d := t.output(row, p), t.gate(row, p), t.s.Dim
	if d%16 != 0 {
		t.b.normRow(o, o, t.w.norm, t.s.Eps)
		t.b.siluMulRow(dst, z, o)
		return
	}
	prefetch := 0
	if more && row+deltaPrefetch < t.step.Rows {
		prefetch = 4 * t.s.VHeads * d * deltaPrefetch
	}
	t.b.ops.gatedNorm(&dst[0], &o[0], &z[0], &t.w.norm[0], t.s.Eps, prefetch, d)
}
