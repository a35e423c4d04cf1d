package sched

import "corenode/engine/cost"

// DraftMax is how many of n drafted tokens the next step could compute for a
// sequence that decodes, with what there is now; 0 for one that does not. A caller
// for whom a draft costs something asks before it makes one.
func (s *Scheduler) DraftMax(q *Sequence, n int) int {
	if q.phase != phaseRunning || !q.decodes() || s.hybrid && s.pool.StatesFree() == 0 {
		return 0
	}
	return max(0, s.draftMax(q, n))
}

// DraftRows is how many rows of drafts a step can have now, of all sequences.
func (s *Scheduler) DraftRows() int {
	if s.hybrid {
		return min(draftRowsMax, s.pool.StatesFree())
	}
	return draftRowsMax
}

// StepSeconds is what a step of so many decodes takes, as far as that is known, else 0:
// what a caller weighs the time against that it spends on drafts.
func (s *Scheduler) StepSeconds(rows int) float64 {
	switch {
	case s.assumed != nil:
		return s.assumed(rows)
	case !s.cost.KnowsAlone():
		return 0
	}
	return s.cost.Predict(cost.Load{}.With(s.context, 1, 1).Times(rows)).Seconds()
}
