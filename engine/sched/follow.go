package sched

import "slices"

// PlanFollowing plans the step after the open one before anyone knows what that gives: of each of its
// sequences the row of the token to come, which Append will bring. It is nil where that is not
// all that the next Plan would do, or where it cannot be done without the tokens: while a
// sequence waits, reads its prompt, has a draft or a reader that is behind, is at its last token
// or at the place of a snapshot, or needs a page that is not there.
//
// It is committed after the open one and its Appends. The caller leaves out what it
// gives to sequences that ended or were paused meanwhile.
func (s *Scheduler) PlanFollowing() *Plan {
	defer s.check()
	if len(s.open) != 1 || s.waiting > 0 || len(s.open[0].Items) != len(s.running) {
		return nil
	}
	items := s.open[0].Items
	if slices.ContainsFunc(items, func(it Item) bool { return !s.goesOn(&it) }) {
		return nil
	}
	for i := range items {
		if s.pool.Grow(&items[i].Seq.table, items[i].Start+2) != nil {
			return nil // those that have grown keep the page: they need it next
		}
	}
	p := &s.following
	if s.open[0] == p {
		p = &s.plan
	}
	p.reset()
	for i := range items {
		q := items[i].Seq
		q.planned++
		s.charge(q.account, decodeCost)
		p.Items = append(p.Items, Item{Seq: q, Start: items[i].Start + 1, Len: 1, Pages: q.table.Pages, State: q.table.State, Logits: true})
	}
	p.Rows = len(p.Items)
	s.open = append(s.open, p)
	return p
}

// goesOn says whether a sequence has one more row behind that of an open item, whatever its token is.
func (s *Scheduler) goesOn(it *Item) bool {
	q, next := it.Seq, it.Start+1
	switch {
	case q.planned != 1 || q.Stalled || len(q.Draft) > 0 || !it.Logits || it.Len != 1 || next < q.Prompt:
		return false
	case next+1 >= q.Prompt+q.Max: // that row would give a token more than it may have
		return false
	case s.hybrid && (slices.Contains(q.cuts, next) || s.rolls(next)):
		return false
	}
	return true
}

// rolls says whether decoding moves a snapshot to position n.
func (s *Scheduler) rolls(n int) bool {
	every := s.config.DecodeSnapshotTokens
	return every > 0 && n%every == 0
}
