//go:build !invariants

package sched

const checking = false

type checks struct{}

// check does nothing: the build tag invariants makes it check.
func (s *Scheduler) check() {}
