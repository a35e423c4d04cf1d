package model

import (
	"fmt"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

// predictionLayer is the layer behind the last one that predicts the token after the next
// (multi-token prediction, MTP). Its row at a position combines what the model
// made of the token there, normed as for the output head, with the embedding of
// the token that came next:
//
//	x = eh_proj · [enorm(embed(next)) | hnorm(hidden)]
//
// x then goes through a full-attention layer and a norm of its own; the head
// turns the result into logits of the token behind next. For a token further
// on the same layer takes its own result as hidden and the token it predicted
// as next, one position later. As transformers, vLLM and llama.cpp compute it.
//
// A prediction is only a draft: nothing that is sampled depends on it. So its K and V
// lie in the same pages as those of the other layers, and a page of the prefix
// cache that others went on from differently than its sequence did holds, at its
// last position only, what belongs to another next token.
type predictionLayer struct {
	embed, head  kernel.Weight // the model's, unless it has its own
	eNorm, hNorm kernel.Buffer
	fromE, fromH kernel.Weight // the two halves of eh_proj's columns
	layer        layer
	norm         kernel.Buffer

	// rows is how many rows h has that a prediction can go on from; remembered says
	// that they are x, of the step that Remember saw, and not results.
	rows       int
	remembered bool
}

// predictionPrefix begins the names of the tensors of the first prediction block.
func (c Config) predictionPrefix() string { return fmt.Sprintf("blk.%d.", c.Layers) }

// HasPrediction says whether a file of that config has the layer that LoadPredicting takes and Load leaves out, and
// does not only mention it.
func (c Config) HasPrediction(f *modelfile.File) bool {
	_, there := f.Tensor(c.predictionPrefix() + "nextn.eh_proj.weight")
	return there && archs[c.Arch].hybrid
}

// loadPrediction loads the first prediction block, if the file has one.
func (m *Model) loadPrediction(t *tensors) {
	c, p := m.cfg, m.cfg.predictionPrefix()
	if !c.HasPrediction(t.f) || len(t.errs) > 0 {
		return
	}
	a := &predictionLayer{
		embed: m.embed, head: m.head, norm: m.norm,
		eNorm: t.vector(p+"nextn.enorm.weight", c.Hidden),
		hNorm: t.vector(p+"nextn.hnorm.weight", c.Hidden),
		layer: t.layer(c, c.Layers, false),
	}
	a.layer.index = c.FullLayers()
	a.fromE, a.fromH = t.columns(p+"nextn.eh_proj.weight", c.Hidden, c.Hidden)
	if name := p + "nextn.embed_tokens.weight"; t.has(name) {
		a.embed = t.table(name, c.Vocab, c.Hidden)
	}
	if name := p + "nextn.shared_head_head.weight"; t.has(name) {
		a.head = t.matrix(name, c.Vocab, c.Hidden)
	}
	if name := p + "nextn.shared_head_norm.weight"; t.has(name) {
		a.norm = t.vector(name, c.Hidden)
	}
	m.prediction = a
}

// Predicts says whether the model has a layer that predicts further tokens.
func (m *Model) Predicts() bool { return m.prediction != nil }

// Remember completes the step that Forward computed last, before anything else
// is computed: next[i] is the token that comes after that of row i, and the
// prediction layer stores its K and V of all rows. Predict reads them, so every
// position that a sequence keeps must have been remembered. What belongs to rows
// that it does not keep is written over when their positions are computed again.
func (m *Model) Remember(step *kernel.Step, next []int32, cache kernel.Cache) error {
	if err := m.checkRemember(step, next); err != nil {
		return fmt.Errorf("remember: %w", err)
	}
	p, a := m.prediction, &m.act
	m.combine(next)
	w := p.layer.attention
	m.products = m.products.with(a.k, w.k).and(a.v, w.v)
	m.products.run(m.b, a.h, step.Rows)
	m.storeKeys(&p.layer, step, cache) // the angles are those of Forward's step
	p.remembered = true
	return nil
}

// Predict computes the logits of one more token for each span of step, which all
// have one row. After Remember row i goes on from rows[i] of the step, at its
// position: its logits are those of the token after next[rows[i]], and tokens is
// nil. After Predict it goes on from rows[i] of that Predict, one position later:
// its logits are those of the token after tokens[i].
func (m *Model) Predict(step *kernel.Step, rows, tokens []int32, cache kernel.Cache, logits [][]float32) error {
	if err := m.checkPredict(step, rows, tokens, len(logits)); err != nil {
		return fmt.Errorf("predict: %w", err)
	}
	for i, l := range logits {
		if len(l) != m.cfg.Vocab {
			return fmt.Errorf("predict: %d logits of row %d", len(l), i)
		}
	}
	m.predict(step, rows, tokens, cache)
	m.runHead(m.prediction.head, nil, logits)
	return nil
}

// predict computes what the output head makes logits of: the first rows of h.
func (m *Model) predict(step *kernel.Step, rows, tokens []int32, cache kernel.Cache) {
	p, a, c := m.prediction, &m.act, m.cfg
	m.b.RopeAngles(a.angles, step, c.InvFreq, c.RopeGain)
	q, _ := m.queries(p.layer.attention)
	if p.remembered {
		m.b.GatherRows(a.kept, a.x, rows, c.Hidden)
		a.x, a.kept = a.kept, a.x
		m.b.RMSNorm(a.h, a.x, p.layer.norm, step.Rows, c.Hidden, c.Eps)
		m.multiply(a.h, step.Rows, q, p.layer.attention.q)
		m.attend(&p.layer, step, cache)
	} else {
		m.b.GatherRows(a.kept, a.h, rows, c.Hidden)
		a.h, a.kept = a.kept, a.h
		m.combine(tokens)
		m.mixFull(&p.layer, step, cache)
	}
	m.finish(&p.layer, step.Rows, p.norm)
	p.rows, p.remembered = step.Rows, false
}

// combine makes the layer's input x from the hidden values in h and the tokens that
// come next, and its norm in h.
func (m *Model) combine(next []int32) {
	p, a, c, n := m.prediction, &m.act, m.cfg, len(next)
	m.b.Embed(a.x, p.embed, next)
	m.b.RMSNorm(a.kept, a.x, p.eNorm, n, c.Hidden, c.Eps)
	m.b.RMSNorm(a.h, a.h, p.hNorm, n, c.Hidden, c.Eps)
	m.multiply(a.kept, n, a.x, p.fromE)
	m.multiply(a.h, n, a.delta, p.fromH)
	m.b.AddRMSNorm(a.h, a.x, a.delta, p.layer.norm, n, c.Hidden, c.Eps)
}

// checkRemember finds what a caller can get wrong about what comes next.
func (m *Model) checkRemember(step *kernel.Step, next []int32) error {
	p := m.prediction
	if p == nil || p.remembered || step.Rows != p.rows || len(next) != step.Rows {
		return fmt.Errorf("%d rows with %d tokens after a step that left %+v", step.Rows, len(next), p)
	}
	return m.checkTokens(next)
}

// checkPredict finds what a caller can get wrong about a prediction.
func (m *Model) checkPredict(step *kernel.Step, rows, tokens []int32, out int) error {
	p, n := m.prediction, step.Rows
	if p == nil || p.rows == 0 {
		return fmt.Errorf("nothing to go on from")
	}
	if n < 1 || n > p.rows || len(step.Spans) != n || len(rows) != n || out != n || (tokens == nil) != p.remembered {
		return fmt.Errorf("%d rows in %d spans from %d of %d rows, %d tokens, %d rows to predict",
			n, len(step.Spans), len(rows), p.rows, len(tokens), out)
	}
	for i, s := range step.Spans {
		if s.Row != i || s.Len != 1 || s.Pos < 0 || s.Prompt || rows[i] < 0 || int(rows[i]) >= p.rows {
			return fmt.Errorf("span %d: row %d, length %d, position %d, from row %d", i, s.Row, s.Len, s.Pos, rows[i])
		}
	}
	if tokens == nil {
		return nil
	}
	if len(tokens) != n {
		return fmt.Errorf("%d tokens for %d rows", len(tokens), n)
	}
	return m.checkTokens(tokens)
}
