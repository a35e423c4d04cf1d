package engine

import "corenode/engine/kernel"

// Forwarder computes one step of one model. It is for one goroutine.
type Forwarder interface {
	// Forward computes the step's rows, whose tokens are given, and writes the logits
	// of logitRows, which it may find in any state.
	Forward(step *kernel.Step, tokens []int32, cache kernel.Cache, logitRows []int32, logits [][]float32) error
	Close()
}

// hostProgram is the program of a model that the host computes, operation by operation. Launch
// only notes a step, and Collect computes it: so there is one at a time, and its input stays
// the step loop's. All rows ask for their logits.
type hostProgram struct {
	engine *Engine
	in     *kernel.Input
	rows   []int32
}

// Launch implements kernel.Program.
func (p *hostProgram) Launch(in *kernel.Input) error {
	p.in = in
	return nil
}

// Collect implements kernel.Program.
func (p *hostProgram) Collect(out *kernel.Output) error {
	p.rows = p.rows[:0]
	for i := range p.in.Rows {
		p.rows = append(p.rows, p.in.Rows[i].Row)
	}
	for _, op := range p.in.Before {
		op.Do(p.in.Cache)
	}
	return p.engine.forwarder.Forward(&p.in.Step, p.in.Tokens, p.in.Cache, p.rows, out.Logits)
}

// Close implements kernel.Program.
func (p *hostProgram) Close() {}
