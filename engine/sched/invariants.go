//go:build invariants

package sched

// checkedSize is how many sequences and accounts a scheduler may have that is checked
// after every call. With k times as many every k-th call is checked.
const checkedSize = 64

// checking says that every call is checked, for tests that count allocations.
const checking = true

// checks counts the calls since the latest check.
type checks struct{ calls int }

// check panics when an invariant of the scheduler does not hold. Its pool checks itself.
func (s *Scheduler) check() {
	if s.checks.calls++; s.checks.calls*checkedSize < len(s.running)+s.waiting+len(s.accounts) {
		return
	}
	s.checks.calls = 0
	if err := s.checkBooks(); err != nil {
		panic(err.Error())
	}
}
