package sched

import (
	"fmt"

	"corenode/engine/cost"
)

const (
	// draftRowsMax bounds the drafted rows of a step. The logits of each row are kept until its
	// token is sampled, and they are large.
	draftRowsMax = 32
	// draftGain is the factor by which drafts must be expected to raise the tokens per second.
	// Predictions are not exact.
	draftGain = 1.03
	// draftDelay is how much longer the drafts of others may make a step for a sequence that
	// has none.
	draftDelay = 1.25
)

// draftChoice is how many drafted tokens one decode of a plan could have, and gets.
type draftChoice struct {
	item      int // of the plan
	tokensMax int // drafted tokens, at least 1
	chance    float64
	gain      float64 // chance that the next token of the draft is kept
	taken     int
	kept      int // taken in the best choice so far
}

// planDrafts gives decodes rows for drafted tokens. It comes last: drafts take nothing that the
// rest of the step could use, no page with content and no state slot of a snapshot.
func (s *Scheduler) planDrafts() {
	s.count.Drafting = 0
	if !s.config.Draft {
		return
	}
	s.choices = s.choices[:0]
	var decodes cost.Load
	for i := range s.plan.Items {
		it := &s.plan.Items[i]
		if !it.decodes() {
			continue
		}
		decodes = decodes.With(it.Start, 1, 1)
		if most := s.draftMax(it.Seq, len(it.Seq.Draft)); most > 0 && !it.Prompt() {
			s.choices = append(s.choices, draftChoice{item: i, tokensMax: most, chance: it.Seq.Chance, gain: it.Seq.Chance})
		}
	}
	room := min(s.DraftRows(), s.config.StepTokensMax-s.rows)
	alone, with := s.draftSeconds(decodes)
	chooseDrafts(s.choices, room, decodes.Rows, alone, with)
	for _, g := range s.choices {
		if g.kept > 0 {
			s.addDraft(&s.plan.Items[g.item], g.kept)
		}
	}
}

// draftSeconds predicts a step of the decodes alone, and the planned step with added drafted
// tokens. Both are zero while nothing is known.
func (s *Scheduler) draftSeconds(decodes cost.Load) (alone float64, with func(added int) float64) {
	if s.assumed != nil {
		return s.assumed(decodes.Rows), func(added int) float64 { return s.assumed(s.rows + added) }
	}
	if len(s.choices) == 0 || !s.cost.KnowsAlone() {
		return 0, func(int) float64 { return 0 }
	}
	planned, each := loadOf(s.plan.Items), decodes.Context/decodes.Rows
	return s.cost.Predict(decodes).Seconds(), func(added int) float64 {
		l := planned
		l.Rows, l.Logits, l.Context, l.Pairs = l.Rows+added, l.Logits+added, l.Context+added, l.Pairs+added*each
		return s.cost.Predict(l).Seconds()
	}
}

// AssumeSteps replaces what was measured by seconds, which says how long a step of so many rows
// takes. It is for tests.
func (s *Scheduler) AssumeSteps(seconds func(rows int) float64) { s.assumed = seconds }

// DraftMax is how many of n drafted tokens the next step could compute for a sequence that
// decodes, with the memory that is free now. It is 0 for a sequence that does not decode. A
// caller whose drafts cost time asks before it makes one.
func (s *Scheduler) DraftMax(q *Sequence, n int) int {
	if q.phase != phaseRunning || !q.decodes() || s.hybrid && s.pool.StatesFree() == 0 {
		return 0
	}
	return max(0, s.draftMax(q, n))
}

// DraftRows is how many drafted rows a step can have now, over all sequences.
func (s *Scheduler) DraftRows() int {
	if s.hybrid {
		return min(draftRowsMax, s.pool.StatesFree())
	}
	return draftRowsMax
}

// StepSeconds predicts a step of so many decodes, 0 while nothing is known. A caller weighs the
// time that it spends on drafts against it.
func (s *Scheduler) StepSeconds(rows int) float64 {
	switch {
	case s.assumed != nil:
		return s.assumed(rows)
	case !s.cost.KnowsAlone():
		return 0
	}
	return s.cost.Predict(cost.Load{}.With(s.context, 1, 1).Times(rows)).Seconds()
}

// draftMax is how many of n drafted tokens a sequence could compute. A draft ends at the token
// limit, at the place of the snapshot that decoding moves along, which only the end of a step
// can take, and where pages end.
func (s *Scheduler) draftMax(q *Sequence, n int) int {
	size := s.pool.Config().PageTokens
	end := min(len(q.Tokens)+n, q.Prompt+q.Max-1, (len(q.table.Pages)+s.pool.PagesFree())*size)
	if every := s.config.DecodeSnapshotTokens; s.hybrid && every > 0 {
		end = min(end, (q.computed/every+1)*every)
	}
	return end - len(q.Tokens)
}

// chooseDrafts decides how many tokens of each draft are computed, at most room in all. A step
// of the decodes alone takes alone seconds; this one takes with(n) seconds with n tokens added.
//
// It adds the token that is most likely to be kept, one after the other. It stops at the number
// that promises most tokens per second. The decodes count with the time of a step of their own,
// the drafts with the time that they add to this step.
func chooseDrafts(choices []draftChoice, room, decodes int, alone float64, with func(added int) float64) {
	now := with(0)
	if alone <= 0 || now <= 0 {
		return // nothing is known yet
	}
	tokens := float64(decodes)
	best := draftGain * tokens / alone
	waiting := decodes // without a draft
	for added := 1; added <= room; added++ {
		g := likeliest(choices)
		if g == nil {
			return
		}
		if g.taken == 0 {
			waiting--
		}
		tokens += g.gain
		g.taken++
		g.gain *= g.chance
		took := alone + max(0, with(added)-now)
		if waiting > 0 && took > draftDelay*alone || tokens/took <= best {
			continue // a few rows more may be nearly free again
		}
		best = tokens / took
		for i := range choices {
			choices[i].kept = choices[i].taken
		}
	}
}

// likeliest is the choice whose next token is most likely to be kept. Among equals it is the
// one of which least is taken, then the first.
func likeliest(choices []draftChoice) (best *draftChoice) {
	for i := range choices {
		g := &choices[i]
		if g.taken < g.tokensMax && (best == nil || g.gain > best.gain || g.gain == best.gain && g.taken < best.taken) {
			best = g
		}
	}
	return best
}

// addDraft adds rows for the first n drafted tokens to an item. Others may have taken pages
// since draftMax looked; then there are fewer.
func (s *Scheduler) addDraft(it *Item, n int) {
	q, have := it.Seq, len(it.Seq.table.Pages)
	n = min(n, (have+s.pool.PagesFree())*s.pool.Config().PageTokens-len(q.Tokens))
	if n <= 0 {
		return
	}
	if err := s.pool.Grow(&q.table, len(q.Tokens)+n); err != nil {
		panic(fmt.Sprintf("sched: no page for a draft although %d are free: %v", s.pool.PagesFree(), err))
	}
	if s.hybrid {
		s.pool.TakeSaves(&q.table, n)
		it.Saves = q.table.Saves
	}
	it.Len, it.Draft, it.Pages = it.Len+n, q.Draft[:n], q.table.Pages
	s.rows += n
	s.charge(q.account, int64(n)*prefillCost)
	s.count.Drafting++
}

// kept is how many rows of an item belong to its sequence.
func (i *Item) kept() int {
	if len(i.Draft) > 0 {
		return i.Kept
	}
	return i.Len
}

// keepDrafts appends the accepted tokens of drafts to their sequences, and sets states back to
// where the tokens end. Rejected tokens leave K and V behind the end of the tokens. The next
// step overwrites them before it reads them.
func (s *Scheduler) keepDrafts(p *Plan) {
	for i := range p.Items {
		it := &p.Items[i]
		q := it.Seq
		if len(it.Draft) == 0 || q.planned == 0 {
			continue
		}
		if it.Kept < 1 || it.Kept > 1+len(it.Draft) {
			panic(fmt.Sprintf("sched: %d rows of %d were kept", it.Kept, it.Len))
		}
		s.count.DraftedTokens += int64(len(it.Draft))
		s.count.AcceptedTokens += int64(it.Kept - 1)
		q.Tokens = append(q.Tokens, it.Draft[:it.Kept-1]...)
		if s.hybrid {
			s.pool.KeepSave(&q.table, it.Kept-1)
		}
	}
}
