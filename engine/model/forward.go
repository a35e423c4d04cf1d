package model

import (
	"fmt"
	"math"
	"slices"

	"corenode/engine/kernel"
)

// RowsMax is the most rows one step may have: activations take memory in
// proportion to the largest step seen.
const RowsMax = 8192

const (
	// headRowsMax is how many rows go through the output head at a time: a row of
	// logits is large.
	headRowsMax = 64
	rowsAtStart = 16
	wideOpen    = 100 // of a gate: its sigmoid is 1 in float32
)

// activations are the buffers between operations, rows rows each. They are
// replaced by larger ones when a larger step comes, and never shrink.
type activations struct {
	rows int
	made []kernel.Buffer // all of them but the two of headRows

	x, h, delta    kernel.Buffer // hidden wide: residual stream, normed input, what is to be added
	kept, keptMix  kernel.Buffer // x and mix of the rows that go on after the last mixer
	mix            kernel.Buffer // output of a mixer before its last matrix
	angles, local  kernel.Buffer // of positions; those of local layers
	qGate, q, k, v kernel.Buffer // qGate: q and gate of each head, gated models only
	gate           kernel.Buffer // of gated attention

	qkv, z, beta, alpha kernel.Buffer // DeltaNet

	latent latentActivations

	ffGate, ffUp                  kernel.Buffer // dense FFN or shared expert
	router, sharedOut, sharedGate kernel.Buffer
	headRows                      int // capacity of the two below
	headIn, logits                kernel.Buffer
}

// releaser is a backend whose memory the garbage collector does not see: it is given back, before more is taken.
type releaser interface {
	Release(buffers ...kernel.Buffer)
}

// release gives buffers back that nothing uses any more.
func (m *Model) release(buffers ...kernel.Buffer) {
	if r, ok := m.b.(releaser); ok && len(buffers) > 0 {
		r.Release(buffers...)
	}
}

// Reserve takes now what steps of at most so many rows would take as they come: afterwards none of them needs more.
func (m *Model) Reserve(rows int) {
	m.grow(min(rows, RowsMax))
	m.growHead(min(rows, headRowsMax))
}

// grow makes room for steps of rows rows.
func (m *Model) grow(rows int) {
	a, c := &m.act, m.cfg
	if rows <= a.rows {
		return
	}
	headRows, headIn, logits := a.headRows, a.headIn, a.logits
	rows = min(max(rows, 2*a.rows), RowsMax)
	m.release(a.made...)
	var made []kernel.Buffer
	wide := func(d int) kernel.Buffer {
		made = append(made, m.b.NewBuffer(rows*d))
		return made[len(made)-1]
	}
	q, kv, v := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim, max(c.LinearVHeads*c.LinearDim, c.Heads*c.ValueDim)
	*a = activations{
		rows: rows, x: wide(c.Hidden), h: wide(c.Hidden), delta: wide(c.Hidden), kept: wide(c.Hidden),
		mix: wide(max(q, v)), keptMix: wide(max(q, v)), angles: wide(c.RopeDim),
		q: wide(q), k: wide(kv), v: wide(kv), headRows: headRows, headIn: headIn, logits: logits,
	}
	if len(c.LocalInvFreq) > 0 {
		a.local = wide(c.RopeDim)
	}
	if archs[c.Arch].hybrid {
		a.qGate, a.gate = wide(2*q), wide(q)
		a.qkv, a.z, a.beta, a.alpha = wide(c.ConvDim), wide(v), wide(c.LinearVHeads), wide(c.LinearVHeads)
	}
	a.latent.grow(c, wide)
	if ff := max(c.FF, c.SharedFF); ff > 0 {
		a.ffGate, a.ffUp = wide(ff), wide(ff)
	}
	if c.Experts > 0 {
		a.router, a.sharedOut, a.sharedGate = wide(c.Experts), wide(c.Hidden), wide(1)
		if !archs[c.Arch].sharedFF {
			m.b.Upload(a.sharedGate, 0, slices.Repeat([]float32{wideOpen}, rows))
		}
	}
	a.made = made
}

// growHead makes room for n rows of logits at a time.
func (m *Model) growHead(n int) {
	if n <= m.act.headRows {
		return
	}
	if m.act.headRows > 0 {
		m.release(m.act.headIn, m.act.logits)
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
	m.b.Embed(m.act.x, m.embed, tokens)
	if !m.pass(step, cache, logitRows) {
		return nil
	}
	if m.prediction == nil {
		logitRows = nil // they are the first ones by now
	}
	m.runHead(m.head, logitRows, logits)
	return nil
}

// pass takes the embedded rows of a step through all layers to the final norm, which the first rows of h
// are then: of all rows for a model that predicts, else of those wanted. It says whether there are any.
func (m *Model) pass(step *kernel.Step, cache kernel.Cache, wanted []int32) bool {
	a := &m.act
	m.b.RopeAngles(a.angles, step, m.cfg.InvFreq, m.cfg.RopeGain)
	if a.local != nil {
		m.b.RopeAngles(a.local, step, m.cfg.LocalInvFreq, 1)
	}
	m.b.RMSNorm(a.h, a.x, m.layers[0].norm, step.Rows, m.cfg.Hidden, m.cfg.residualEps())
	last := len(m.layers) - 1
	for i := range last {
		m.mix(&m.layers[i], step, cache)
		m.finish(&m.layers[i], step.Rows, m.layers[i+1].norm)
	}
	m.mix(&m.layers[last], step, cache)
	if m.prediction != nil { // which needs what every row ends as
		m.finish(&m.layers[last], step.Rows, m.norm)
		m.prediction.rows, m.prediction.remembered = step.Rows, false
		return true
	}
	if len(wanted) == 0 {
		return false
	}
	m.keep(&m.layers[last], step.Rows, wanted)
	m.finish(&m.layers[last], len(wanted), m.norm)
	return true
}

// check finds what a caller can get wrong about a step. It does not know the
// page size, so the length of page tables is for the backend to check.
func (m *Model) check(step *kernel.Step, tokens, logitRows []int32, logits [][]float32) error {
	if err := m.checkSpans(step, len(tokens)); err != nil {
		return err
	}
	if err := m.checkTokens(tokens); err != nil {
		return err
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

// checkSpans wants spans that cover a step's rows, of which each has a token.
func (m *Model) checkSpans(step *kernel.Step, tokens int) error {
	if step.Rows < 1 || step.Rows > RowsMax || tokens != step.Rows {
		return fmt.Errorf("step of %d rows with %d tokens, want 1 to %d rows, as many tokens", step.Rows, tokens, RowsMax)
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
	return nil
}

func (m *Model) checkTokens(tokens []int32) error {
	for i, id := range tokens {
		if id < 0 || int(id) >= m.cfg.Vocab {
			return fmt.Errorf("token %d is %d, want 0 to %d", i, id, m.cfg.Vocab-1)
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
	switch {
	case l.delta != nil:
		m.mixLinear(l, step, cache)
	case l.latent != nil:
		m.mixLatent(l, step, cache)
	default:
		m.mixFull(l, step, cache)
	}
}

func (m *Model) mixFull(l *layer, step *kernel.Step, cache kernel.Cache) {
	a, n, w := &m.act, step.Rows, l.attention
	q, _ := m.queries(w)
	m.products = m.products.with(q, w.q).and(a.k, w.k).and(a.v, w.v)
	m.products.run(m.b, a.h, n)
	m.storeKeys(l, step, cache)
	m.attend(l, step, cache)
}

// queries is where the product with a layer's q goes, and how wide its rows are.
func (m *Model) queries(w *attention) (q kernel.Buffer, width int) {
	if w.gated {
		return m.act.qGate, 2 * m.cfg.Heads * m.cfg.HeadDim
	}
	return m.act.q, m.cfg.Heads * m.cfg.HeadDim
}

// storeKeys takes the products of k and v to the cache.
func (m *Model) storeKeys(l *layer, step *kernel.Step, cache kernel.Cache) {
	a, c, n, w := &m.act, m.cfg, step.Rows, l.attention
	m.bias(a.k, w.kBias, n, c.KVHeads*c.HeadDim)
	m.bias(a.v, w.vBias, n, c.KVHeads*c.HeadDim)
	if w.kNorm != nil {
		m.b.RMSNorm(a.k, a.k, w.kNorm, n*c.KVHeads, c.HeadDim, c.Eps)
	}
	m.b.Rope(a.k, m.angles(l), n, c.KVHeads, c.HeadDim, c.RopeDim/2, c.Neox)
	m.b.StoreKV(cache, l.index, a.k, a.v, step)
}

// attend takes the product of q through the attention into mix; the keys of the
// step's rows are stored.
func (m *Model) attend(l *layer, step *kernel.Step, cache kernel.Cache) {
	a, c, n, w := &m.act, m.cfg, step.Rows, l.attention
	q, width := m.queries(w)
	m.bias(q, w.qBias, n, width)
	if w.gated {
		m.b.SplitHeads(a.q, a.gate, a.qGate, n, c.Heads, c.HeadDim)
	}
	if w.qNorm != nil {
		m.b.RMSNorm(a.q, a.q, w.qNorm, n*c.Heads, c.HeadDim, c.Eps)
	}
	m.b.Rope(a.q, m.angles(l), n, c.Heads, c.HeadDim, c.RopeDim/2, c.Neox)
	window := 0
	if l.local {
		window = c.Window
	}
	m.b.Attend(cache, l.index, a.mix, a.q, step, c.Heads, window, float32(c.QueryScale), w.sinks)
	if w.gated {
		m.b.SigmoidMul(a.mix, a.gate, n, c.Heads*c.HeadDim)
	}
}

// angles are the positions of a layer.
func (m *Model) angles(l *layer) kernel.Buffer {
	if l.local && m.act.local != nil {
		return m.act.local
	}
	return m.act.angles
}

// embeddingScale is what embeddings are multiplied by. Nobody multiplies them: what the
// layers add is divided by it instead, since all that reads the residual stream norms it.
func (c Config) embeddingScale() float64 {
	if archs[c.Arch].gemma {
		return math.Sqrt(float64(c.Hidden))
	}
	return 1
}

// residualEps is Eps for the norms of a residual stream that is so much smaller.
func (c Config) residualEps() float32 {
	return float32(float64(c.Eps) / (c.embeddingScale() * c.embeddingScale()))
}

func (m *Model) mixLinear(l *layer, step *kernel.Step, cache kernel.Cache) {
	a, w := &m.act, l.delta
	m.products = m.products.with(a.qkv, w.qkv).and(a.z, w.z).and(a.beta, w.beta).and(a.alpha, w.alpha)
	m.products.run(m.b, a.h, step.Rows)
	m.b.DeltaNet(cache, l.index, a.mix, a.qkv, a.z, a.beta, a.alpha, w.small, m.deltaShape(), step)
}

// deltaShape is that of the linear layers.
func (m *Model) deltaShape() kernel.DeltaShape {
	c := m.cfg
	return kernel.DeltaShape{
		KHeads: c.LinearKHeads, VHeads: c.LinearVHeads, Dim: c.LinearDim, ConvKernel: c.ConvKernel, Tiled: true, Eps: c.Eps,
	}
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
	if len(rows) == n && inOrder(rows) {
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
	m.multiply(a.mix, n, a.delta, l.out)
	m.bias(a.delta, l.outBias, n, c.Hidden)
	m.normed(l.mixNorm, n)
	m.b.AddRMSNorm(a.h, a.x, a.delta, l.ffnNorm, n, c.Hidden, c.residualEps())
	if l.moe != nil {
		m.experts(l.moe, n)
	} else {
		m.dense(l.dense, n)
	}
	m.normed(l.endNorm, n)
	m.b.AddRMSNorm(a.h, a.x, a.delta, norm, n, c.Hidden, c.residualEps())
}

// normed norms what is to be added, where there is such a norm.
func (m *Model) normed(w kernel.Buffer, n int) {
	if w != nil {
		m.b.RMSNorm(m.act.delta, m.act.delta, w, n, m.cfg.Hidden, m.cfg.Eps)
	}
}

// dense computes a gated FFN from h into delta.
func (m *Model) dense(w *dense, n int) {
	a := &m.act
	m.products = m.products.with(a.ffGate, w.gate).and(a.ffUp, w.up)
	m.products.run(m.b, a.h, n)
	if archs[m.cfg.Arch].gemma {
		m.b.GELUMul(a.ffGate, a.ffGate, a.ffUp, n, m.cfg.FF)
	} else {
		m.b.SiLUMul(a.ffGate, a.ffGate, a.ffUp, n, m.cfg.FF)
	}
	m.multiply(a.ffGate, n, a.delta, w.down)
}

// experts computes a mixture of experts from h into delta.
func (m *Model) experts(w *moe, n int) {
	a, c := &m.act, m.cfg
	if w.shared == nil {
		m.multiply(a.h, n, a.router, w.router)
		m.bias(a.router, w.routerBias, n, c.Experts)
		m.b.Experts(a.delta, a.h, a.router, n, w.stack, w.routing)
		return
	}
	m.products = m.products.with(a.router, w.router).and(a.ffGate, w.shared.gate).and(a.ffUp, w.shared.up)
	if w.sharedGate != nil {
		m.products = m.products.and(a.sharedGate, w.sharedGate)
	}
	m.products.run(m.b, a.h, n)
	m.b.Experts(a.delta, a.h, a.router, n, w.stack, w.routing)
	m.b.SiLUMul(a.ffGate, a.ffGate, a.ffUp, n, c.SharedFF)
	m.multiply(a.ffGate, n, a.sharedOut, w.shared.down)
	m.b.AddScaled(a.delta, a.sharedOut, a.sharedGate, n, c.Hidden)
}

// inParts takes n rows of h, nil for the first ones, to the output head, a few rows at a time: a row of logits is large.
func (m *Model) inParts(rows []int32, n int, do func(in kernel.Buffer, at, n int)) {
	m.growHead(min(n, headRowsMax))
	if rows == nil && n > headRowsMax {
		rows = rowsFrom(0, n)
	}
	for at := 0; at < n; at += headRowsMax {
		part, in := min(headRowsMax, n-at), m.act.h
		if rows != nil && !inOrder(rows[at:at+part]) {
			in = m.act.headIn
			m.b.GatherRows(in, m.act.h, rows[at:at+part], m.cfg.Hidden)
		}
		do(in, at, part)
	}
}

// runHead runs an output head over rows of h, nil for the first ones.
func (m *Model) runHead(head kernel.Weight, rows []int32, logits [][]float32) {
	m.inParts(rows, len(logits), func(in kernel.Buffer, at, n int) {
		if direct := m.wrap(logits[at : at+n]); direct != nil {
			m.multiply(in, n, direct, head)
			return
		}
		m.multiply(in, n, m.act.logits, head)
		for i := range n {
			m.b.Download(logits[at+i], m.act.logits, i*m.cfg.Vocab)
		}
	})
}

// wrapper is a backend that computes in the caller's memory.
type wrapper interface {
	Wrap(x []float32) kernel.Buffer
}

// wrap is the memory of rows as a buffer, if they follow each other in it and
// the backend can write there.
func (m *Model) wrap(rows [][]float32) kernel.Buffer {
	w, ok := m.b.(wrapper)
	all := rows[0][:cap(rows[0])]
	if !ok || len(all) < len(rows)*m.cfg.Vocab {
		return nil
	}
	for i, row := range rows {
		if &row[0] != &all[i*m.cfg.Vocab] {
			return nil
		}
	}
	return w.Wrap(all[:len(rows)*m.cfg.Vocab])
}

// multiply is one product.
func (m *Model) multiply(x kernel.Buffer, n int, dst kernel.Buffer, w kernel.Weight) {
	m.products = m.products.with(dst, w)
	m.products.run(m.b, x, n)
}

// products are those of one row of activations with several weights, as lists
// that are used again and again: steps allocate nothing.
type products struct {
	dst []kernel.Buffer
	w   []kernel.Weight
}

// with is p with one product only.
func (p products) with(dst kernel.Buffer, w kernel.Weight) products {
	return products{append(p.dst[:0], dst), append(p.w[:0], w)}
}

// and is p with one product more.
func (p products) and(dst kernel.Buffer, w kernel.Weight) products {
	return products{append(p.dst, dst), append(p.w, w)}
}

func (p products) run(b kernel.Backend, x kernel.Buffer, n int) { b.MatMul(p.dst, x, n, p.w) }

// inOrder says whether rows are the first ones, one after the other.
func inOrder(rows []int32) bool {
	for i, r := range rows {
		if int(r) != i {
			return false
		}
	}
	return true
}

func rowsFrom(at, n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(at + i)
	}
	return rows
}
