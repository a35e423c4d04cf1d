package sched

import (
	"errors"
	"fmt"
	"time"

	"corenode/engine/cost"
)

// ErrQueueFull says that a bound of the queue is reached. Add gives it as a
// *RefusedError, which says which one and for how long.
var ErrQueueFull = errors.New("sched: queue is full")

// Reason names the bound for which a sequence was refused.
type Reason string

const (
	RefusedRequests Reason = "requests" // QueueMax
	RefusedTokens   Reason = "tokens"   // QueueTokensMax
	RefusedWait     Reason = "wait"     // it would wait longer than QueueTimeout
)

// RefusedError is an ErrQueueFull.
type RefusedError struct {
	Reason Reason
	// RetryAfter is how long it takes until the same sequence would be taken if
	// nothing else arrived, at least retryMin.
	RetryAfter time.Duration
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%v (%s), room in %v", ErrQueueFull, e.Reason, e.RetryAfter)
}

func (e *RefusedError) Is(target error) bool { return target == ErrQueueFull }

const (
	// retryMin is the shortest RetryAfter: clients wait whole seconds.
	retryMin = time.Second
	// outputsDefault is how many tokens a sequence is taken to generate before any
	// has ended, and outputsMemory over how many of them the mean fades.
	outputsDefault, outputsMemory = 256, 64
	// waitKnown is the shortest expected wait that is compared with the real one,
	// and waitMemory over how many of them the correction fades.
	waitKnown, waitMemory = time.Second, 32
	// priceKnown is how many steps must have been measured before what they took says
	// how long others will wait. The first ones of a process touch all memory for the
	// first time, and may take many times as long as those after them.
	priceKnown = 8
	// correctionMax bounds the correction either way.
	correctionMax = 4
)

// work is what is left to compute: prefill rows, and tokens to decode as far
// as they can be foreseen.
type work struct{ rows, tokens int64 }

func (w work) plus(o work) work  { return work{w.rows + o.rows, w.tokens + o.tokens} }
func (w work) minus(o work) work { return work{w.rows - o.rows, w.tokens - o.tokens} }

// service is the work in the units of the accounts' counters.
func (w work) service() float64 {
	return float64(w.rows)*prefillCost + float64(w.tokens)*decodeCost
}

// price is what work takes while the queue is not empty: seconds of a row of
// prefill beside a full batch, and of one sequence's token in it.
type price struct{ row, token float64 }

func (p price) of(w work) float64 { return float64(w.rows)*p.row + float64(w.tokens)*p.token }

// forecast is what was learned of the requests themselves.
type forecast struct {
	outputs float64 // mean tokens generated, 0 before any has ended
	wait    float64 // real wait / computed one; 0 before any is known
	late    tail    // of real waits, by those expected
}

// ended learns from a sequence that had a slot.
func (f *forecast) ended(q *Sequence) {
	n := float64(len(q.Tokens) - q.Prompt)
	if f.outputs == 0 {
		f.outputs = max(1, n)
	}
	f.outputs += (n - f.outputs) / outputsMemory
}

// waited learns from the time in the queue of a sequence that left it.
func (f *forecast) waited(q *Sequence, real time.Duration) {
	if q.expected < waitKnown {
		return
	}
	f.late.add(float64(real), float64(q.expected)*f.correction())
	ratio := min(correctionMax, max(1./correctionMax, float64(real)/float64(q.expected)))
	f.wait = f.correction() + (ratio-f.correction())/waitMemory
}

func (f *forecast) correction() float64 {
	if f.wait == 0 {
		return 1
	}
	return f.wait
}

// workOf is what a sequence that waits, or is about to, has left.
func (s *Scheduler) workOf(q *Sequence) work {
	rows := len(q.Tokens)
	if q.fresh {
		rows -= q.Cached // a hit that was given up is computed after all, but is rare
	}
	most, outputs := q.Prompt+q.Max-len(q.Tokens), float64(outputsDefault)
	if s.forecast.outputs > 0 {
		outputs = s.forecast.outputs
	}
	return work{int64(rows), int64(min(float64(most), outputs))}
}

// price computes what work takes in the next seconds, by what steps took in the
// last ones; zero before anything was measured.
func (s *Scheduler) price() price {
	one := s.one()
	n, piece := s.mix(one)
	all := one.Times(n)
	decode := s.cost.PredictLong(all)
	rows := s.cost.PredictLong(all.With(one.Context/2, piece, 0)) - decode // halfway through a prompt
	return price{row: rows.Seconds() / float64(piece), token: decode.Seconds() / float64(n)}
}

// mix is what steps compute while sequences like those that wait come: n decodes
// and pieces of so many rows. More decode beside each other only as long as the
// rows that fit beside them, in the time that those take for their tokens, are
// enough for as many that follow.
func (s *Scheduler) mix(one cost.Load) (n, piece int) {
	rows, tokens := s.queued.rows, max(1, s.queued.tokens)
	low, high := 1, s.batchMax(one)
	for low < high {
		n := (low + high + 1) / 2
		if int64(n)*rows <= int64(s.pieceBeside(one, n))*tokens {
			low = n
		} else {
			high = n - 1
		}
	}
	return low, s.pieceBeside(one, low)
}

// pieceBeside is how many rows of prefill steps have on the average of many beside
// n sequences that decode.
func (s *Scheduler) pieceBeside(one cost.Load, n int) int {
	rows := s.config.StepTokensMax - n
	if s.config.ChunkTokens > 0 {
		rows = min(rows, s.config.ChunkTokens)
	}
	if s.config.GapMax > 0 {
		rows = s.rowsWithin(s.gapBy(s.cost.PredictLong), one.Times(n), one.Context/2, rows, s.cost.PredictLong)
	}
	return max(s.align, rows)
}

// batchMax is how many sequences with such loads run at once when many wait.
func (s *Scheduler) batchMax(one cost.Load) int {
	pages := s.pool.Config().Pages / max(1, s.pool.PagesFor(one.Context))
	low, high := 1, max(1, min(s.config.SequencesMax, pages))
	if s.config.GapMax == 0 || !s.cost.Known() {
		return high
	}
	for low < high {
		n := (low + high + 1) / 2
		if s.fitsGap(one.Times(n), s.cost.PredictLong) {
			low = n
		} else {
			high = n - 1
		}
	}
	return low
}

// ahead is the work that will be done before a new sequence of an account
// starts, in seconds of p: what waits in its own line and in higher classes,
// and of the other lines of its class as much as keeps the service equal.
func (s *Scheduler) workBefore(name string, priority int8, w work, p price) (seconds float64) {
	account := s.accounts[name]
	own, counter := w, s.floor() // as enqueue would lift it
	if account != nil {
		counter = max(counter, account.counter)
		for _, l := range account.lines {
			if l.class.priority == priority {
				own = own.plus(l.work)
			}
		}
	}
	for _, c := range s.classes {
		if c.priority < priority {
			continue
		}
		for _, l := range c.heap {
			share := 1.0
			if c.priority == priority && l.account != account {
				share = (own.service() + float64(counter-l.account.counter)) / max(1, l.work.service())
			}
			seconds += min(1, max(0, share)) * p.of(l.work)
		}
	}
	return seconds
}

// expect says how long a new sequence would wait for its slot, where others
// wait: as computed, and corrected by how such numbers came out before. Slots become
// free one after the other, on average half of one's work from now.
func (s *Scheduler) expect(q *Sequence, w work, p price) (computed, corrected time.Duration) {
	seconds := s.workBefore(q.Account, q.Priority, w, p) + p.of(w)/2
	return time.Duration(seconds * float64(time.Second)),
		time.Duration(seconds * s.forecast.correction() * float64(time.Second))
}

// full says whether a bound of the queue's size keeps a new sequence of so many tokens out.
func (s *Scheduler) full(tokens int) *RefusedError {
	if s.waiting == 0 {
		return nil
	}
	over := s.freshTokens + int64(tokens) - s.config.QueueTokensMax
	switch {
	case s.fresh.len >= s.config.QueueMax:
		return s.refuse(RefusedRequests, s.queueSeconds()/float64(s.waiting))
	case s.config.QueueTokensMax > 0 && s.fresh.len > 0 && over > 0:
		return s.refuse(RefusedTokens, s.queueSeconds()*min(1, max(1/float64(s.waiting), float64(over)/float64(s.freshTokens))))
	}
	return nil
}

// late says how long a new sequence, of which it is known what the cache has, is
// expected to wait in the queue, and whether that is too long. Before priceKnown
// steps nobody knows: it expects nothing, and refuses nobody.
func (s *Scheduler) late(q *Sequence) (expected time.Duration, refused *RefusedError) {
	if s.waiting == 0 || s.cost.Steps() < priceKnown {
		return 0, nil
	}
	expected, wait := s.expect(q, s.workOf(q), s.price())
	if most := s.waitMax(); most > 0 && wait > most {
		return 0, s.refuse(RefusedWait, (wait - most).Seconds())
	}
	return expected, nil
}

// refuse names a bound, and when there will be room.
func (s *Scheduler) refuse(reason Reason, seconds float64) *RefusedError {
	return &RefusedError{reason, s.retryAfter(time.Duration(seconds * float64(time.Second)))}
}

// waitMax is the longest that a sequence may be expected to wait.
func (s *Scheduler) waitMax() time.Duration {
	below := margin
	if late := s.forecast.late; late.seen >= tailKnown {
		below = max(below, late.of())
	}
	return time.Duration(float64(s.config.QueueTimeout) / below)
}

// retryAfter keeps a wait within what can be promised: by QueueTimeout all
// that waits now has left the queue.
func (s *Scheduler) retryAfter(wait time.Duration) time.Duration {
	if s.config.QueueTimeout > 0 {
		wait = min(wait, s.config.QueueTimeout)
	}
	return max(retryMin, wait)
}

// QueueWait is how long the work that waits for a slot takes.
func (s *Scheduler) QueueWait() time.Duration {
	if s.waiting == 0 {
		return 0
	}
	return time.Duration(s.queueSeconds() * float64(time.Second))
}

func (s *Scheduler) queueSeconds() float64 { return s.forecast.correction() * s.price().of(s.queued) }

// RetryAfter is what to tell a sequence that expired: how long until a new
// one is expected to get its slot in time.
func (s *Scheduler) RetryAfter() time.Duration {
	return s.retryAfter(s.QueueWait() - s.waitMax())
}
