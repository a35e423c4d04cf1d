package sched

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"corenode/engine/kv"
)

// starvedAfter is the multiple of FairWait after which an account with nothing running goes
// first, although others were served less.
const starvedAfter = 10

// dropHit gives up the cached hit of the waiting sequence that arrived last, other than keep.
// That sequence looks again when it is admitted; its Cached stays.
func (s *Scheduler) dropHit(keep *Sequence) bool {
	q := s.hits.tail
	if q != nil && q == keep {
		q = q.links[inHits].prev
	}
	if q == nil {
		return false
	}
	s.removeHit(q)
	s.pool.Close(&q.table)
	q.rematch = true
	s.count.HitsDropped++
	return true
}

// removeHit takes a sequence out of the list of hits, if it is in it.
func (s *Scheduler) removeHit(q *Sequence) {
	if q.links[inHits].in {
		s.hits.remove(q)
		s.hitPages -= len(q.table.Pages)
	}
}

// admit gives slots to waiting sequences while the first in line fits.
func (s *Scheduler) admit(now time.Time) {
	if s.waiting == 0 {
		return
	}
	s.reserved = 0
	for _, q := range s.running {
		s.reserved += max(0, s.pool.PagesFor(len(q.Tokens))-len(q.table.Pages))
	}
	for s.waiting > 0 {
		q, entitled := s.next(now)
		if !s.fits(q) && !s.makeRoom(q, entitled, now) {
			return
		}
		s.start(q, now)
	}
}

// next is the first in line: in the first class, of the account that was served least. An
// account that waited much longer than FairWait with nothing running goes before it; else
// newcomers, who were served less, could keep it waiting for ever.
//
// entitled says that others must make room. After FairWait an account is entitled to a place.
// To a share of the steps' time it is entitled only after ten times as long, because the next
// sequence that ends gives that back anyway.
func (s *Scheduler) next(now time.Time) (q *Sequence, entitled bool) {
	c := s.firstClass()
	if l := c.slotless.head; l != nil && now.Sub(l.since) >= starvedAfter*s.config.FairWait {
		return l.queue.head, true
	}
	l := c.heap[0]
	q = l.queue.head
	return q, l.account.running == 0 && now.Sub(l.since) >= s.config.FairWait && !s.hasPlace(q)
}

// NextEntitled is when time alone entitles the next waiting account to a place, counted from
// the last Plan.
func (s *Scheduler) NextEntitled() (at time.Time, ok bool) {
	if s.waiting == 0 {
		return at, false
	}
	sooner := func(t time.Time) {
		if t.After(s.planned) && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	c := s.firstClass()
	if l := c.heap[0]; l.account.running == 0 {
		sooner(l.since.Add(s.config.FairWait))
	}
	if l := c.slotless.head; l != nil {
		sooner(l.since.Add(starvedAfter * s.config.FairWait))
	}
	return at, ok
}

// fits says whether a waiting sequence can start: there is a place, and time for it in each
// step.
func (s *Scheduler) fits(q *Sequence) bool { return s.hasPlace(q) && s.affordable(q) }

// hasPlace says whether there is a slot, a state, and pages for a waiting sequence: for all its
// tokens and one more. The running sequences keep what their tokens need, and one page each to
// go on.
func (s *Scheduler) hasPlace(q *Sequence) bool {
	if len(s.running) >= s.config.SequencesMax || s.hybrid && s.pool.StatesAvailable() == 0 {
		return false
	}
	need := s.need(q)
	if len(s.running) > 0 {
		need += s.reserved + len(s.running)
	}
	return need <= s.pool.PagesAvailable()
}

func (s *Scheduler) need(q *Sequence) int {
	return min(s.pool.PagesFor(len(q.Tokens)+1), s.pool.Config().Pages) - len(q.table.Pages)
}

// makeRoom makes a sequence fit by giving up the hits of others that wait. For an entitled
// account it also preempts sequences of accounts that run several. Where nothing runs it always
// succeeds.
func (s *Scheduler) makeRoom(q *Sequence, entitled bool, now time.Time) bool {
	if len(s.running) == 0 {
		for !s.fits(q) {
			if !s.dropHit(q) {
				panic(fmt.Sprintf("sched: %d tokens do not fit an idle pool: %+v", len(q.Tokens), s.pool.Stats()))
			}
		}
		return true
	}
	slot := len(s.running) < s.config.SequencesMax && s.affordable(q)
	if slot && s.need(q)+s.reserved+len(s.running) <= s.pool.PagesAvailable()+s.hitPagesOfOthers(q) {
		for !s.fits(q) && s.dropHit(q) {
			// What a hold kept stays cached until the pages are needed.
		}
		if s.fits(q) {
			return true
		}
	}
	if !entitled || !s.couldFit(q) {
		return false
	}
	// A sequence that takes the place of another adds nothing to a step.
	for instead := false; ; instead = true {
		for !s.hasPlace(q) && len(s.running) < s.config.SequencesMax && s.dropHit(q) {
			// Who waits gives up a hit before who runs loses its pages.
		}
		if instead && s.hasPlace(q) {
			return true
		}
		victim := s.victim(2)
		if victim == nil {
			return false
		}
		s.count.PreemptedFair++
		s.reserved -= max(0, s.pool.PagesFor(len(victim.Tokens))-len(victim.table.Pages))
		s.preempt(victim, now)
	}
}

// hitPagesOfOthers is the upper bound of the pages in the hits of other waiting sequences.
// Shared pages count for each.
func (s *Scheduler) hitPagesOfOthers(q *Sequence) int { return s.hitPages - len(q.table.Pages) }

// couldFit says whether enough pages would become free if all but the first sequence of each
// account were preempted and the hits of waiting sequences were given up. Sharing among hits
// can make it too optimistic.
func (s *Scheduler) couldFit(q *Sequence) bool {
	need := s.need(q)
	s.closing = s.closing[:0]
	for i, r := range s.running {
		first := !slices.ContainsFunc(s.running[:i], func(o *Sequence) bool { return o.account == r.account })
		if first {
			need += max(0, s.pool.PagesFor(len(r.Tokens))-len(r.table.Pages)) + 1
		} else {
			s.closing = append(s.closing, &r.table)
		}
	}
	fits := len(s.closing) > 0 && need <= s.pool.PagesAvailable()+s.hitPagesOfOthers(q)+s.pool.Freed(s.closing)
	clear(s.closing) // drops pointers to sequences that are done
	return fits
}

// start gives a waiting sequence a slot, its state and the pages of its hit.
func (s *Scheduler) start(q *Sequence, now time.Time) {
	a := q.account
	s.virtual = max(s.virtual, a.counter)
	a.running++ // before dequeue, which places the account
	q.line.class.since = now
	s.dequeue(q, now)
	q.phase = phaseRunning
	q.fresh = false
	s.starts++
	q.place = s.starts
	if q.rematch {
		q.computed, _ = s.match(q, q.Tokens)
		q.rematch = false
	} else {
		q.computed = q.Cached
	}
	if s.hybrid {
		s.takeState(q)
	}
	if q.Started.IsZero() {
		q.Started = now
		s.forecast.waited(q, now.Sub(q.Arrived))
		s.pool.CountHit(&q.table)
	}
	s.reserved += max(0, s.pool.PagesFor(len(q.Tokens))-len(q.table.Pages))
	at, _ := slices.BinarySearchFunc(s.running, q.order, func(r *Sequence, order uint64) int {
		return int(int64(r.order) - int64(order))
	})
	s.running = slices.Insert(s.running, at, q)
}

// takeState gets a slot; fits has counted one. A second look at the prefix cache may use the
// very snapshot that was counted. Then that hit is given up.
func (s *Scheduler) takeState(q *Sequence) {
	op, err := s.pool.TakeState(&q.table)
	if errors.Is(err, kv.ErrNoState) {
		s.pool.Close(&q.table)
		s.match(q, nil)
		q.computed = 0
		op, err = s.pool.TakeState(&q.table)
	}
	if err != nil {
		panic(fmt.Sprintf("sched: no state for an admitted sequence: %v, %+v", err, s.pool.Stats()))
	}
	s.plan.Before = append(s.pool.Moves(s.plan.Before), op)
}
