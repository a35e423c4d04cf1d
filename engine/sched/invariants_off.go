//go:build !invariants

package sched

// checking says that calls are not checked.
const checking = false

// checks is empty: nothing is counted.
type checks struct{}

// check does nothing: the build tag invariants makes it check.
func (s *Scheduler) check() { _ = s.checks }
