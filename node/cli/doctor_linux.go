package cli

import (
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

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

// ofOwnGroup says whether a file is of a group of this process.
func ofOwnGroup(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	others, _ := os.Getgroups() // without them the first one counts
	return ok && slices.Contains(append(others, os.Getegid()), int(s.Gid))
}

// userOf is whose a file is.
func userOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return os.Geteuid()
}

// clock asks the kernel whether something keeps its time true. Where this process may not, as under ProtectClock= of
// systemd, that of systemd-timesyncd says so.
func clock() (*doctor.Clock, error) {
	var t unix.Timex
	_, err := unix.Adjtimex(&t)
	if err == nil {
		return &doctor.Clock{Synchronized: t.Status&unix.STA_UNSYNC == 0}, nil
	}
	if touched("/run/systemd/timesync/synchronized", time.Now()) {
		return &doctor.Clock{Synchronized: true}, nil
	}
	return nil, err
}

// keptTrue is about how long the kernel calls a clock synchronized that nobody corrects.
const keptTrue = 8 * time.Hour

// touched says whether a file that is touched at each synchronization was, not long ago.
func touched(path string, now time.Time) bool {
	info, err := os.Stat(path)
	return err == nil && now.Sub(info.ModTime()) < keptTrue
}
