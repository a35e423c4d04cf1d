package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"corenode/engine/draft"
	"corenode/engine/kernel"
	"corenode/engine/sample"
	"corenode/engine/sched"
)

// predictor is a forwarder with a layer that guesses what comes after the next
// token: see model.Model.
type predictor interface {
	Predicts() bool
	Remember(step *kernel.Step, next []int32, cache kernel.Cache) error
	Predict(step *kernel.Step, rows, tokens []int32, cache kernel.Cache, logits [][]float32) error
}

// predictor is nil for models without such a layer.
func (s *Stepper) predictor() predictor {
	if p, ok := s.engine.forwarder.(predictor); ok && p.Predicts() {
		return p
	}
	return nil
}

// ahead is a step loop's use of the prediction layer.
type ahead struct {
	layer  draft.Layer
	hopes  []hope
	gains  []float64
	step   kernel.Step
	next   []int32 // of each row of the step: the token after its own
	rows   []int32
	tokens []int32
}

// hope is a sequence that the layer may guess for.
type hope struct {
	run  *run
	row  int32 // where the latest pass, or the step, left what it goes on from
	pos  int   // position of that row
	most int   // tokens that a step could compute
	gain float64
}

// remember brings the step's rows into the layer's K and V: each needs the token
// that came after it, of the prompt or just sampled. It comes before Commit, so
// that a page is complete when others can find it, and no page that they have
// found changes.
func (s *Stepper) remember(plan *sched.Plan) {
	p := s.predictor()
	if p == nil {
		return
	}
	a := &s.ahead
	a.next = append(append(a.next[:0], s.tokens[1:]...), 0)
	row := 0
	for _, it := range plan.Items {
		if it.Logits {
			sampled := s.runs[it.Seq].sampled
			a.next[row+lastKept(it)] = sampled[len(sampled)-1]
		} else {
			a.next[row+it.Len-1] = it.Seq.Tokens[it.Start+it.Len]
		}
		row += it.Len
	}
	if err := p.Remember(&s.step, a.next, s.cache); err != nil {
		panic(fmt.Sprintf("engine: remember %d rows: %v", plan.Rows, err)) // the pass was of this very step
	}
}

// lastKept is the row of an item with logits, within it, whose next token is the
// one sampled last.
func lastKept(it sched.Item) int { return it.Len - 1 - len(it.Draft) + it.Kept - 1 }

// predict lets the layer guess for the sequences that the step gave a token and
// that go on, in as many passes as are worth their time. A sequence that can look
// up what it says next drafts whichever promises more. It returns what the passes
// took.
func (s *Stepper) predict(plan *sched.Plan) (spent time.Duration) {
	p := s.predictor()
	if p == nil {
		return 0
	}
	a, decodes := &s.ahead, s.hope(plan)
	all := a.hopes
	for drafted := 0; len(a.hopes) > 0; {
		n := s.worth(decodes, drafted)
		if n == 0 {
			break
		}
		a.hopes = a.hopes[:n]
		begun := time.Now()
		s.pass(p, drafted == 0)
		took := time.Since(begun)
		spent += took
		a.layer.Took(n, decodes, took, s.sched.StepSeconds)
		drafted += n
		a.hopes = slices.DeleteFunc(a.hopes, func(h hope) bool { return h.most == 0 })
	}
	for _, r := range s.order {
		r.choose()
	}
	clear(all) // drops pointers to runs that end
	a.hopes = all[:0]
	return spent
}

// hope lists the sequences of a plan that could draft, and counts those that decode
// next, whether they could or not.
func (s *Stepper) hope(plan *sched.Plan) (decodes int) {
	a, row := &s.ahead, 0
	for _, it := range plan.Items {
		r := s.runs[it.Seq]
		if it.Logits && r != nil { // else it has ended
			decodes++
			if most := s.sched.DraftMax(it.Seq, draft.PredictedMax); most > 0 {
				a.hopes = append(a.hopes, hope{run: r, row: int32(row + lastKept(it)), pos: it.Seq.Computed() - 1, most: most,
					gain: r.prediction.Expected() - r.seq.Chance})
			}
		}
		row += it.Len
	}
	a.hopes = slices.DeleteFunc(a.hopes, func(h hope) bool { return h.gain <= 0 })
	return decodes
}

// worth is how many of the hopes, which it brings into order, a pass is worth its
// time for.
func (s *Stepper) worth(decodes, drafted int) int {
	a := &s.ahead
	slices.SortStableFunc(a.hopes, func(x, y hope) int { return cmp.Compare(y.gain, x.gain) })
	a.gains = a.gains[:0]
	for _, h := range a.hopes[:min(len(a.hopes), max(0, s.sched.DraftRows()-drafted))] {
		a.gains = append(a.gains, h.gain)
	}
	if drafted == 0 {
		return a.layer.Begin(a.gains, decodes, s.sched.StepSeconds)
	}
	return a.layer.Worth(a.gains, decodes, drafted, s.sched.StepSeconds)
}

// pass guesses one token more for each of the hopes. Those that cannot have
// another one have most 0 afterwards.
func (s *Stepper) pass(p predictor, first bool) {
	a, n := &s.ahead, len(s.ahead.hopes)
	a.step.Rows, a.step.Spans, a.rows, a.tokens = n, a.step.Spans[:0], a.rows[:0], a.tokens[:0]
	for i, h := range a.hopes {
		a.step.Spans = append(a.step.Spans, kernel.Span{Row: i, Len: 1, Pos: h.pos, Pages: h.run.seq.Pages()})
		a.rows = append(a.rows, h.row)
		if guess, _ := h.run.prediction.Guess(); !first {
			a.tokens = append(a.tokens, guess[len(guess)-1])
		}
	}
	tokens := a.tokens
	if first {
		tokens = nil
	}
	s.growLogits(n)
	if err := p.Predict(&a.step, a.rows, tokens, s.cache, s.logits[:n]); err != nil {
		panic(fmt.Sprintf("engine: prediction of %d rows: %v", n, err))
	}
	for i := range a.hopes {
		h := &a.hopes[i]
		more := h.run.prediction.Add(sample.Likeliest(s.logits[i], s.mask))
		h.row, h.pos = int32(i), h.pos+1
		// The next pass stores K and V at h.pos: where there is no page yet the guess ends.
		covered := h.pos < len(h.run.seq.Pages())*s.engine.options.Cache.PageTokens
		if guess, _ := h.run.prediction.Guess(); !more || !covered || len(guess) >= h.most {
			h.most = 0
		}
		h.gain = h.run.prediction.Expected()
	}
}

// choose drafts what was predicted, if that promises more than what was looked up.
func (r *run) choose() {
	guess, chance := r.prediction.Guess()
	if draft.Right(len(guess), chance) > draft.Right(len(r.seq.Draft), r.seq.Chance) {
		r.seq.Draft, r.seq.Chance, r.predicted = guess, chance, true
	}
}
