package sched

import (
	"slices"
	"time"

	"corenode/engine/cost"
)

const (
	// alignPlain is Align for models without recurrent state. Their results do not depend on
	// where a prompt is cut. It is small so that gaps stay short, and large enough that reading
	// the weights pays.
	alignPlain = 16
	// gapMin is the shortest gap that GapStretchMax asks for. Nobody reads a hundred tokens a
	// second, and small steps waste the machine.
	gapMin = 10 * time.Millisecond
	// soloGaps is how many gaps a step may last in which nothing decodes. A new or a canceled
	// request waits that long for the next plan.
	soloGaps = 4
	// openingGaps is for how many gaps streams that begin together let each other's prompts go
	// first. See opening.
	openingGaps = 32
	// batchShare is how much longer than the shortest step with a piece of prefill a step may
	// be in which many sequences decode beside one. So a machine that is too slow for the gap
	// still decodes several sequences at once.
	batchShare = 0.25
)

// meanContext is the mean number of tokens of the running sequences, or of those that ran last.
func (s *Scheduler) meanContext() int {
	n, sum := 0, 0
	for _, q := range s.running {
		if !q.resting() {
			n++
			sum += len(q.Tokens)
		}
	}
	if n == 0 {
		return s.context
	}
	return sum / n
}

// one is the load of one sequence that decodes at the mean context.
func (s *Scheduler) one() cost.Load { return cost.Load{}.With(max(0, s.meanContext()-1), 1, 1) }

// gap is the longest predicted time of a step in which something decodes. It is below GapMax.
// Once steps of a single sequence were measured, it also keeps the gap that one in a hundred
// exceeds within GapStretchMax times that of a single sequence.
func (s *Scheduler) gap() time.Duration { return s.gapBy(s.cost.Predict) }

// gapBy is gap by one of the cost model's two predictions.
func (s *Scheduler) gapBy(predict func(cost.Load) time.Duration) time.Duration {
	g := float64(s.config.GapMax) / margin
	if tail, known := s.jitter.aloneTail(); known && s.config.GapStretchMax > 0 {
		alone := float64(predict(s.one())) * tail
		g = min(g, max(float64(gapMin), float64(s.config.GapStretchMax)*alone/s.jitter.batchedMargin()))
	}
	return time.Duration(g)
}

// soloLimit is the longest predicted time of a step in which nothing decodes.
func (s *Scheduler) soloLimit() time.Duration {
	return time.Duration(soloGaps * float64(s.config.GapMax) / margin)
}

// affordable says whether a waiting sequence can decode beside those that run, with a piece of
// prefill in each step, while gaps stay in bounds. The first sequence always runs. A second one
// waits until the cost of a single one is known.
func (s *Scheduler) affordable(q *Sequence) bool {
	if s.config.GapMax == 0 {
		return true
	}
	all, n := cost.Load{}, 0
	count := func(r *Sequence) {
		if r.Max > 1 && !r.resting() { // else it never decodes, or not now
			n++
			all = all.With(len(r.Tokens), 1, 1)
		}
	}
	for _, r := range s.running {
		count(r)
	}
	count(q)
	return n < 2 || s.cost.KnowsAlone() && s.fitsGap(all, s.cost.Predict)
}

// fitsGap says whether a step with these decodes has room for a piece of prefill within the
// gap. A step may also be longer by batchShare than the shortest step with a piece.
func (s *Scheduler) fitsGap(decodes cost.Load, predict func(cost.Load) time.Duration) bool {
	one := s.one()
	shortest := predict(one.With(one.Context, s.align, 0))
	limit := max(s.gapBy(predict), time.Duration((1+batchShare)*float64(shortest)))
	return predict(decodes.With(one.Context, s.align, 0)) <= limit
}

// room bounds the prefills of one step.
type room struct {
	decodes bool          // something decodes: every row is part of a gap
	planned cost.Load     // so far
	prefill int           // rows of it
	limit   time.Duration // 0: not bounded by time
	fill    time.Duration // limit once the first prefill has its rows
	full    bool          // the prefill before has more rows: none of the next begins
}

func (s *Scheduler) newRoom(opens bool) room {
	r := room{decodes: len(s.plan.Items) > 0, planned: loadOf(s.plan.Items)}
	if s.config.GapMax == 0 {
		return r
	}
	if r.decodes && !opens {
		r.limit = s.gap()
		r.fill = r.limit
	} else {
		// The first in order gets the whole step. Others share it as far as it stays
		// short: they must not delay its first token.
		r.limit = s.soloLimit()
		r.fill = time.Duration(float64(s.config.GapMax) / margin)
	}
	return r
}

// opening is the time in which sequences that started together get their first tokens: prompts
// go before gaps. It begins with the first stream, when most of the running sequences had no
// token yet and nobody waits for a slot. It ends when those have a token, after openingGaps at
// the latest. No stream runs that began before it.
type opening struct {
	alone  bool      // no stream ran in the last plan
	starts uint64    // those up to this one belong to it
	until  time.Time // zero for none
}

// opens says whether an opening lasts.
func (s *Scheduler) opens(now time.Time) bool {
	o := &s.opening
	running, streams := 0, 0
	for _, q := range s.running {
		if !q.resting() {
			running++
			if len(q.Tokens) > q.Prompt {
				streams++
			}
		}
	}
	switch {
	case streams == 0:
		*o = opening{alone: true}
	case o.alone:
		*o = opening{}
		if s.waiting == 0 && 2*streams < running {
			o.starts, o.until = s.starts, now.Add(openingGaps*s.config.GapMax)
		}
	}
	silent := func(q *Sequence) bool { return q.place <= o.starts && len(q.Tokens) == q.Prompt }
	if !now.Before(o.until) || !slices.ContainsFunc(s.running, silent) {
		o.until = time.Time{}
	}
	return !o.until.IsZero()
}

// budget is how many rows of q's prefill fit into the step: those that can be computed in time,
// as a multiple of align. The first prefill gets at least one piece, so that prefill always
// goes on.
func (s *Scheduler) budget(r *room, q *Sequence) int {
	rows := s.config.StepTokensMax - r.planned.Rows
	if r.decodes && s.config.ChunkTokens > 0 {
		rows = min(rows, s.config.ChunkTokens-r.prefill)
	}
	switch {
	case r.full:
		return 0
	case r.limit == 0:
		return rows
	}
	least := s.align
	switch {
	case r.prefill > 0:
		least = 0
	case !r.decodes:
		least = Align // nobody waits for the step to end
	}
	return min(rows, max(least, s.rowsWithin(r.limit, r.planned, q.computed, min(rows, q.pending()), s.cost.Predict)))
}

// rowsWithin is how many rows of a prefill at position start fit within limit beside what is
// planned: all of them, or a multiple of align.
func (s *Scheduler) rowsWithin(limit time.Duration, planned cost.Load, start, rows int, predict func(cost.Load) time.Duration) int {
	rows = max(0, min(rows, s.cost.Trusted()))
	return min(rows, s.align*largest(0, (rows+s.align-1)/s.align, func(n int) bool {
		return s.cost.Known() && predict(planned.With(start, min(n*s.align, rows), 0)) <= limit
	}))
}

// largest is the last number up to high for which ok is true, as it is for all before it. Of low it does not ask.
func largest(low, high int, ok func(n int) bool) int {
	for low < high {
		if n := (low + high + 1) / 2; ok(n) {
			low = n
		} else {
			high = n - 1
		}
	}
	return low
}

// prefillBudget is how many rows of prefill fit beside all that run now.
func (s *Scheduler) prefillBudget() int {
	var all cost.Load
	for _, q := range s.running {
		if q.decodes() {
			all = all.With(q.computed, 1, 1)
		}
	}
	limit := s.gap()
	if all.Rows == 0 {
		limit = s.soloLimit()
	}
	return max(s.align, s.rowsWithin(limit, all, 0, s.config.StepTokensMax-all.Rows, s.cost.Predict))
}

// take accounts for n planned rows of q.
func (r *room) take(q *Sequence, n int) {
	logits := 0
	if q.computed+n == len(q.Tokens) {
		logits = 1
	}
	r.full = q.computed+n < q.nextStop(q.computed)
	r.planned = r.planned.With(q.computed, n, logits)
	r.prefill += n
	r.limit = r.fill
}

// Measured says how long the step took that was committed last, from its plan until its tokens
// were delivered. A step that preempted sequences teaches nothing: it took longer than its load
// does.
func (s *Scheduler) Measured(took time.Duration) {
	s.count.StepMeasured = took
	s.count.StepPredicted = s.cost.Predict(s.last.load)
	if s.last.upset {
		return
	}
	switch {
	case s.cost.Steps() < tailKnown:
	case s.last.alone.Rows > 0:
		s.jitter.alone.add(float64(took), float64(s.cost.Predict(s.last.alone)))
	case s.last.decodes:
		s.jitter.batched.add(float64(took), float64(s.count.StepPredicted))
	}
	s.cost.Observe(s.last.load, took)
}
