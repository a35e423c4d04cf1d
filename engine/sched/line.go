package sched

import (
	"container/heap"
	"slices"
	"time"

	"corenode/engine/priority"
)

// line is the waiting sequences of one account and one priority, by arrival.
type line struct {
	account *account
	class   *class
	queue   list[Sequence]
	work    work      // of those in the queue
	heapAt  int       // place in the class's heap, or -1 when nothing waits
	since   time.Time // when it began to wait with nothing of the account running
	link    link[line]
}

// class is the lines of one priority. Of several classes with waiting lines the one with the
// earliest due goes first.
type class struct {
	priority int8
	heap     waitingHeap // the lines with sequences
	slotless list[line]  // of them, those of accounts of which nothing runs, by since
	since    time.Time   // when it began to wait, or last had a sequence admitted
}

// due orders classes. It does not change while the class waits.
func (c *class) due(priorityWait time.Duration) time.Time {
	return priority.Due(c.priority, c.since, priorityWait)
}

// waitingHeap orders the lines of a class: the account served least first,
// then by the arrival of the first in line.
type waitingHeap []*line

func (h waitingHeap) Len() int { return len(h) }
func (h waitingHeap) Less(i, j int) bool {
	if a, b := h[i].account.counter, h[j].account.counter; a != b {
		return a < b
	}
	return h[i].queue.head.order < h[j].queue.head.order
}
func (h waitingHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i, j
}
func (h *waitingHeap) Push(x any) {
	l := x.(*line)
	l.heapAt = len(*h)
	*h = append(*h, l)
}
func (h *waitingHeap) Pop() any {
	l := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	l.heapAt = -1
	return l
}

// class returns the class of a priority. Classes are never removed: there are at most 256.
func (s *Scheduler) class(priority int8) *class {
	at, found := slices.BinarySearchFunc(s.classes, priority, func(c *class, p int8) int { return int(p) - int(c.priority) })
	if !found {
		c := &class{priority: priority, slotless: list[line]{at: func(l *line) *link[line] { return &l.link }}}
		s.classes = slices.Insert(s.classes, at, c)
	}
	return s.classes[at]
}

// line returns the line of an account's sequences of a priority.
func (s *Scheduler) line(a *account, priority int8) *line {
	for _, l := range a.lines {
		if l.class.priority == priority {
			return l
		}
	}
	l := &line{account: a, class: s.class(priority), queue: sequenceList(inQueue), heapAt: -1}
	a.lines = append(a.lines, l)
	return l
}

// firstClass is the class that is served next; something waits. Of two that are due at once the
// higher priority goes first.
func (s *Scheduler) firstClass() (first *class) {
	for _, c := range s.classes {
		if len(c.heap) > 0 && (first == nil || c.due(s.config.PriorityWait).Before(first.due(s.config.PriorityWait))) {
			first = c
		}
	}
	return first
}

// floor is the least that the counter of an account is raised to when it begins to wait. An
// account that was away does not save up service.
func (s *Scheduler) floor() int64 {
	least, any := int64(0), false
	for _, c := range s.classes {
		if len(c.heap) > 0 && (!any || c.heap[0].account.counter < least) {
			least, any = c.heap[0].account.counter, true
		}
	}
	if !any {
		return s.virtual
	}
	return least
}

// enqueue puts a sequence into its line, by arrival. Only sequences that ran before arrive in
// front of others, and they are few.
func (s *Scheduler) enqueue(q *Sequence, now time.Time) {
	a, l := q.account, s.line(q.account, q.Priority)
	q.phase, q.line = phaseWaiting, l
	var before *Sequence
	if tail := l.queue.tail; tail != nil && tail.order > q.order {
		for before = l.queue.head; before.order < q.order; {
			before = before.links[inQueue].next
		}
	}
	if a.waiting == 0 {
		a.counter = max(a.counter, s.floor())
	}
	l.queue.insertBefore(q, before)
	a.waiting++
	s.waiting++
	q.due = s.workOf(q)
	l.work, s.queued = l.work.plus(q.due), s.queued.plus(q.due)
	if l.heapAt < 0 {
		if len(l.class.heap) == 0 {
			l.class.since = now
		}
		heap.Push(&l.class.heap, l)
	} else {
		heap.Fix(&l.class.heap, l.heapAt)
	}
	s.placeSlotless(a, now)
}

// dequeue takes a waiting sequence out of every list that it is in.
func (s *Scheduler) dequeue(q *Sequence, now time.Time) {
	a, l := q.account, q.line
	l.queue.remove(q)
	q.line = nil
	a.waiting--
	s.waiting--
	l.work, s.queued = l.work.minus(q.due), s.queued.minus(q.due)
	if l.queue.len == 0 {
		heap.Remove(&l.class.heap, l.heapAt)
	} else {
		heap.Fix(&l.class.heap, l.heapAt)
	}
	s.placeSlotless(a, now)
	s.removeHit(q)
	if q.links[inFresh].in {
		s.fresh.remove(q)
		s.freshTokens -= int64(q.Prompt)
	}
}

// placeSlotless keeps the lists of lines that wait while nothing of their account runs.
func (s *Scheduler) placeSlotless(a *account, now time.Time) {
	for _, l := range a.lines {
		want := l.queue.len > 0 && a.running == 0
		switch {
		case want && !l.link.in:
			l.since = now
			l.class.slotless.pushBack(l)
		case !want && l.link.in:
			l.class.slotless.remove(l)
		}
	}
}

// charge adds cost to an account. It is negative for an item that is taken back.
func (s *Scheduler) charge(a *account, cost int64) {
	a.counter += cost
	for _, l := range a.lines {
		if l.heapAt >= 0 {
			heap.Fix(&l.class.heap, l.heapAt)
		}
	}
}
