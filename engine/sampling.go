package engine

import (
	"slices"

	"corenode/engine/sample"
	"corenode/engine/sched"
)

// outcome says whether an answer is complete.
type outcome uint8

const (
	goesOn    outcome = iota
	ended             // by the model: a stop token, a stop sequence, a call
	truncated         // by max_tokens
)

// sample draws what the step's logits give, and says in the plan how much of each
// draft that makes true.
func (s *Stepper) sample(plan *sched.Plan) {
	row := 0
	for i := range plan.Items {
		it := &plan.Items[i]
		if !it.Logits {
			continue
		}
		rows := s.out.Logits[row : row+1+len(it.Draft)]
		row += len(rows)
		r := s.runs[it.Seq]
		it.Kept = r.sample(rows, it.Draft, s.stops)
		if r.fromLayer {
			s.layerDrafts.count(len(it.Draft), it.Kept)
		} else {
			s.lookupDrafts.count(len(it.Draft), it.Kept)
		}
	}
}

// sample draws the next tokens of a sequence from the logits of its rows: the
// first row is of a token that it has, each other one of a token of its draft.
// It returns how many rows are the sequence's own: as long as what is drawn is
// what the next row was computed from, and the answer is not complete, that row
// is what would have been computed next without a draft. So the sampler draws
// the same tokens, in the same order and state, with and without.
func (r *run) sample(logits [][]float32, draft, stops []int32) (kept int) {
	r.sampled, r.events = r.sampled[:0], r.events[:0]
	for i, row := range logits {
		if r.matcher != nil {
			if r.wantsEnd(row, stops) {
				r.matcher.End()
			}
			r.matcher.Mask(row)
		}
		unfinished := r.unfinished()
		if unfinished {
			sample.Hide(row, stops)
		}
		r.parser.IgnoreStops(unfinished && r.produced < r.job.Request.MinTokens)
		token := r.sampler.Sample(row)
		r.sampled = append(r.sampled, token)
		r.outcome = r.take(token, stops)
		if r.outcome != goesOn || i == len(draft) || token != draft[i] {
			break
		}
	}
	if r.drafter != nil {
		r.drafter.Observe(r.sampled)
	}
	if r.layerDrafter != nil {
		r.layerDrafter.Observe(r.sampled)
	}
	return len(r.sampled)
}

// wantsEnd says whether the model would end an answer that may not end here: a call or a form
// is incomplete. A draw without the mask says so; it is that of the same answer without a form.
func (r *run) wantsEnd(row []float32, stops []int32) bool {
	q := r.job.Request
	if !r.matcher.Constrains() || r.matcher.MayEnd() || q.IgnoreEOS || r.produced < q.MinTokens {
		return false
	}
	return slices.Contains(stops, r.sampler.Preview(row))
}

// unfinished says whether the model may not end the answer yet: the request asks for more
// tokens, or for as many as it may have. A call or a form that the answer is held to
// ends when it is complete.
func (r *run) unfinished() bool {
	q := r.job.Request
	return !r.constrained() && !r.parser.Called() && (q.IgnoreEOS || r.produced < q.MinTokens)
}

// constrained says whether the next token is of a call, or of a form that the whole answer has.
func (r *run) constrained() bool {
	if r.matcher == nil || !r.matcher.Constrains() {
		return false
	}
	_, starts := r.parser.AtBlock() // and may become one
	return r.job.Request.Trigger.At != AtBlock || !starts
}

// take takes one sampled token through decoder and parser.
func (r *run) take(token int32, stops []int32) outcome {
	r.produced++
	r.job.output.Store(int64(r.produced))
	r.parser.Count()
	if slices.Contains(stops, token) {
		return ended
	}
	r.sampler.Accept(token)
	if r.matcher != nil {
		r.matcher.Accept(token)
	}
	r.parse(token)
	switch {
	case r.parser.Done():
		return ended
	case r.produced == r.job.Request.MaxTokens:
		return truncated
	}
	return goesOn
}

// parse takes one token to text, and its text to events. The token that begins a call
// does so whatever its text is; where there is none, a block may begin one.
func (r *run) parse(token int32) {
	q := r.job.Request
	if q.Channels != nil {
		if mark := q.Channels.Marks[token]; mark != "" {
			r.events = r.parser.Mark(r.parser.Feed(r.events, r.decoder.Flush()), mark)
			r.restrain()
			return
		}
		r.events = r.parser.Feed(r.events, r.decoder.Feed(token))
		return
	}
	if q.Trigger.At == AtBlock || !q.Parse.Marked || len(q.Parse.Tools) == 0 || token != q.Trigger.Token {
		r.events = r.parser.Feed(r.events, r.decoder.Feed(token))
	} else {
		r.events = r.parser.Feed(r.events, r.decoder.Flush())
		r.events = r.parser.Call(r.events)
	}
	r.trigger()
}

// trigger begins to hold an answer whose block starts here, where that is what begins a call.
func (r *run) trigger() {
	if r.job.Request.Trigger.At != AtBlock || r.matcher.Constrains() {
		return
	}
	if text, starts := r.parser.AtBlock(); starts {
		r.matcher.Begin(text)
	}
}
