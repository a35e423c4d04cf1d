package sched

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"corenode/engine/kv"
)

// quantum is how much service, in tokens, one account's prefill may be ahead
// before another's goes first.
const quantum = 2048

// skippedMax is how many plans a prefill may be passed over before it goes first.
const skippedMax = 16

// starvedAfter is the multiple of FairWait after which an account of which
// nothing runs goes first although others were served less.
const starvedAfter = 10

// Item is a run of tokens that one sequence computes in a step:
// Tokens[Start:Start+Len].
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
}

// Plan is one step. It belongs to the scheduler and is valid until the next Plan.
type Plan struct {
	// Before is to be done in order before the step, also when there are no Items.
	Before []kv.StateOp
	// Items are what the step computes; empty when there is nothing to do.
	Items []Item
	// Rows is the sum of their lengths.
	Rows int
	// Preempted lost their pages and wait again, by themselves.
	Preempted []*Sequence
	// Expired waited longer than QueueTimeout and are done: Finish would do nothing.
	Expired []*Sequence
}

// Plan decides the next step. When it has Items they must be computed and
// committed before the next Plan. Its work is bounded by the sequences that
// run, start, expire or are preempted in it (times a logarithm of the waiting
// accounts), not by the queue.
func (s *Scheduler) Plan(now time.Time) *Plan {
	if s.open {
		panic("sched: Plan before Commit of the last one")
	}
	p := &s.plan
	clear(p.Items) // drops pointers to sequences that are done
	clear(p.Preempted)
	clear(p.Expired)
	*p = Plan{Before: p.Before[:0], Items: p.Items[:0], Preempted: p.Preempted[:0], Expired: p.Expired[:0]}
	s.rows = 0
	s.expire(now)
	s.planDecodes(now)
	if len(p.Preempted) == 0 { // else the pages it got would be lost again
		s.admit(now)
	}
	s.planPrefills(now)
	p.Rows = s.rows
	s.open = len(p.Items) > 0
	return p
}

// expire ends those that waited too long: the first in the list came first.
func (s *Scheduler) expire(now time.Time) {
	for q := s.fresh.head; q != nil && s.config.QueueTimeout > 0; q = s.fresh.head {
		if now.Sub(q.Arrived) < s.config.QueueTimeout {
			return
		}
		s.Finish(q, now, 0)
		s.plan.Expired = append(s.plan.Expired, q)
		s.count.Expired++
	}
}

func (s *Scheduler) planDecodes(now time.Time) {
	s.turn = append(s.turn[:0], s.running...) // preemption changes running
	for _, q := range s.turn {
		if q.phase == phaseRunning && q.decodes() && s.grow(q, q.computed+1, now) {
			s.addItem(q, 1)
		}
	}
}

// addItem plans the next n tokens of a running sequence.
func (s *Scheduler) addItem(q *Sequence, n int) {
	q.planned, q.skipped = true, 0
	s.rows += n
	s.charge(q.account, cost(n))
	s.plan.Items = append(s.plan.Items, Item{
		Seq: q, Start: q.computed, Len: n, Pages: q.table.Pages, State: q.table.State,
		Logits: q.computed+n == len(q.Tokens),
	})
}

func cost(rows int) int64 {
	if rows == 1 {
		return decodeCost
	}
	return int64(rows) * prefillCost
}

// removeItem takes back what was planned for a sequence that is preempted.
func (s *Scheduler) removeItem(q *Sequence) {
	if !q.planned {
		return
	}
	at := slices.IndexFunc(s.plan.Items, func(i Item) bool { return i.Seq == q })
	s.rows -= s.plan.Items[at].Len
	s.charge(q.account, -cost(s.plan.Items[at].Len))
	s.plan.Items = slices.Delete(s.plan.Items, at, at+1)
	q.planned = false
}

// grow gets pages for n positions of a running sequence, at the cost of
// others where it must. It gives false if the sequence itself had to yield.
func (s *Scheduler) grow(q *Sequence, n int, now time.Time) bool {
	for s.pool.Grow(&q.table, n) != nil {
		if s.dropHold(nil) {
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

// victim is the latest arrival of the account that has most running
// sequences, if it has at least atLeast; accounts with equally many compete
// by arrival. A scan of the running ones.
func (s *Scheduler) victim(atLeast int) *Sequence {
	var best *Sequence
	for _, q := range slices.Backward(s.running) {
		if q.account.running >= atLeast && (best == nil || q.account.running > best.account.running) {
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

// dropHold gives up the hit of the waiting sequence that arrived last, other
// than keep. It will look again when it is admitted; Cached stays.
func (s *Scheduler) dropHold(keep *Sequence) bool {
	q := s.holders.tail
	if q != nil && q == keep {
		q = q.links[inHolders].prev
	}
	if q == nil {
		return false
	}
	s.unhold(q)
	s.pool.Close(&q.table)
	q.rematch = true
	s.count.HoldsDropped++
	return true
}

// unhold takes a sequence out of the list of holders, if it is in it.
func (s *Scheduler) unhold(q *Sequence) {
	if q.links[inHolders].in {
		s.holders.remove(q)
		s.heldPages -= len(q.table.Pages)
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

// next is the first in line: of the account served least, or of one that
// had to wait much longer than FairWait with nothing running, which newcomers
// that were served less could else keep waiting for ever. entitled says that
// others must make room for it.
func (s *Scheduler) next(now time.Time) (q *Sequence, entitled bool) {
	if a := s.slotless.head; a != nil && now.Sub(a.since) >= starvedAfter*s.config.FairWait {
		return a.queue.head, true
	}
	a := s.heap[0]
	return a.queue.head, a.running == 0 && now.Sub(a.since) >= s.config.FairWait
}

// fits says whether a waiting sequence can start: there is a slot, a state,
// and pages for all its tokens and one more, beside what the running ones
// need for theirs and a page each to go on.
func (s *Scheduler) fits(q *Sequence) bool {
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

// makeRoom makes a sequence fit that does not, by giving up the hits of others
// that wait; for an account that is entitled to a slot also by preempting from
// accounts that have several. Where nothing runs it always succeeds.
func (s *Scheduler) makeRoom(q *Sequence, entitled bool, now time.Time) bool {
	if len(s.running) == 0 {
		for !s.fits(q) {
			if !s.dropHold(q) {
				panic(fmt.Sprintf("sched: %d tokens do not fit an idle pool: %+v", len(q.Tokens), s.pool.Stats()))
			}
		}
		return true
	}
	slot := len(s.running) < s.config.SequencesMax
	if slot && s.need(q)+s.reserved+len(s.running) <= s.pool.PagesAvailable()+s.heldPages {
		for !s.fits(q) && s.dropHold(q) {
			// What a hold kept stays cached until the pages are needed.
		}
		if s.fits(q) {
			return true
		}
	}
	if !entitled || !s.couldFit(q) {
		return false
	}
	for !s.fits(q) {
		victim := s.victim(2)
		if victim == nil {
			return false
		}
		s.count.PreemptedFair++
		s.reserved -= max(0, s.pool.PagesFor(len(victim.Tokens))-len(victim.table.Pages))
		s.preempt(victim, now)
	}
	return true
}

// couldFit says whether preempting all but the first of each account would
// give enough pages, as far as sharing between them does not deceive it.
func (s *Scheduler) couldFit(q *Sequence) bool {
	pages := s.pool.PagesAvailable()
	for i, r := range s.running {
		first := !slices.ContainsFunc(s.running[:i], func(o *Sequence) bool { return o.account == r.account })
		if !first {
			pages += len(r.table.Pages)
		}
	}
	return s.need(q) <= pages
}

// start gives a waiting sequence a slot, its state and the pages of its hit.
func (s *Scheduler) start(q *Sequence, now time.Time) {
	a := q.account
	s.virtual = max(s.virtual, a.counter)
	a.running++ // before dequeue, which places the account
	s.dequeue(q, now)
	q.phase = phaseRunning
	q.fresh = false
	if q.Started.IsZero() {
		q.Started = now
	}
	if q.rematch {
		q.computed, _ = s.pool.Open(&q.table, q.Namespace, q.Tokens)
		q.rematch = false
	} else {
		q.computed = q.Cached
	}
	if s.hybrid {
		s.takeState(q)
	}
	s.reserved += max(0, s.pool.PagesFor(len(q.Tokens))-len(q.table.Pages))
	at, _ := slices.BinarySearchFunc(s.running, q.order, func(r *Sequence, order uint64) int {
		return int(int64(r.order) - int64(order))
	})
	s.running = slices.Insert(s.running, at, q)
}

// takeState gets a slot; fits has counted one. A second look at the prefix
// cache may hold the very snapshot that was counted: then it has to go.
func (s *Scheduler) takeState(q *Sequence) {
	op, err := s.pool.TakeState(&q.table)
	if errors.Is(err, kv.ErrNoState) {
		s.pool.Close(&q.table)
		s.pool.Open(&q.table, q.Namespace, nil)
		q.computed = 0
		op, err = s.pool.TakeState(&q.table)
	}
	if err != nil {
		panic(fmt.Sprintf("sched: no state for an admitted sequence: %v, %+v", err, s.pool.Stats()))
	}
	s.plan.Before = append(s.plan.Before, op)
}

// planPrefills hands the rest of the step to prefills in pieces.
func (s *Scheduler) planPrefills(now time.Time) {
	budget := s.config.StepTokensMax - s.rows
	if s.rows > 0 {
		budget = min(budget, s.config.ChunkTokens)
	}
	s.turn = s.turn[:0]
	for _, q := range s.running {
		if !q.planned && (q.pending() > 1 || q.decodes()) {
			s.turn = append(s.turn, q)
		}
	}
	slices.SortFunc(s.turn, prefillOrder)
	for _, q := range s.turn {
		if q.phase != phaseRunning {
			continue // preempted for one before it
		}
		n := s.piece(q, budget)
		if n == 0 {
			q.skipped++
			continue
		}
		if s.grow(q, q.computed+n, now) {
			s.addItem(q, n)
			budget -= n
		}
	}
}

// prefillOrder: those passed over too often, then by service, then by arrival.
func prefillOrder(a, b *Sequence) int {
	late := func(q *Sequence) int64 {
		if q.skipped >= skippedMax {
			return 0
		}
		return 1
	}
	if d := late(a) - late(b); d != 0 {
		return int(d)
	}
	if a.skipped < skippedMax {
		if x, y := a.account.counter/quantum, b.account.counter/quantum; x != y {
			if x < y {
				return -1
			}
			return 1
		}
	}
	return int(int64(a.order) - int64(b.order))
}

// piece is how many tokens of a prefill the budget allows: up to the next
// snapshot, to the end, or to a multiple of Align; 0 if it reaches none.
func (s *Scheduler) piece(q *Sequence, budget int) int {
	end := min(q.computed+budget, len(q.Tokens))
	if cut := q.nextCut(q.computed); cut > 0 && cut <= end {
		return cut - q.computed
	}
	if end < len(q.Tokens) {
		end = end / Align * Align
	}
	return max(0, end-q.computed)
}

// Commit says that the step was computed. Positions advance, full pages enter
// the prefix cache, and what it returns is to be done, in order, before
// anything else touches the states: snapshots. The slice is valid until the
// next Commit. Sequences finished or paused since Plan are left out; for a
// paused one Append may still be called with what its logits gave.
func (s *Scheduler) Commit(p *Plan) (after []kv.StateOp) {
	if p != &s.plan {
		panic("sched: Commit of a foreign plan")
	}
	s.open = false
	s.after = s.after[:0]
	for i := range p.Items {
		q, n := p.Items[i].Seq, p.Items[i].Len
		if !q.planned {
			continue
		}
		q.planned = false
		s.countRows(q, n)
		q.computed += n
		q.Peak = max(q.Peak, q.computed)
		if s.hybrid {
			s.snapshot(q)
		} else {
			s.pool.Index(&q.table, q.Tokens, q.computed)
		}
	}
	return s.after
}

func (s *Scheduler) countRows(q *Sequence, n int) {
	if n == 1 && q.computed >= q.Prompt && q.computed >= q.Peak {
		s.count.DecodeTokens++
		return
	}
	s.count.PrefillTokens += int64(n)
	s.count.RecomputedTokens += int64(max(0, min(n, q.Peak-q.computed)))
}

// snapshot takes one where the sequence asked for it, and moves one along
// with what it generates. Pages become findable with their snapshot only.
func (s *Scheduler) snapshot(q *Sequence) {
	_, cut := slices.BinarySearch(q.cuts, q.computed)
	every := s.config.DecodeSnapshotTokens
	rolling := !cut && every > 0 && q.computed > q.Prompt && q.computed%every == 0
	if !cut && !rolling {
		return
	}
	if rolling && q.rolling > 0 {
		s.pool.DropSnapshot(&q.table, q.rolling)
		q.rolling = 0
	}
	op, ok := s.pool.Snapshot(&q.table, q.Tokens, q.computed)
	if ok {
		s.after = append(s.after, op)
	}
	if ok && rolling {
		q.rolling = q.computed
	}
}
