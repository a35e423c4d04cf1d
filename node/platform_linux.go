package main

import (
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fileSignals are of writes, which return the error too: to a pipe without a
// reader, and over the limit of a file's size (ulimit -f).
var fileSignals = []os.Signal{unix.SIGPIPE, unix.SIGXFSZ}

// keepPrivate makes every file that the process creates the owner's alone.
func keepPrivate() { unix.Umask(0o077) }

// physicalMemory is the memory this process may use, in bytes: the machine's,
// or the limit of a control group around it where that is lower.
func physicalMemory() int64 {
	total := int64(4 << 30)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		total = int64(info.Totalram) * int64(info.Unit)
	}
	return min(total, controlGroupLimit(os.DirFS("/")))
}

// The root of all control groups that the process sees, in versions 2 and 1, and
// the file of each group with its limit.
const (
	groupsV2, limitV2 = "sys/fs/cgroup", "memory.max"
	groupsV1, limitV1 = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
)

// controlGroupLimit is the least memory limit of this process's control group
// and those around it, in bytes; the largest number without one. system has
// proc and sys. In a container the path may be the host's, and leads nowhere:
// the container's own limit is at the root then.
func controlGroupLimit(system fs.FS) int64 {
	limit := min(readLimit(system, groupsV2, limitV2), readLimit(system, groupsV1, limitV1))
	text, err := fs.ReadFile(system, "proc/self/cgroup")
	if err != nil {
		return limit
	}
	for line := range strings.Lines(string(text)) { // number:controllers:path, in version 2 0::path
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, found := strings.Cut(rest, ":")
		root, file := groupsV1, limitV1
		if controllers == "" {
			root, file = groupsV2, limitV2
		} else if !slices.Contains(strings.Split(controllers, ","), "memory") {
			continue
		}
		for at := path.Clean("/" + group); found && at != "/"; at = path.Dir(at) {
			limit = min(limit, readLimit(system, root, at, file))
		}
	}
	return limit
}

// readLimit reads one limit; "max", and a file that is not there, is none.
func readLimit(system fs.FS, name ...string) int64 {
	text, err := fs.ReadFile(system, path.Join(name...))
	if err != nil {
		return math.MaxInt64
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit <= 0 {
		return math.MaxInt64
	}
	return limit
}

// isTerminal says whether a person's terminal is behind a file.
func isTerminal(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var failed error
	err = raw.Control(func(fd uintptr) { _, failed = unix.IoctlGetTermios(int(fd), unix.TCGETS) })
	return err == nil && failed == nil
}

// processTime is the processor time that this process has used.
func processTime() time.Duration {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// machineTime is the processor time of the machine that somebody used, and that its host
// took. Zero where it is not known. system has proc.
func machineTime(system fs.FS) (busy, stolen time.Duration) {
	text, err := fs.ReadFile(system, "proc/stat")
	if err != nil {
		return 0, 0
	}
	return parseMachineTime(string(text))
}

// parseMachineTime reads the first line of /proc/stat: in hundredths of seconds user, nice,
// system, idle, iowait, irq, softirq, steal.
func parseMachineTime(text string) (busy, stolen time.Duration) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0
	}
	var of [8]time.Duration
	for i := range of {
		ticks, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil {
			return 0, 0
		}
		of[i] = time.Duration(ticks) * 10 * time.Millisecond
	}
	return of[0] + of[1] + of[2] + of[5] + of[6], of[7]
}

// monotonic is the system's clock that never goes back, as systemd counts it.
func monotonic() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
