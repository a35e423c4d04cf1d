package sched

import (
	"fmt"
	"time"

	"corenode/engine/cost"
)

// Reason names the bound that refused a sequence.
type Reason string

const (
	RefusedRequests Reason = "requests" // QueueMax
	RefusedTokens   Reason = "tokens"   // QueueTokensMax
	RefusedWait     Reason = "wait"     // it would wait longer than QueueTimeout
	RefusedMemory   Reason = "memory"   // RefuseMemory
)

// RefusedError says that a bound of the queue is reached.
type RefusedError struct {
	Reason Reason
	// RetryAfter is how long it takes until the same sequence would be accepted if nothing else
	// arrived, at least retryMin.
	RetryAfter time.Duration
}

// Error says what is full, and when there will be room.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("sched: queue is full (%s), room in %v", e.Reason, e.RetryAfter)
}

const (
	// retryMin is the shortest RetryAfter: clients wait whole seconds.
	retryMin = time.Second
	// outputsDefault is the expected number of output tokens before any sequence has ended.
	// outputsMemory is how many sequences the mean remembers.
	outputsDefault, outputsMemory = 256, 64
	// waitKnown is the shortest expected wait that is compared with the real one. waitMemory is
	// how many waits the correction remembers.
	waitKnown, waitMemory = time.Second, 32
	// priceKnown is how many steps must have been measured before they predict a wait. The
	// first steps of a process touch all memory for the first time and may take many times as
	// long.
	priceKnown = 8
	// correctionMax bounds the correction either way.
	correctionMax = 4
)

// work is what is left to compute: rows of prefill, and tokens to decode as far as they can be
// foreseen.
type work struct{ rows, tokens int64 }

func (w work) plus(o work) work  { return work{w.rows + o.rows, w.tokens + o.tokens} }
func (w work) minus(o work) work { return work{w.rows - o.rows, w.tokens - o.tokens} }

// service is the work in the units of the accounts' counters.
func (w work) service() float64 {
	return float64(w.rows)*prefillCost + float64(w.tokens)*decodeCost
}

// price is what work costs while the queue is not empty: the seconds of one row of prefill
// beside a full batch, and of one token of one sequence in it.
type price struct{ row, token float64 }

func (p price) of(w work) float64 { return float64(w.rows)*p.row + float64(w.tokens)*p.token }

// forecast is what was learned from the requests themselves.
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

// waited learns from the queue time of a sequence that left the queue.
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

// workOf is the work that a waiting sequence has left.
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

// price is what work will cost in the next seconds, by what steps took in the last ones. It is
// zero before anything was measured.
func (s *Scheduler) price() price {
	one := s.one()
	n, piece := s.mix(one)
	all := one.Times(n)
	decode := s.cost.PredictLong(all)
	rows := s.cost.PredictLong(all.With(one.Context/2, piece, 0)) - decode // halfway through a prompt
	return price{row: rows.Seconds() / float64(piece), token: decode.Seconds() / float64(n)}
}

// mix is what steps compute while sequences like the waiting ones arrive: n decodes beside
// pieces of so many rows. A larger n is only possible while the pieces beside it bring in new
// sequences as fast as n of them end.
func (s *Scheduler) mix(one cost.Load) (n, piece int) {
	rows, tokens := s.queued.rows, max(1, s.queued.tokens)
	n = largest(1, s.batchMax(one), func(n int) bool { return int64(n)*rows <= int64(s.pieceBeside(one, n))*tokens })
	return n, s.pieceBeside(one, n)
}

// pieceBeside is how many rows of prefill an average step has beside n sequences that decode.
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

// batchMax is how many sequences of this load run at once when many wait.
func (s *Scheduler) batchMax(one cost.Load) int {
	pages := s.pool.Config().Pages / max(1, s.pool.PagesFor(one.Context))
	most := max(1, min(s.config.SequencesMax, pages))
	if s.config.GapMax == 0 || !s.cost.Known() {
		return most
	}
	return largest(1, most, func(n int) bool { return s.fitsGap(one.Times(n), s.cost.PredictLong) })
}

// workBefore is the work, in seconds at price p, that is done before a new sequence of an
// account starts. It is all that waits in its own line and in higher classes. Of the other
// lines of its class it is the part that keeps the service equal.
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

// expect is how long a new sequence would wait for a slot while others wait: as computed, and
// as corrected by how such numbers came out before. Slots become free one after the other, on
// average after half of a sequence's work.
func (s *Scheduler) expect(q *Sequence, w work, p price) (computed, corrected time.Duration) {
	seconds := s.workBefore(q.Account, q.Priority, w, p) + p.of(w)/2
	return time.Duration(seconds * float64(time.Second)),
		time.Duration(seconds * s.forecast.correction() * float64(time.Second))
}

// full says whether the size of the queue keeps out a new sequence of so many tokens.
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

// RefuseMemory refuses a new sequence that would take too much of what the caller counts, unless none
// waits: then it could be the only one.
func (s *Scheduler) RefuseMemory() *RefusedError {
	if s.waiting == 0 {
		return nil
	}
	s.count.RefusedQueueFull++
	return s.refuse(RefusedMemory, s.queueSeconds()/float64(s.waiting))
}

// late is the expected queue time of a new sequence, whose cached prefix is known, and the
// refusal if that is too long. Before priceKnown steps nothing is expected and nobody is
// refused.
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

// waitMax is the longest expected wait that is accepted.
func (s *Scheduler) waitMax() time.Duration {
	below := margin
	if late := s.forecast.late; late.seen >= tailKnown {
		below = max(below, late.of())
	}
	return time.Duration(float64(s.config.QueueTimeout) / below)
}

// retryAfter bounds a wait by QueueTimeout: by then all that waits now has left the queue.
func (s *Scheduler) retryAfter(wait time.Duration) time.Duration {
	if s.config.QueueTimeout > 0 {
		wait = min(wait, s.config.QueueTimeout)
	}
	return max(retryMin, wait)
}

// QueueWait is how long the waiting work will take.
func (s *Scheduler) QueueWait() time.Duration {
	if s.waiting == 0 {
		return 0
	}
	return time.Duration(s.queueSeconds() * float64(time.Second))
}

func (s *Scheduler) queueSeconds() float64 { return s.forecast.correction() * s.price().of(s.queued) }

// RetryAfter is for a sequence that expired: how long until a new one is expected to get its
// slot in time.
func (s *Scheduler) RetryAfter() time.Duration {
	return s.retryAfter(s.QueueWait() - s.waitMax())
}
