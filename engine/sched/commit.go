package sched

import (
	"slices"

	"corenode/engine/kv"
)

// Commit says that the step was computed: of two open plans the first. Positions advance, full pages enter
// the prefix cache, and what it returns is to be done, in order, before
// anything else touches the states: snapshots. The slice is valid until the
// next Commit. Sequences finished or paused since Plan are left out; for a paused
// one Append may still be called with what its logits gave, token by token.
func (s *Scheduler) Commit(p *Plan) (after []kv.StateOp) {
	defer s.check()
	if p != &s.plan && p != &s.following || len(s.open) > 0 && p != s.open[0] {
		panic("sched: Commit of a foreign plan, or before one that was planned earlier")
	}
	if len(s.open) > 0 {
		s.open = slices.Delete(s.open, 0, 1)
	}
	s.after = s.after[:0]
	s.last, s.context = lastOf(p), s.meanContext()
	s.keepDrafts(p) // before snapshots: they may need the slots that it frees
	for i := range p.Items {
		q, n := p.Items[i].Seq, p.Items[i].kept()
		if q.planned == 0 {
			continue
		}
		q.planned--
		s.countRows(q, n, len(p.Items[i].Draft) > 0)
		q.computed += n
		q.Peak = max(q.Peak, q.computed)
		if s.hybrid {
			s.snapshot(q)
		} else {
			s.pool.Index(&q.table, q.Tokens, q.computed)
		}
	}
	s.closeParted()
	return s.after
}

// closeParted gives back the memory of sequences that left, once no step that writes to it is open.
func (s *Scheduler) closeParted() {
	if len(s.open) > 0 {
		return
	}
	for _, t := range s.parted {
		s.pool.Close(t)
	}
	s.parted = slices.Delete(s.parted, 0, len(s.parted))
}

// countRows counts the rows that were kept of an item. Behind the first one of
// an item with a draft all are decodes.
func (s *Scheduler) countRows(q *Sequence, n int, drafted bool) {
	if drafted {
		s.count.DecodeTokens += int64(n - 1)
		n = 1
	}
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
	rolling := !cut && q.computed > q.Prompt && s.rolls(q.computed)
	if !cut && !rolling {
		return
	}
	if rolling && q.rolling > 0 {
		s.pool.DropSnapshot(&q.table, q.rolling)
		q.rolling = 0
	}
	op, ok := s.pool.Snapshot(&q.table, q.Tokens, q.computed)
	if ok {
		s.after = append(s.pool.Moves(s.after), op)
	}
	if ok && rolling {
		q.rolling = q.computed
	}
}
