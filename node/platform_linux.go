package main

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// keepPrivate makes every file that the process creates the owner's alone.
func keepPrivate() { unix.Umask(0o077) }

// physicalMemory is the memory this process may use, in bytes: the machine's,
// or its control group's limit where that is lower.
func physicalMemory() int64 {
	total := int64(4 << 30)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		total = int64(info.Totalram) * int64(info.Unit)
	}
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 && limit < total {
			total = limit
		}
	}
	return total
}
