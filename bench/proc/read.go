package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Read returns what a process has used; pid 0 is this one.
func Read(pid int) (Usage, error) {
	who := "self"
	if pid != 0 {
		who = fmt.Sprint(pid)
	}
	stat, err := os.ReadFile("/proc/" + who + "/stat")
	if err != nil {
		return Usage{}, needsLinux(err)
	}
	return parseUsage(stat, int64(os.Getpagesize()))
}

// ReadMachine returns the CPU time of the whole machine.
func ReadMachine() (Machine, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Machine{}, needsLinux(err)
	}
	return parseMachine(stat)
}

func needsLinux(err error) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("read CPU times: this needs Linux, whose /proc has them: %w", err)
	}
	return fmt.Errorf("read CPU times: %w", err)
}

// Host describes the machine for a report.
type Host struct {
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	OS         string `json:"os"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	// Filesystem is the type of the one that holds the node's data: what a
	// durable write costs is its doing.
	Filesystem string `json:"filesystem"`
}

// ReadHost describes this machine, and the file system under dir. What cannot
// be read is "unknown": a report without it is still one.
func ReadHost(dir string) Host {
	read := func(path string) []byte { b, _ := os.ReadFile(path); return b }
	h := Host{
		Processor: parseModel(read("/proc/cpuinfo")), Processors: runtime.NumCPU(),
		OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Filesystem: "unknown",
		Kernel: strings.TrimSpace(string(read("/proc/sys/kernel/osrelease"))),
	}
	if h.Kernel == "" {
		h.Kernel = "unknown"
	}
	if at, err := filepath.EvalSymlinks(dir); err == nil {
		h.Filesystem = parseFilesystem(read("/proc/mounts"), at)
	}
	return h
}
