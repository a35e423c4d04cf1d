package engine

import (
	"fmt"

	"corenode/engine/kernel"
	"corenode/engine/kv"
	"corenode/engine/sched"
)

// launching is a step loop's way to its program.
type launching struct {
	program kernel.Program
	owed    []kernel.StateOp // what the next step has to do first
	in      kernel.Input     // of the step launched last; its slices are used again
	out     kernel.Output    // of the step collected last, likewise
	logits  [][]float32      // rows are reused; as many as ever were asked for at once
}

// owe leaves work on states to the next step: nothing else touches them.
func (s *Stepper) owe(ops []kv.StateOp) {
	for _, op := range ops {
		s.owed = append(s.owed, kernel.StateOp(op))
	}
}

// launch hands a planned step to the program.
func (s *Stepper) launch(plan *sched.Plan) {
	in := &s.in
	in.Before, s.owed = s.owed, in.Before[:0]
	in.Step.Rows, in.Step.Spans = plan.Rows, in.Step.Spans[:0]
	in.Tokens, in.Rows, in.Cache = in.Tokens[:0], in.Rows[:0], s.cache
	for _, it := range plan.Items {
		in.Step.Spans = append(in.Step.Spans, kernel.Span{
			Row: len(in.Tokens), Len: it.Len, Pos: it.Start, Pages: it.Pages, State: it.State, Saves: it.Saves, Prompt: it.Prompt()})
		in.Tokens = append(in.Tokens, it.Seq.Tokens[it.Start:it.Start+it.Len-len(it.Draft)]...)
		in.Tokens = append(in.Tokens, it.Draft...)
		if it.Logits {
			for row := len(in.Tokens) - 1 - len(it.Draft); row < len(in.Tokens); row++ {
				in.Rows = append(in.Rows, kernel.Row{Row: int32(row), Logits: true})
			}
		}
	}
	if err := s.program.Launch(in); err != nil {
		panic(fmt.Sprintf("engine: launch of %d rows: %v", plan.Rows, err)) // the planned step was malformed
	}
}

// await collects the step that was launched first.
func (s *Stepper) await(plan *sched.Plan) {
	s.out.Logits = s.rowsOfLogits(len(s.in.Rows))
	if err := s.program.Collect(&s.out); err != nil {
		panic(fmt.Sprintf("engine: step of %d rows: %v", plan.Rows, err))
	}
}

// rowsOfLogits has room for n rows, which follow each other in memory: a model
// can compute such rows where they are wanted, without a copy.
func (s *Stepper) rowsOfLogits(n int) [][]float32 {
	if len(s.logits) < n {
		width := s.engine.logitsWidth()
		all := make([]float32, n*width)
		s.logits = s.logits[:0]
		for row := range n {
			s.logits = append(s.logits, all[row*width:(row+1)*width])
		}
	}
	return s.logits[:n]
}
