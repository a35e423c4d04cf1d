package engine

import (
	"slices"

	"corenode/engine/sample"
)

// outcome says whether an answer is complete.
type outcome uint8

const (
	goesOn    outcome = iota
	ended             // by the model: a stop token, a stop sequence, a call
	truncated         // by max_tokens
)

// draws are what a step gave for the rows of one sequence: the tokens that the program drew,
// and what it would have drawn if nothing were held; or logits to draw from.
type draws struct {
	tokens, frees []int32
	logits        [][]float32
}

// sample takes what the step drew, and says in the plan how much of each draft that
// makes true. Of sequences that ended or were canceled meanwhile it is thrown away.
func (s *Stepper) sample(l *launched) {
	row, asked := 0, 0
	for i := range l.plan.Items {
		it := &l.plan.Items[i]
		if !it.Logits {
			continue
		}
		n := 1 + len(it.Draft)
		d := draws{tokens: s.out.Tokens[row : row+n], frees: s.out.Free[row : row+n]}
		if l.in.Rows[row].Logits {
			d.logits = s.out.Logits[asked : asked+n]
			asked += n
		}
		row += n
		r := runOf(it.Seq)
		if r == nil {
			continue
		}
		it.Kept = r.sample(&d, it.Draft, s.stops)
		if r.fromLayer {
			s.layerDrafts.count(len(it.Draft), it.Kept)
		} else {
			s.lookupDrafts.count(len(it.Draft), it.Kept)
		}
	}
}

// sample takes the next tokens of a sequence: the first draw is of the row of a token
// that it has, each other one of a token of its draft.
// It returns how many rows are the sequence's own: as long as what is drawn is
// what the next row was computed from, and the answer is not complete, that row
// is what would have been computed next without a draft. So the sampler draws
// the same tokens, in the same order and state, with and without.
func (r *run) sample(d *draws, draft, stops []int32) (kept int) {
	r.sampled, r.events = r.sampled[:0], r.events[:0]
	for i := range 1 + len(draft) {
		// A draw that nothing holds says where the model would end a call or a form that may not
		// end here; it is that of the same answer without a form.
		if r.incomplete(0) && slices.Contains(stops, d.free(r, i)) {
			r.matcher.End()
		}
		unfinished := r.unfinished(0)
		r.parser.IgnoreStops(unfinished && r.produced < r.job.Request.MinTokens)
		drawn := d.token(r, i, unfinished, stops)
		token := drawn
		if r.overthinks() {
			token = r.endThought(drawn)
		}
		r.sampled = append(r.sampled, token)
		r.outcome = r.take(token, stops)
		if r.outcome != goesOn || i == len(draft) || token != draft[i] || token != drawn {
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

// free is what a row draws if nothing is held.
func (d *draws) free(r *run, i int) int32 {
	if d.logits == nil {
		return d.frees[i]
	}
	return r.sampler.Preview(d.logits[i])
}

// token is what a row draws.
func (d *draws) token(r *run, i int, unfinished bool, stops []int32) int32 {
	if d.logits == nil {
		return d.tokens[i]
	}
	row := d.logits[i]
	if r.matcher != nil {
		r.matcher.Mask(row)
	}
	if unfinished {
		sample.Hide(row, stops)
	}
	return r.sampler.Sample(row)
}

// incomplete says whether the answer may not end, so many tokens later, because a call or
// a form that it is held to is not complete, and would end if the model had its way.
func (r *run) incomplete(later int) bool {
	q := r.job.Request
	return r.matcher != nil && r.matcher.Constrains() && !r.matcher.MayEnd() && !q.IgnoreEOS && r.produced+later >= q.MinTokens
}

// unfinished says whether the model may not end the answer yet, so many tokens later: the request
// asks for more tokens, or for as many as it may have. A call or a form that the answer is held to
// ends when it is complete.
func (r *run) unfinished(later int) bool {
	q := r.job.Request
	return !r.constrained() && !r.parser.Called() && (q.IgnoreEOS || r.produced+later < q.MinTokens)
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
	if text := q.Written[token]; text != "" && (r.parser.InCall() || r.parser.Takes(text) || r.matcher != nil && r.matcher.Constrains()) {
		r.events = r.parser.Feed(r.parser.Feed(r.events, r.decoder.Flush()), text)
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
