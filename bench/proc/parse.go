// Package proc starts the servers that are measured and reads what they cost
// from /proc, whose files exist on Linux only: elsewhere every reading is an
// error that says so.
//
// A Child is one server process. It is started by Start, which returns when the
// server says that it is ready, and ended by Stop, which always waits for its
// end; a child does not outlive the benchmark, even one that is killed.
package proc

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ is 100 on every Linux that Go supports.
const tick = time.Second / 100

// Usage is what one process has used since its start.
type Usage struct {
	CPU     time.Duration // user and system time of all its threads
	Threads int
	RSS     int64 // bytes of memory now
}

// Machine is the CPU time of all processors since the machine's start.
type Machine struct {
	// Busy is time in programs of anyone. Interrupts are in Total only: nobody
	// can tell for whose packets they were.
	Busy  time.Duration
	Total time.Duration
}

// Sub returns the time that passed between two readings.
func (m Machine) Sub(earlier Machine) Machine {
	return Machine{m.Busy - earlier.Busy, m.Total - earlier.Total}
}

// Foreign returns the share of the machine's time that programs other than
// ours used, given the CPU time of ours. Readings of different files are some
// ticks apart, so a quiet machine may read slightly below 0: that is 0.
func (m Machine) Foreign(ours time.Duration) float64 {
	if m.Total <= 0 {
		return 0
	}
	return max(0, float64(m.Busy-ours)/float64(m.Total))
}

// parseUsage reads the line of /proc/PID/stat. The command's name, in
// parentheses, may hold spaces and parentheses itself.
func parseUsage(stat []byte, pageSize int64) (Usage, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return Usage{}, fmt.Errorf("proc: no command name in %.80q", stat)
	}
	fields := strings.Fields(string(stat[end+1:])) // from field 3 on
	const user, system, threads, rss = 14 - 3, 15 - 3, 20 - 3, 24 - 3
	if len(fields) <= rss {
		return Usage{}, fmt.Errorf("proc: %d fields behind the command name, want more than %d", len(fields), rss)
	}
	var n [4]int64
	for i, field := range []int{user, system, threads, rss} {
		var err error
		if n[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return Usage{}, fmt.Errorf("proc: field %d: %w", field+3, err)
		}
	}
	return Usage{CPU: time.Duration(n[0]+n[1]) * tick, Threads: int(n[2]), RSS: n[3] * pageSize}, nil
}

// parseMachine reads the first line of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq, steal, then guest times that user already contains.
func parseMachine(stat []byte) (Machine, error) {
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	if len(fields) < 5 || fields[0] != "cpu" {
		return Machine{}, fmt.Errorf("proc: not the line of all processors: %.80q", line)
	}
	var m Machine
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Machine{}, fmt.Errorf("proc: field %d of the machine: %w", i+1, err)
		}
		const user, nice, system, steal = 0, 1, 2, 7
		switch i {
		case user, nice, system, steal: // steal is another machine on the same processors
			m.Busy += time.Duration(n) * tick
		}
		m.Total += time.Duration(n) * tick
	}
	return m, nil
}

// parseModel finds the processor's name in /proc/cpuinfo.
func parseModel(cpuinfo []byte) string {
	for line := range strings.Lines(string(cpuinfo)) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name", "Model", "cpu model":
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// parseFilesystem finds the type of the file system that holds a path, in the
// lines of /proc/mounts: the longest mount point that is the path or above it.
func parseFilesystem(mounts []byte, path string) string {
	kind, longest := "unknown", -1
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		at := strings.TrimSuffix(fields[1], "/")
		if (path == at || strings.HasPrefix(path, at+"/")) && len(at) >= longest {
			kind, longest = fields[2], len(at)
		}
	}
	return kind
}
