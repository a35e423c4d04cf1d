package model

import (
	"fmt"

	"corenode/engine/kernel"
)

var _ kernel.Predictor = (*predictor)(nil)

// predictor is the program of a model with a prediction layer.
type predictor struct{ program }

// Remember implements kernel.Predictor.
func (p *predictor) Remember(step *kernel.Step, next []int32, cache kernel.Cache) error {
	if !p.whole {
		return p.m.Remember(step, next, cache)
	}
	if err := p.m.checkRemember(step, next); err != nil {
		return fmt.Errorf("remember: %w", err)
	}
	p.fused.Remember(next)
	p.m.prediction.remembered = true
	return nil
}

// Draft implements kernel.Predictor.
func (p *predictor) Draft(step *kernel.Step, rows, tokens []int32, cache kernel.Cache, hidden []int32, out []kernel.Drafted) error {
	m := p.m
	if err := m.checkPredict(step, rows, tokens, len(out)); err != nil {
		return fmt.Errorf("draft: %w", err)
	}
	if p.whole {
		p.fused.Draft(step, rows, tokens, hidden, out)
		m.prediction.rows, m.prediction.remembered = step.Rows, false
		return nil
	}
	m.predict(step, rows, tokens, cache)
	m.inParts(nil, len(out), func(in kernel.Buffer, at, n int) {
		m.multiply(in, n, m.act.logits, m.prediction.head)
		p.d.Likeliest(m.act.logits, m.cfg.Vocab, hidden, out[at:at+n])
	})
	return nil
}
