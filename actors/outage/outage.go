// Package outage decides what the log says of a thing that fails many times in a row. A line for each failure would
// push all other lines out of what the log keeps. So the first failure has a line, then each Every has one at most, and
// one says that the thing works again.
package outage

import "time"

// Every is the least time between two lines that say that a thing fails.
const Every = 10 * time.Second

// State is what the log was told of one thing. The zero value has not failed. It is not safe for concurrent use.
type State struct {
	// Quiet is how long nothing may have failed before the log is told that the thing works again. It is for what
	// fails and works by turns. 0 is at once.
	Quiet time.Duration

	open   bool      // the log was told that it fails, and not yet that it works again
	said   time.Time // when the log was last told that it fails; zero is never
	failed time.Time // when it last did, or would have
	unsaid int       // failures since the log was last told anything
}

// Failed takes a failure and says whether to tell the log, and of how many failures since its last line.
func (s *State) Failed(now time.Time) (failures int, tell bool) {
	s.unsaid++
	return s.Lasts(now)
}

// Lasts takes that the thing fails still, although nothing was asked of it, and says whether to tell the log, as Failed does.
// It counts no failure.
func (s *State) Lasts(now time.Time) (failures int, tell bool) {
	s.failed = now
	if !s.said.IsZero() && now.Sub(s.said) < Every {
		return 0, false
	}
	s.open, s.said = true, now
	return s.take(), true
}

// Worked takes a success and says whether to tell the log, and of how many failures since its last line.
func (s *State) Worked(now time.Time) (failures int, tell bool) {
	if !s.open || now.Sub(s.failed) < s.Quiet {
		return 0, false
	}
	s.open = false
	return s.take(), true
}

func (s *State) take() (failures int) {
	failures, s.unsaid = s.unsaid, 0
	return failures
}
