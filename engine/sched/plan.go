package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"corenode/engine/kv"
)

// quantum is how much service, in tokens, the prefill of one account may be in front of another
// account's before that one goes first.
const quantum = 512

// skippedMax is how many plans may pass over an account's prefills before they go first.
const skippedMax = 16

// Item is a run of tokens that one sequence computes in a step: Tokens[Start:Start+Len], the
// last of them from Draft if there is one.
type Item struct {
	Seq   *Sequence
	Start int
	Len   int
	// Pages covers [0, Start+Len). It is the sequence's own table: valid until Commit.
	Pages []int32
	// State is the slot of its recurrent state, or kv.NoState.
	State int32
	// Logits says that the last row's logits are the next token's.
	Logits bool
	// Draft are tokens after Tokens that are computed too. The logits of all Len = 1+len(Draft)
	// rows are wanted then. Those of a row say which token follows it, and so whether the next
	// row belongs to the sequence.
	Draft []int32
	// Saves are slots that receive the state after each row but the last.
	Saves []int32
	// Kept is set by the caller before Commit when there is a Draft: how many rows
	// are the sequence's, at least 1. Tokens then grows by Draft[:Kept-1], and
	// Append brings what was sampled from row Kept-1.
	Kept int
}

// Prompt says whether the item's tokens are of its sequence's prompt: all are, or none.
func (i *Item) Prompt() bool { return i.Start < i.Seq.Prompt }

// Plan is one step. It belongs to the scheduler and is valid until the next Plan.
type Plan struct {
	// Before is to be done in order before the step, even without Items.
	Before []kv.StateOp
	// Items are what the step computes. Empty means that nothing can be computed until
	// Add, Resume, a change of Stalled, or the time that NextEntitled and QueueTimeout name.
	Items []Item
	// Rows is the sum of their lengths.
	Rows int
	// Preempted lost their pages and wait again, by themselves.
	Preempted []*Sequence
	// Expired waited longer than QueueTimeout and are done: Finish would do nothing.
	Expired []*Sequence
}

// Plan decides the next step. A plan with Items must be computed and committed before the next
// Plan. Its work is bounded by the sequences that run, start, expire or are preempted in it,
// times a logarithm of the waiting accounts. It does not depend on the length of the queue.
func (s *Scheduler) Plan(now time.Time) *Plan {
	defer s.check()
	if len(s.open) > 0 {
		panic("sched: Plan before Commit of the last one")
	}
	p := &s.plan
	p.reset()
	s.following.reset()
	s.rows, s.planned = 0, now
	s.expire(now)
	s.planDecodes(now)
	if len(p.Preempted) == 0 || len(p.Items) == 0 { // else the pages it got would be lost again
		s.admit(now)
	}
	s.planPrefills(now)
	s.planDrafts()
	p.Rows = s.rows
	if len(p.Items) > 0 {
		s.open = append(s.open, p)
	}
	return p
}

// reset empties a plan. Its slices are used again.
func (p *Plan) reset() {
	clear(p.Items) // drops pointers to sequences that are done
	clear(p.Preempted)
	clear(p.Expired)
	*p = Plan{Before: p.Before[:0], Items: p.Items[:0], Preempted: p.Preempted[:0], Expired: p.Expired[:0]}
}

// expire ends the sequences that waited too long. The list is by arrival.
func (s *Scheduler) expire(now time.Time) {
	for q := s.fresh.head; q != nil && s.config.QueueTimeout > 0; q = s.fresh.head {
		if now.Sub(q.Arrived) < s.config.QueueTimeout {
			return
		}
		s.forecast.waited(q, now.Sub(q.Arrived))
		s.Finish(q, now, 0)
		s.plan.Expired = append(s.plan.Expired, q)
		s.count.Expired++
	}
}

func (s *Scheduler) planDecodes(now time.Time) {
	s.planning = append(s.planning[:0], s.running...) // preemption changes running
	for _, q := range s.planning {
		if q.phase == phaseRunning && q.decodes() && s.grow(q, q.computed+1, now) {
			s.addItem(q, 1)
		}
	}
	clear(s.planning) // drops pointers to sequences that end
}

// addItem plans the next n tokens of a running sequence.
func (s *Scheduler) addItem(q *Sequence, n int) {
	q.planned = 1
	s.rows += n
	s.charge(q.account, service(n))
	s.plan.Items = append(s.plan.Items, Item{
		Seq: q, Start: q.computed, Len: n, Pages: q.table.Pages, State: q.table.State,
		Logits: q.computed+n == len(q.Tokens),
	})
}

// service is what an item of so many rows adds to its account's counter.
func service(rows int) int64 {
	if rows == 1 {
		return decodeCost
	}
	return int64(rows) * prefillCost
}

// removeItem takes back what was planned for a sequence that is preempted.
func (s *Scheduler) removeItem(q *Sequence) {
	if q.planned == 0 {
		return
	}
	at := slices.IndexFunc(s.plan.Items, func(i Item) bool { return i.Seq == q })
	s.rows -= s.plan.Items[at].Len
	s.charge(q.account, -service(s.plan.Items[at].Len))
	s.plan.Items = slices.Delete(s.plan.Items, at, at+1)
	q.planned = 0
}

// grow gets pages for n positions of a running sequence, at the cost of others if it must. It
// returns false if the sequence itself was preempted.
func (s *Scheduler) grow(q *Sequence, n int, now time.Time) bool {
	for s.pool.Grow(&q.table, n) != nil {
		if s.dropHit(nil) {
			continue
		}
		if len(s.running) == 1 {
			panic(fmt.Sprintf("sched: %d tokens do not fit a pool that is all theirs: %+v", n, s.pool.Stats()))
		}
		victim := s.victim(1)
		s.count.Preempted++
		s.preempt(victim, now)
		if victim == q {
			return false
		}
	}
	return true
}

// victim is the latest arrival of the account that runs most sequences, if it runs at least
// runningMin. Accounts that run equally many compete by arrival. It scans the running
// sequences.
func (s *Scheduler) victim(runningMin int) *Sequence {
	var best *Sequence
	for _, q := range slices.Backward(s.running) {
		if q.account.running >= runningMin && (best == nil || q.account.running > best.account.running) {
			best = q
		}
	}
	return best
}

func (s *Scheduler) preempt(q *Sequence, now time.Time) {
	s.removeItem(q)
	s.stop(q, now)
	s.enqueue(q, now)
	s.plan.Preempted = append(s.plan.Preempted, q)
}

// planPrefills hands the rest of the step to prefills in pieces.
func (s *Scheduler) planPrefills(now time.Time) {
	opens := s.opens(now) // in a plan without prefills, too: an opening ends by what runs
	s.planning = s.planning[:0]
	for _, q := range s.running {
		if q.planned == 0 && q.pending() > 0 && !q.resting() {
			q.account.passedOver = true
			s.planning = append(s.planning, q)
		}
	}
	if len(s.planning) == 0 {
		return
	}
	slices.SortFunc(s.planning, prefillOrder)
	room := s.newRoom(opens)
	for _, q := range s.planning {
		if q.phase != phaseRunning {
			continue // preempted for one before it
		}
		n := s.piece(q, s.budget(&room, q))
		if n > 0 && s.grow(q, q.computed+n, now) {
			s.addItem(q, n)
			room.take(q, n)
			q.account.passedOver, q.account.skipped = false, 0
		}
	}
	for _, q := range s.planning {
		if q.account.passedOver {
			q.account.passedOver = false
			q.account.skipped++
		}
	}
	clear(s.planning) // as planDecodes does
}

// prefillOrder puts accounts first that were passed over too often, then goes by service, then
// by arrival. So the prefills of one account are computed one after the other.
func prefillOrder(a, b *Sequence) int {
	x, y := a.account, b.account
	if x == y {
		return cmp.Compare(a.order, b.order)
	}
	late, other := x.skipped >= skippedMax, y.skipped >= skippedMax
	switch {
	case late != other:
		if late {
			return -1
		}
		return 1
	case !late && x.counter/quantum != y.counter/quantum:
		return cmp.Compare(x.counter/quantum, y.counter/quantum)
	}
	return cmp.Compare(a.order, b.order)
}

// piece is how many tokens of a prefill the budget allows: up to the next place where a piece
// must end, or else to a multiple of align. It is 0 if the budget reaches none.
func (s *Scheduler) piece(q *Sequence, budget int) int {
	end, stop := q.computed+budget, q.nextStop(q.computed)
	if end >= stop {
		end = stop
	} else {
		end = end / s.align * s.align
	}
	return max(0, end-q.computed)
}
