package guest

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime gives a clock of the processor time that this thread uses from now
// on, whatever else runs on the machine. The caller stays on the thread.
func threadTime() func() time.Duration {
	began, ok := threadClock()
	if !ok {
		return nil
	}
	return func() time.Duration {
		now, _ := threadClock()
		return now - began
	}
}

func threadClock() (time.Duration, bool) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err == nil
}
