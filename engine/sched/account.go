package sched

import (
	"container/heap"
	"time"
)

// What a token adds to its account's counter. A decoded token occupies a whole
// step's turn, a prefilled one shares the read of the weights with its chunk.
const (
	prefillCost = 1
	decodeCost  = 2
)

// idleAccountsMax bounds the accounts that are remembered without sequences.
const idleAccountsMax = 1024

// account is the fairness state of one account. It exists while a sequence of
// its own does, and then until it is forgotten for its debt being paid off or
// for too many idle ones.
type account struct {
	name    string
	counter int64          // service received, in costs; lifted when it was away
	queue   list[Sequence] // waiting, by arrival
	live    int            // sequences between Add and Finish
	running int
	heapAt  int       // place in the heap of waiting accounts, or -1
	since   time.Time // when it was last without a running sequence and began to wait
	links   [2]link[account]
}

// The lists that an account can be in.
const (
	inSlotless = iota // waiting and nothing runs, by since
	inIdle            // no sequences, by when the last one left
)

func accountList(kind int) list[account] {
	return list[account]{at: func(a *account) *link[account] { return &a.links[kind] }}
}

// waitingHeap orders the accounts that have waiting sequences: least served
// first, then by the arrival of their first in queue.
type waitingHeap []*account

func (h waitingHeap) Len() int { return len(h) }
func (h waitingHeap) Less(i, j int) bool {
	if h[i].counter != h[j].counter {
		return h[i].counter < h[j].counter
	}
	return h[i].queue.head.order < h[j].queue.head.order
}
func (h waitingHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i, j
}
func (h *waitingHeap) Push(x any) {
	a := x.(*account)
	a.heapAt = len(*h)
	*h = append(*h, a)
}
func (h *waitingHeap) Pop() any {
	a := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	a.heapAt = -1
	return a
}

// join returns the account of a new sequence.
func (s *Scheduler) join(name string) *account {
	a := s.accounts[name]
	if a == nil {
		a = &account{name: name, heapAt: -1, queue: sequenceList(inQueue)}
		s.accounts[name] = a
	}
	s.idle.remove(a)
	a.live++
	return a
}

// leave counts a sequence out. An account without sequences is remembered
// only while it has had more than those that wait would be lifted to anyway.
func (s *Scheduler) leave(a *account) {
	a.live--
	if a.live > 0 {
		return
	}
	if a.counter <= s.floor() {
		delete(s.accounts, a.name)
		return
	}
	s.idle.pushBack(a)
	if s.idle.len > idleAccountsMax {
		oldest := s.idle.head
		s.idle.remove(oldest)
		delete(s.accounts, oldest.name)
	}
}

// floor is what an account that begins to wait is lifted to: being away
// saves no service up.
func (s *Scheduler) floor() int64 {
	if len(s.heap) > 0 {
		return s.heap[0].counter
	}
	return s.virtual
}

// enqueue puts a sequence into its account's queue, by arrival. Only those
// that ran before can arrive ahead of others, and they are few and in front.
func (s *Scheduler) enqueue(q *Sequence, now time.Time) {
	a := q.account
	q.phase = phaseWaiting
	var before *Sequence
	if tail := a.queue.tail; tail != nil && tail.order > q.order {
		for before = a.queue.head; before.order < q.order; {
			before = before.links[inQueue].next
		}
	}
	a.queue.insertBefore(q, before)
	s.waiting++
	if a.heapAt < 0 {
		a.counter = max(a.counter, s.floor())
		heap.Push(&s.heap, a)
	} else {
		heap.Fix(&s.heap, a.heapAt)
	}
	s.placeSlotless(a, now)
}

// dequeue takes a waiting sequence out of every list it waits in.
func (s *Scheduler) dequeue(q *Sequence, now time.Time) {
	a := q.account
	a.queue.remove(q)
	s.waiting--
	if a.queue.len == 0 {
		heap.Remove(&s.heap, a.heapAt)
	} else {
		heap.Fix(&s.heap, a.heapAt)
	}
	s.placeSlotless(a, now)
	s.unhold(q)
	if q.links[inFresh].in {
		s.fresh.remove(q)
		s.freshTokens -= int64(q.Prompt)
	}
}

// placeSlotless keeps the list of accounts that wait with nothing running.
func (s *Scheduler) placeSlotless(a *account, now time.Time) {
	in := a.links[inSlotless].in
	want := a.queue.len > 0 && a.running == 0
	switch {
	case want && !in:
		a.since = now
		s.slotless.pushBack(a)
	case !want && in:
		s.slotless.remove(a)
	}
}

// charge adds cost, which is negative for an item taken back, to an account.
func (s *Scheduler) charge(a *account, cost int64) {
	a.counter += cost
	if a.heapAt >= 0 {
		heap.Fix(&s.heap, a.heapAt)
	}
}
