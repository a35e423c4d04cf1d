package model

import (
	"fmt"
	"math"
	"slices"

	"corenode/engine/kernel"
)

const (
	// RowsMax is the most rows one step may have: activations take memory in
	// proportion to the largest step seen.
	RowsMax = 8192
	// headRowsMax is how many rows go through the output head at a time: a row of
	// logits is large.
	headRowsMax = 64
	rowsAtStart = 16
)

// activations are the buffers between operations, rows rows each. They are
// replaced by larger ones when a larger step comes, and never shrink.
type activations struct {
	rows int

	x, h, delta    kernel.Buffer // hidden wide: residual stream, normed input, what is to be added
	kept, keptMix  kernel.Buffer // x and mix of the rows that go on after the last mixer
	mix            kernel.Buffer // output of a mixer before its last matrix
	angles         kernel.Buffer
	qGate, q, k, v kernel.Buffer // qGate: q and gate of each head, gated models only
	gate           kernel.Buffer // of gated attention

	qkv, z, beta, alpha kernel.Buffer // DeltaNet

	ffGate, ffUp                  kernel.Buffer // dense FFN or shared expert
	router, sharedOut, sharedGate kernel.Buffer
	headRows                      int // capacity of the two below
	headIn, logits                kernel.Buffer
}

// grow makes room for steps of rows rows.
func (m *Model) grow(rows int) {
	a, c := &m.act, m.cfg
	if rows <= a.rows {
		return
	}
	headRows, headIn, logits := a.headRows, a.headIn, a.logits
	rows = min(max(rows, 2*a.rows), RowsMax)
	wide := func(d int) kernel.Buffer { return m.b.NewBuffer(rows * d) }
	q, kv, v := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim, c.LinearVHeads*c.LinearDim
	*a = activations{
		rows: rows, x: wide(c.Hidden), h: wide(c.Hidden), delta: wide(c.Hidden), kept: wide(c.Hidden),
		mix: wide(max(q, v)), keptMix: wide(max(q, v)), angles: wide(c.RopeDim),
		q: wide(q), k: wide(kv), v: wide(kv), headRows: headRows, headIn: headIn, logits: logits,
	}
	if archs[c.Arch].hybrid {
		a.qGate, a.gate = wide(2*q), wide(q)
		a.qkv, a.z, a.beta, a.alpha = wide(c.ConvDim), wide(v), wide(c.LinearVHeads), wide(c.LinearVHeads)
	}
	if ff := max(c.FF, c.SharedFF); ff > 0 {
		a.ffGate, a.ffUp = wide(ff), wide(ff)
	}
	if c.Experts > 0 {
		a.router, a.sharedOut, a.sharedGate = wide(c.Experts), wide(c.Hidden), wide(1)
	}
}

// growHead makes room for n rows of logits at a time.
func (m *Model) growHead(n int) {
	if n <= m.act.headRows {
		return
	}
	m.act.headRows = n
	m.act.headIn = m.b.NewBuffer(n * m.cfg.Hidden)
	m.act.logits = m.b.NewBuffer(n * m.cfg.Vocab)
}

// Forward computes one step. tokens has step.Rows ids. logits[i] receives the
// logits of row logitRows[i], Vocab values each. K, V and states of the step are
// in cache afterwards; an error comes before anything was computed.
func (m *Model) Forward(step *kernel.Step, tokens []int32, cache kernel.Cache, logitRows []int32, logits [][]float32) error {
	if err := m.check(step, tokens, logitRows, logits); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	m.grow(step.Rows)
	a := &m.act
	m.b.Embed(a.x, m.embed, tokens)
	m.b.RopeAngles(a.angles, step, m.cfg.InvFreq)
	m.b.RMSNorm(a.h, a.x, m.layers[0].norm, step.Rows, m.cfg.Hidden, m.cfg.Eps)
	last := len(m.layers) - 1
	for i := range last {
		m.mix(&m.layers[i], step, cache)
		m.finish(&m.layers[i], step.Rows, m.layers[i+1].norm)
	}
	m.mix(&m.layers[last], step, cache)
	if len(logitRows) == 0 {
		return nil
	}
	m.keep(&m.layers[last], step.Rows, logitRows)
	m.finish(&m.layers[last], len(logitRows), m.norm)
	m.predict(logits)
	return nil
}

// check finds what a caller can get wrong about a step. It does not know the
// page size, so the length of page tables is for the backend to check.
func (m *Model) check(step *kernel.Step, tokens, logitRows []int32, logits [][]float32) error {
	if step.Rows < 1 || step.Rows > RowsMax || len(tokens) != step.Rows {
		return fmt.Errorf("step of %d rows with %d tokens, want 1 to %d rows, as many tokens", step.Rows, len(tokens), RowsMax)
	}
	next := 0
	for i, s := range step.Spans {
		if s.Row != next || s.Len < 1 || s.Pos < 0 {
			return fmt.Errorf("span %d: row %d, length %d, position %d; want row %d", i, s.Row, s.Len, s.Pos, next)
		}
		if err := checkSaves(s); err != nil {
			return fmt.Errorf("span %d: %w", i, err)
		}
		next += s.Len
	}
	if next != step.Rows {
		return fmt.Errorf("spans cover %d of %d rows", next, step.Rows)
	}
	for i, id := range tokens {
		if id < 0 || int(id) >= m.cfg.Vocab {
			return fmt.Errorf("token %d is %d, want 0 to %d", i, id, m.cfg.Vocab-1)
		}
	}
	if len(logits) != len(logitRows) || len(logitRows) > step.Rows {
		return fmt.Errorf("%d rows of logits into %d slices, want at most the step's %d", len(logitRows), len(logits), step.Rows)
	}
	for i, r := range logitRows {
		if r < 0 || int(r) >= step.Rows || len(logits[i]) != m.cfg.Vocab {
			return fmt.Errorf("logits %d: row %d of %d into %d values, want %d", i, r, step.Rows, len(logits[i]), m.cfg.Vocab)
		}
	}
	return nil
}

// checkSaves wants at most a slot for every row, and all slots of a span different.
func checkSaves(s kernel.Span) error {
	if len(s.Saves) > s.Len {
		return fmt.Errorf("%d states saved of %d rows", len(s.Saves), s.Len)
	}
	for i, slot := range s.Saves {
		if slot < 0 || slot == s.State || slices.Contains(s.Saves[:i], slot) {
			return fmt.Errorf("state of row %d saved in slot %d, want one of its own", i, slot)
		}
	}
	return nil
}

// mix runs a layer's mixer from h into mix.
func (m *Model) mix(l *layer, step *kernel.Step, cache kernel.Cache) {
	if l.delta != nil {
		m.mixLinear(l, step, cache)
	} else {
		m.mixFull(l, step, cache)
	}
}

func (m *Model) mixFull(l *layer, step *kernel.Step, cache kernel.Cache) {
	a, c, n, w := &m.act, m.cfg, step.Rows, l.attention
	q, rows := a.q, c.Heads*c.HeadDim
	if w.gated {
		q, rows = a.qGate, 2*rows
	}
	m.b.MatMul([]kernel.Buffer{q, a.k, a.v}, a.h, n, []kernel.Weight{w.q, w.k, w.v})
	m.bias(q, w.qBias, n, rows)
	m.bias(a.k, w.kBias, n, c.KVHeads*c.HeadDim)
	m.bias(a.v, w.vBias, n, c.KVHeads*c.HeadDim)
	if w.gated {
		m.b.SplitHeads(a.q, a.gate, a.qGate, n, c.Heads, c.HeadDim)
	}
	if w.qNorm != nil {
		m.b.RMSNorm(a.q, a.q, w.qNorm, n*c.Heads, c.HeadDim, c.Eps)
		m.b.RMSNorm(a.k, a.k, w.kNorm, n*c.KVHeads, c.HeadDim, c.Eps)
	}
	m.b.Rope(a.q, a.angles, n, c.Heads, c.HeadDim, c.RopeDim/2, c.Neox)
	m.b.Rope(a.k, a.angles, n, c.KVHeads, c.HeadDim, c.RopeDim/2, c.Neox)
	m.b.StoreKV(cache, l.index, a.k, a.v, step)
	scale := float32(1 / math.Sqrt(float64(c.HeadDim)))
	m.b.Attend(cache, l.index, a.mix, a.q, step, c.Heads, scale)
	if w.gated {
		m.b.SigmoidMul(a.mix, a.gate, n, c.Heads*c.HeadDim)
	}
}

func (m *Model) mixLinear(l *layer, step *kernel.Step, cache kernel.Cache) {
	a, c, w := &m.act, m.cfg, l.delta
	m.b.MatMul([]kernel.Buffer{a.qkv, a.z, a.beta, a.alpha}, a.h, step.Rows, []kernel.Weight{w.qkv, w.z, w.beta, w.alpha})
	shape := kernel.DeltaShape{
		KHeads: c.LinearKHeads, VHeads: c.LinearVHeads, Dim: c.LinearDim,
		ConvKernel: c.ConvKernel, Tiled: true, Eps: c.Eps,
	}
	m.b.DeltaNet(cache, l.index, a.mix, a.qkv, a.z, a.beta, a.alpha, w.small, shape, step)
}

// bias adds a bias that may not be there.
func (m *Model) bias(x, bias kernel.Buffer, n, d int) {
	if bias != nil {
		m.b.AddBias(x, bias, n, d)
	}
}

// keep drops the rows whose logits nobody wants: after the last mixer nothing
// reads them any more. Rows come in the order of rows from here on.
func (m *Model) keep(l *layer, n int, rows []int32) {
	same := len(rows) == n
	for i, r := range rows {
		same = same && int(r) == i
	}
	if same {
		return
	}
	a := &m.act
	m.b.GatherRows(a.kept, a.x, rows, m.cfg.Hidden)
	m.b.GatherRows(a.keptMix, a.mix, rows, l.out.Cols())
	a.x, a.kept = a.kept, a.x
	a.mix, a.keptMix = a.keptMix, a.mix
}

// finish takes mix through the rest of the layer; h is then normed by norm, which is
// the next layer's or the final one.
func (m *Model) finish(l *layer, n int, norm kernel.Buffer) {
	a, c := &m.act, m.cfg
	m.b.MatMul([]kernel.Buffer{a.delta}, a.mix, n, []kernel.Weight{l.out})
	m.bias(a.delta, l.outBias, n, c.Hidden)
	m.b.AddRMSNorm(a.h, a.x, a.delta, l.ffnNorm, n, c.Hidden, c.Eps)
	if l.moe != nil {
		m.experts(l.moe, n)
	} else {
		m.dense(l.dense, n)
	}
	m.b.AddRMSNorm(a.h, a.x, a.delta, norm, n, c.Hidden, c.Eps)
}

// dense computes a SwiGLU FFN from h into delta.
func (m *Model) dense(w *dense, n int) {
	a := &m.act
	m.b.MatMul([]kernel.Buffer{a.ffGate, a.ffUp}, a.h, n, []kernel.Weight{w.gate, w.up})
	m.b.SiLUMul(a.ffGate, a.ffGate, a.ffUp, n, m.cfg.FF)
	m.b.MatMul([]kernel.Buffer{a.delta}, a.ffGate, n, []kernel.Weight{w.down})
}

// experts computes a mixture of experts from h into delta.
func (m *Model) experts(w *moe, n int) {
	a, c := &m.act, m.cfg
	if w.shared == nil {
		m.b.MatMul([]kernel.Buffer{a.router}, a.h, n, []kernel.Weight{w.router})
		m.b.Experts(a.delta, a.h, a.router, n, w.gate, w.up, w.down, c.ExpertsUsed)
		return
	}
	m.b.MatMul([]kernel.Buffer{a.router, a.sharedGate, a.ffGate, a.ffUp}, a.h, n,
		[]kernel.Weight{w.router, w.sharedGate, w.shared.gate, w.shared.up})
	m.b.Experts(a.delta, a.h, a.router, n, w.gate, w.up, w.down, c.ExpertsUsed)
	m.b.SiLUMul(a.ffGate, a.ffGate, a.ffUp, n, c.SharedFF)
	m.b.MatMul([]kernel.Buffer{a.sharedOut}, a.ffGate, n, []kernel.Weight{w.shared.down})
	m.b.AddScaled(a.delta, a.sharedOut, a.sharedGate, n, c.Hidden)
}

// predict runs the output head over the first rows of h, a few rows at a time.
func (m *Model) predict(logits [][]float32) {
	m.growHead(min(len(logits), headRowsMax))
	a := &m.act
	for at := 0; at < len(logits); at += headRowsMax {
		n := min(headRowsMax, len(logits)-at)
		in := a.h
		if at > 0 {
			in = a.headIn
			m.b.GatherRows(in, a.h, rowsFrom(at, n), m.cfg.Hidden)
		}
		m.b.MatMul([]kernel.Buffer{a.logits}, in, n, []kernel.Weight{m.head})
		for i := range n {
			m.b.Download(logits[at+i], a.logits, i*m.cfg.Vocab)
		}
	}
}

func rowsFrom(at, n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(at + i)
	}
	return rows
}
