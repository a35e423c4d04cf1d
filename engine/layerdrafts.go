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

// predictionLayer is a forwarder with a layer that predicts what comes after the next
// token: see model.Model.
type predictionLayer interface {
	Predicts() bool
	Remember(step *kernel.Step, next []int32, cache kernel.Cache) error
	Predict(step *kernel.Step, rows, tokens []int32, cache kernel.Cache, logits [][]float32) error
}

// predictionLayer is nil for models without such a layer.
func (s *Stepper) predictionLayer() predictionLayer {
	if p, ok := s.engine.forwarder.(predictionLayer); ok && p.Predicts() {
		return p
	}
	return nil
}

// layerDrafting is a step loop's use of the prediction layer.
type layerDrafting struct {
	layer      draft.Layer
	candidates []candidate
	gains      []float64
	step       kernel.Step
	next       []int32 // of each row of the step: the token after its own
	rows       []int32
	tokens     []int32
	drafted    []kernel.Drafted // of a pass
}

// candidate is a sequence that the layer may draft for.
type candidate struct {
	run       *run
	row       int32 // where the latest pass, or the step, left what it goes on from
	pos       int   // position of that row
	tokensMax int   // tokens that a step could compute
	gain      float64
}

// remember brings the step's rows into the layer's K and V: each needs the token
// that came after it, of the prompt or just sampled. It comes before Commit, so
// that a page is complete when others can find it, and no page that they have
// found changes.
func (s *Stepper) remember(l *launched) {
	p := s.predictionLayer()
	if p == nil {
		return
	}
	a := &s.layer
	a.next = append(append(a.next[:0], l.in.Tokens[1:]...), 0)
	row := 0
	for _, it := range l.plan.Items {
		if it.Logits {
			sampled := runOf(it.Seq).sampled
			a.next[row+lastKept(it)] = sampled[len(sampled)-1]
		} else {
			a.next[row+it.Len-1] = it.Seq.Tokens[it.Start+it.Len]
		}
		row += it.Len
	}
	remember := p.Remember
	if d, ok := s.program.(kernel.Predictor); ok {
		remember = d.Remember
	}
	if err := remember(&l.in.Step, a.next, s.cache); err != nil {
		panic(fmt.Sprintf("engine: remember %d rows: %v", l.plan.Rows, err)) // the pass was of this very step
	}
}

// lastKept is the row of an item with logits, within it, whose next token is the
// one sampled last.
func lastKept(it sched.Item) int { return it.Len - 1 - len(it.Draft) + it.Kept - 1 }

// draftByLayer lets the layer draft for the sequences that the step gave a token and
// that go on, in as many passes as are worth their time. A sequence that can look
// up what it says next drafts whichever promises more. It returns what the passes
// took.
func (s *Stepper) draftByLayer(plan *sched.Plan) (spent time.Duration) {
	p := s.predictionLayer()
	if p == nil {
		return 0
	}
	a, decodes := &s.layer, s.layerCandidates(plan)
	all := a.candidates
	for drafted := 0; len(a.candidates) > 0; {
		n := s.worth(decodes, drafted)
		if n == 0 {
			break
		}
		a.candidates = a.candidates[:n]
		begun := time.Now()
		s.layerPass(p, drafted == 0)
		took := time.Since(begun)
		spent += took
		a.layer.Took(n, decodes, took, s.sched.StepSeconds)
		drafted += n
		a.candidates = slices.DeleteFunc(a.candidates, func(c candidate) bool { return c.tokensMax == 0 })
	}
	for _, r := range s.order {
		r.chooseDraft()
	}
	clear(all) // drops pointers to runs that end
	a.candidates = all[:0]
	return spent
}

// layerCandidates lists the sequences of a plan that could draft, and counts those that decode
// next, whether they could or not.
func (s *Stepper) layerCandidates(plan *sched.Plan) (decodes int) {
	a, row := &s.layer, 0
	for _, it := range plan.Items {
		r := runOf(it.Seq)
		if it.Logits && r != nil { // else it has ended
			decodes++
			if most := s.sched.DraftMax(it.Seq, draft.LayerTokensMax); most > 0 {
				a.candidates = append(a.candidates, candidate{run: r, row: int32(row + lastKept(it)),
					pos: it.Seq.Computed() - 1, tokensMax: most,
					gain: r.layerDrafter.Expected() - r.seq.Chance})
			}
		}
		row += it.Len
	}
	a.candidates = slices.DeleteFunc(a.candidates, func(c candidate) bool { return c.gain <= 0 })
	return decodes
}

// worth is how many of the candidates, which it brings into order, a pass is worth its
// time for.
func (s *Stepper) worth(decodes, drafted int) int {
	a := &s.layer
	slices.SortStableFunc(a.candidates, func(x, y candidate) int { return cmp.Compare(y.gain, x.gain) })
	a.gains = a.gains[:0]
	for _, c := range a.candidates[:min(len(a.candidates), max(0, s.sched.DraftRows()-drafted))] {
		a.gains = append(a.gains, c.gain)
	}
	if drafted == 0 {
		return a.layer.Begin(a.gains, decodes, s.sched.StepSeconds)
	}
	return a.layer.Worth(a.gains, decodes, drafted, s.sched.StepSeconds)
}

// layerPass drafts one token more for each of the candidates. Those that cannot have
// another one have tokensMax 0 afterwards.
func (s *Stepper) layerPass(p predictionLayer, first bool) {
	a, n := &s.layer, len(s.layer.candidates)
	a.step.Rows, a.step.Spans, a.rows, a.tokens = n, a.step.Spans[:0], a.rows[:0], a.tokens[:0]
	for i, c := range a.candidates {
		a.step.Spans = append(a.step.Spans, kernel.Span{Row: i, Len: 1, Pos: c.pos, Pages: c.run.seq.Pages()})
		a.rows = append(a.rows, c.row)
		if drafted, _ := c.run.layerDrafter.Draft(); !first {
			a.tokens = append(a.tokens, drafted[len(drafted)-1])
		}
	}
	tokens := a.tokens
	if first {
		tokens = nil
	}
	s.predict(p, tokens)
	for i := range a.candidates {
		c, g := &a.candidates[i], a.drafted[i]
		more := c.run.layerDrafter.Add(g.Token, float64(g.Probability))
		c.row, c.pos = int32(i), c.pos+1
		// The next pass stores K and V at c.pos: where there is no page yet the draft ends.
		covered := c.pos < len(c.run.seq.Pages())*s.engine.options.Cache.PageTokens
		if drafted, _ := c.run.layerDrafter.Draft(); !more || !covered || len(drafted) >= c.tokensMax {
			c.tokensMax = 0
		}
		c.gain = c.run.layerDrafter.Expected()
	}
}

// predict computes a pass over the candidates.
func (s *Stepper) predict(p predictionLayer, tokens []int32) {
	a, n := &s.layer, len(s.layer.candidates)
	a.drafted = slices.Grow(a.drafted[:0], n)[:n]
	if d, ok := s.program.(kernel.Predictor); ok {
		if err := d.Draft(&a.step, a.rows, tokens, s.cache, s.mask, a.drafted); err != nil {
			panic(fmt.Errorf("engine: prediction of %d rows: %w", n, err))
		}
		return
	}
	logits := s.rowsOfLogits(n)
	if err := p.Predict(&a.step, a.rows, tokens, s.cache, logits); err != nil {
		panic(fmt.Sprintf("engine: prediction of %d rows: %v", n, err))
	}
	for i := range logits {
		token, probability := sample.Likeliest(logits[i], s.mask)
		a.drafted[i] = kernel.Drafted{Token: token, Probability: float32(probability)}
	}
}

// chooseDraft takes the layer's draft, if that promises more than what was looked up.
func (r *run) chooseDraft() {
	drafted, chance := r.layerDrafter.Draft()
	if draft.Right(len(drafted), chance) > draft.Right(len(r.seq.Draft), r.seq.Chance) {
		r.seq.Draft, r.seq.Chance, r.fromLayer = drafted, chance, true
	}
}
