package sched

import (
	"fmt"
	"slices"
)

// Check verifies the scheduler's books, and its pool's, from scratch: for tests.
// With the build tag invariants both check themselves.
func (s *Scheduler) Check() error {
	if err := s.checkBooks(); err != nil {
		return err
	}
	return s.pool.Check()
}

// checkBooks verifies the scheduler's own books.
func (s *Scheduler) checkBooks() error {
	if len(s.running) > s.config.SequencesMax {
		return fmt.Errorf("sched: %d run in %d slots", len(s.running), s.config.SequencesMax)
	}
	running := map[*account]int{}
	for i, q := range s.running {
		if q.phase != phaseRunning || !q.table.IsOpen() || i > 0 && s.running[i-1].order >= q.order {
			return fmt.Errorf("sched: running sequence %d at %d is in phase %d, table open %v", q.order, i, q.phase, q.table.IsOpen())
		}
		running[q.account]++
	}
	waiting, fresh, hits, held := 0, 0, 0, 0
	var queued work
	var tokens int64
	for name, a := range s.accounts {
		if a.running != running[a] || a.live < a.running+a.waiting || a.idle.in != (a.live == 0) {
			return fmt.Errorf("sched: account %q: %d run, books say %+v", name, running[a], *a)
		}
		delete(running, a)
		inLines := 0
		for i, l := range a.lines {
			if err := l.check(a); err != nil {
				return err
			}
			if slices.ContainsFunc(a.lines[:i], func(o *line) bool { return o.class == l.class }) {
				return fmt.Errorf("sched: account %q has two lines of priority %d", name, l.class.priority)
			}
			inLines += l.queue.len
			queued = queued.plus(l.work)
			for q := l.queue.head; q != nil; q = q.links[inQueue].next {
				if q.fresh {
					fresh++
					tokens += int64(q.Prompt)
				}
				if q.links[inHits].in {
					hits++
					held += len(q.table.Pages)
				}
			}
		}
		if inLines != a.waiting {
			return fmt.Errorf("sched: account %q: %d wait, books say %d", name, inLines, a.waiting)
		}
		waiting += inLines
	}
	for i, c := range s.classes {
		if i > 0 && s.classes[i-1].priority <= c.priority {
			return fmt.Errorf("sched: class %d comes after %d", c.priority, s.classes[i-1].priority)
		}
	}
	if len(running) > 0 || waiting != s.waiting || fresh != s.fresh.len || tokens != s.freshTokens ||
		hits != s.hits.len || held != s.hitPages {
		return fmt.Errorf("sched: %d wait, %d fresh with %d tokens, %d hold pages; books say %d, %d, %d, %d",
			waiting, fresh, tokens, hits, s.waiting, s.fresh.len, s.freshTokens, s.hits.len)
	}
	if queued != s.queued {
		return fmt.Errorf("sched: work of %+v waits, books say %+v", queued, s.queued)
	}
	if s.idle.len > idleAccountsMax {
		return fmt.Errorf("sched: %d idle accounts are remembered", s.idle.len)
	}
	return nil
}

// check verifies a line of account a.
func (l *line) check(a *account) error {
	waits := l.queue.len > 0
	if l.account != a || (l.heapAt >= 0) != waits || waits && l.class.heap[l.heapAt] != l || l.link.in != (waits && a.running == 0) {
		return fmt.Errorf("sched: account %q, priority %d: books say %+v", a.name, l.class.priority, *l)
	}
	var last uint64
	var due work
	for q := l.queue.head; q != nil; q = q.links[inQueue].next {
		if q.phase != phaseWaiting || q.order <= last || q.fresh != q.links[inFresh].in || q.line != l ||
			q.account != a || q.Priority != l.class.priority || q.links[inHits].in != (len(q.table.Pages) > 0) {
			return fmt.Errorf("sched: waiting sequence %d: phase %d, after %d, %d pages",
				q.order, q.phase, last, len(q.table.Pages))
		}
		last, due = q.order, due.plus(q.due)
	}
	if due != l.work {
		return fmt.Errorf("sched: account %q, priority %d: work of %+v waits, books say %+v", a.name, l.class.priority, due, l.work)
	}
	return nil
}
