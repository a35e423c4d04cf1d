//go:build !linux

package guest

import "time"

// threadTime is nil: this system has no clock of one thread, and ticks alone
// bound a trial.
func threadTime() func() time.Duration { return nil }

// threadClock is not ok: calls are measured by the time that passes.
func threadClock() (time.Duration, bool) { return 0, false }
