package cli

import (
	"golang.org/x/sys/unix"

	"corenode/node/doctor"
)

// filesLimit is how many files a process may have open; Go raises the soft limit to the hard one.
func filesLimit() int64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int64(min(limit.Max, 1<<40))
}

// clock asks the kernel whether something keeps its time true.
func clock() *doctor.Clock {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return nil
	}
	return &doctor.Clock{Synchronized: t.Status&unix.STA_UNSYNC == 0}
}
