package model

import (
	"fmt"

	"corenode/engine/kernel"
)

var _ kernel.Programmer = (*Model)(nil)

// Program implements kernel.Programmer: on a backend that draws. That of a model with a prediction layer
// is a kernel.Predictor.
func (m *Model) Program() (kernel.Program, error) {
	d, ok := m.b.(kernel.Drawer)
	if !ok {
		return nil, nil
	}
	d.Forget() // what a program before this one left
	fused, err := m.fuse()
	if err != nil {
		return nil, fmt.Errorf("program: %w", err)
	}
	p := program{m: m, d: d, fused: fused}
	if m.prediction != nil {
		return &predictor{p}, nil
	}
	return &p, nil
}

// program queues the operations of a pass, and the draws from its logits, unless the backend
// computes the whole step.
type program struct {
	m     *Model
	d     kernel.Drawer
	fused kernel.Fused // nil for none
	whole bool         // it computed the latest step
	rows  []int32      // scratch
}

// Launch implements kernel.Program.
func (p *program) Launch(in *kernel.Input) error {
	m := p.m
	p.rows = p.rows[:0]
	for i := range in.Rows {
		p.rows = append(p.rows, in.Rows[i].Row)
	}
	if err := m.checkInput(in); err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	for _, op := range in.Before {
		op.Do(in.Cache)
	}
	if p.whole = p.fused != nil && p.fused.Step(in); p.whole {
		if m.prediction != nil {
			m.prediction.rows, m.prediction.remembered = in.Step.Rows, false
		}
		return nil
	}
	m.grow(in.Step.Rows)
	p.d.EmbedSampled(m.act.x, m.embed, in.Tokens)
	if m.pass(&in.Step, in.Cache, p.rows) {
		rows := p.rows
		if m.prediction == nil {
			rows = nil // they are the first ones by now
		}
		m.inParts(rows, len(in.Rows), func(h kernel.Buffer, at, n int) {
			m.multiply(h, n, m.act.logits, m.head)
			p.d.Draw(m.act.logits, m.cfg.Vocab, in, at, n)
		})
	}
	p.d.Submit(in)
	return nil
}

// Collect implements kernel.Program.
func (p *program) Collect(out *kernel.Output) error {
	p.d.Collect(out)
	return nil
}

// Close implements kernel.Program.
func (p *program) Close() {
	p.d.Forget()
	if p.fused != nil {
		p.fused.Close()
	}
}

// checkInput finds what a caller can get wrong about a step that draws.
func (m *Model) checkInput(in *kernel.Input) error {
	if err := m.checkSpans(&in.Step, len(in.Tokens)); err != nil {
		return err
	}
	for i, id := range in.Tokens {
		if int(id) >= m.cfg.Vocab {
			return fmt.Errorf("token %d is %d, want at most %d", i, id, m.cfg.Vocab-1)
		}
	}
	for i := range in.Rows {
		if r := in.Rows[i].Row; r < 0 || int(r) >= in.Step.Rows || i > 0 && r <= in.Rows[i-1].Row {
			return fmt.Errorf("wanted row %d is %d of %d, want rising ones", i, r, in.Step.Rows)
		}
	}
	return nil
}
