package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// read reads the clock that stands still in a suspend, and then the one that goes on.
func read() (still, on time.Duration) {
	var monotonic, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0, 0
	}
	return time.Duration(monotonic.Nano()), time.Duration(boot.Nano())
}
