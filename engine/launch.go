package engine

import (
	"fmt"
	"slices"
	"time"

	"corenode/engine/kernel"
	"corenode/engine/kv"
	"corenode/engine/sched"
)

// launching is a step loop's way to its program and back.
type launching struct {
	program kernel.Program
	// device says that the program is a device's: it draws tokens itself, and takes a second
	// step while one is on its way.
	device bool
	open   []*launched      // in the order of launches, at most two
	spare  []*launched      // whose slices are used again
	owed   []kernel.StateOp // what the next step has to do first
	seen   []kernel.Seen    // of the rows launched last
	out    kernel.Output    // of the step collected last
	logits [][]float32      // rows are reused; as many as ever were asked for at once
}

// launched is a step on its way.
type launched struct {
	plan *sched.Plan
	// begun is since when the step costs time: from its launch, or from when the one before it was done.
	begun time.Time
	in    kernel.Input
}

// drop lets go of what rows and spans refer to: their sequences may have ended.
func (l *launched) drop() {
	clear(l.in.Rows)
	clear(l.in.Step.Spans)
}

// newProgram returns what computes the model's steps.
func (e *Engine) newProgram() (program kernel.Program, device bool, err error) {
	if p, ok := e.forwarder.(kernel.Programmer); ok {
		if program, err = p.Program(); program != nil || err != nil {
			return program, true, err
		}
	}
	return &hostProgram{engine: e}, false, nil
}

// owe leaves work on states to the next step: nothing else touches them.
func (s *Stepper) owe(ops []kv.StateOp) {
	for _, op := range ops {
		s.owed = append(s.owed, kernel.StateOp(op))
	}
}

// launchFollowing launches the step behind the one that is on its way, where that needs none of its
// tokens. So a device goes on while the host takes them to their readers. Where one of the
// sequences then turns out to have ended, what the step gives it is thrown away.
func (s *Stepper) launchFollowing() {
	if !s.device || len(s.open) != 1 || s.predictionLayer() != nil {
		return
	}
	for _, it := range s.open[0].plan.Items {
		if r := runOf(it.Seq); r == nil || !r.foreseeable() {
			return
		}
	}
	if plan := s.sched.PlanFollowing(); plan != nil {
		s.launch(plan, time.Time{})
	}
}

// launch hands a planned step to the program.
func (s *Stepper) launch(plan *sched.Plan, now time.Time) {
	if len(s.spare) == 0 {
		s.spare = append(s.spare, &launched{})
	}
	l := s.spare[len(s.spare)-1]
	s.spare = s.spare[:len(s.spare)-1]
	l.plan, l.begun = plan, now
	in, later := &l.in, len(s.open)
	in.Before, s.owed = s.owed, in.Before[:0]
	in.Step.Rows, in.Step.Spans = plan.Rows, in.Step.Spans[:0]
	in.Tokens, in.Rows, in.Cache = in.Tokens[:0], in.Rows[:0], s.cache
	s.seen = s.seen[:0]
	for i := range plan.Items {
		it := &plan.Items[i]
		in.Step.Spans = append(in.Step.Spans, kernel.Span{
			Row: len(in.Tokens), Len: it.Len, Pos: it.Start, Pages: it.Pages, State: it.State, Saves: it.Saves, Prompt: it.Prompt()})
		if later > 0 {
			in.Tokens = append(in.Tokens, kernel.Sampled(i)) // each item of the step before has a row, in this order
		} else {
			in.Tokens = append(in.Tokens, it.Seq.Tokens[it.Start:it.Start+it.Len-len(it.Draft)]...)
			in.Tokens = append(in.Tokens, it.Draft...)
		}
		if it.Logits {
			s.want(in, it, later)
		}
	}
	s.open = append(s.open, l)
	if err := s.program.Launch(in); err != nil {
		panic(fmt.Errorf("engine: launch of %d rows: %w", plan.Rows, err)) // the planned step was malformed, or a fault
	}
}

// want asks for the next tokens of an item of the step whose rows end here.
func (s *Stepper) want(in *kernel.Input, it *sched.Item, later int) {
	r := runOf(it.Seq)
	if r.produced == 0 && later == 0 {
		r.constrain(s.engine)
	}
	first := len(in.Tokens) - 1 - len(it.Draft)
	for i := range 1 + len(it.Draft) {
		n := len(in.Rows)
		in.Rows = slices.Grow(in.Rows, 1)[:n+1] // what a row with Logits has besides does not matter
		row := &in.Rows[n]
		if row.Logits = !s.device || !r.describable(len(it.Draft)); !row.Logits {
			*row = s.describe(r, later+i)
		}
		row.Row = int32(first + i)
	}
}

// describe says how a sequence draws the token that comes later tokens after its next one.
func (s *Stepper) describe(r *run, later int) kernel.Row {
	q, state := r.job.Request, r.sampler.State()
	row := kernel.Row{
		Sampling: kernel.Sampling(q.Sampling), Draw: state.Draw + uint64(later), Hidden: state.Mask,
		Stops: s.stops, Unfinished: r.unfinished(later), Prompt: state.Prompt, Trigger: -1,
	}
	at := len(s.seen)
	for _, t := range state.Seen {
		s.seen = append(s.seen, kernel.Seen(t))
	}
	row.Seen = s.seen[at:len(s.seen):len(s.seen)]
	mask := func() {
		row.Held, row.Allowed = true, r.matcher.Allowed()
		if r.incomplete(later) {
			row.Ending = r.matcher.Ending()
		}
	}
	switch {
	case r.matcher == nil:
	case r.matcher.Constrains():
		mask()
	case later > 0:
		row.Trigger = q.Trigger.Token
		r.matcher.Triggered(mask)
	}
	return row
}

// describable says whether a program can draw the tokens of a sequence's rows, those of so many
// drafted tokens among them: whether what holds for a row is known before the draw in front of it.
func (r *run) describable(drafted int) bool {
	if drafted > 0 {
		return r.matcher == nil && r.foreseeable()
	}
	return r.matcher == nil || r.job.Request.Trigger.At != AtBlock
}

// foreseeable says whether it is known how the token after the next one is drawn, whatever the
// next one is, and that the next one is drawn.
func (r *run) foreseeable() bool {
	q := r.job.Request
	if c := q.Channels; c != nil && (len(c.Calls) > 0 || c.Text != nil) {
		return false // a mark may begin what is held
	}
	if r.overthinks() {
		return false
	}
	if r.matcher != nil && (r.matcher.Constrains() || q.Trigger.At != AtToken) {
		return false
	}
	calls := r.matcher != nil || q.Channels != nil || len(q.Parse.Tools) > 0
	return !calls || !q.IgnoreEOS && r.produced >= q.MinTokens // else a call that is complete makes a difference
}

// await collects the step that was launched first.
func (s *Stepper) await() *launched {
	l := s.open[0]
	s.open = slices.Delete(s.open, 0, 1)
	s.spare = append(s.spare, l)
	n, asked := len(l.in.Rows), 0
	for i := range l.in.Rows {
		if l.in.Rows[i].Logits {
			asked++
		}
	}
	s.out.Tokens = slices.Grow(s.out.Tokens[:0], n)[:n]
	s.out.Free = slices.Grow(s.out.Free[:0], n)[:n]
	s.out.Logits = s.rowsOfLogits(asked)
	if err := s.program.Collect(&s.out); err != nil {
		panic(fmt.Errorf("engine: step of %d rows: %w", l.plan.Rows, err))
	}
	return l
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
