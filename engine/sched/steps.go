package sched

import "corenode/engine/cost"

// DraftMax is how many of n drafted tokens the next step could compute for a sequence that
// decodes, with the memory that is free now. It is 0 for a sequence that does not decode. A
// caller whose drafts cost time asks before it makes one.
func (s *Scheduler) DraftMax(q *Sequence, n int) int {
	if q.phase != phaseRunning || !q.decodes() || s.hybrid && s.pool.StatesFree() == 0 {
		return 0
	}
	return max(0, s.draftMax(q, n))
}

// DraftRows is how many drafted rows a step can have now, over all sequences.
func (s *Scheduler) DraftRows() int {
	if s.hybrid {
		return min(draftRowsMax, s.pool.StatesFree())
	}
	return draftRowsMax
}

// StepSeconds predicts a step of so many decodes, 0 while nothing is known. A caller weighs the
// time that it spends on drafts against it.
func (s *Scheduler) StepSeconds(rows int) float64 {
	switch {
	case s.assumed != nil:
		return s.assumed(rows)
	case !s.cost.KnowsAlone():
		return 0
	}
	return s.cost.Predict(cost.Load{}.With(s.context, 1, 1).Times(rows)).Seconds()
}
