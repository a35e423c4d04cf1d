// Package proc starts the servers that are measured and reads what they cost
// from /proc, whose files exist on Linux only: elsewhere every reading is an
// error that says so.
//
// A Child is one server process. It is started by Start, which returns when the
// server says that it is ready, and ended by Stop, which always waits for its
// end; a child does not outlive the benchmark, even one that is killed.
package proc

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what one process has used since its start.
type Usage struct {
	CPU time.Duration // user and system time of all its threads, in ticks of 10 ms
	RSS int64         // bytes of memory now
}

// Read returns what a process has used.
func Read(pid int) (Usage, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, needsLinux(err)
	}
	stat, err := p.Stat()
	if err != nil {
		return Usage{}, needsLinux(err)
	}
	return Usage{CPU: seconds(stat.CPUTime()), RSS: int64(stat.ResidentMemory())}, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func needsLinux(err error) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("read CPU times: this needs Linux, whose /proc has them: %w", err)
	}
	return fmt.Errorf("read CPU times: %w", err)
}

// Clocks are all clocks at one moment.
type Clocks struct {
	// Ours is the CPU time of this process and of all children that were read.
	Ours time.Duration
	// Busy is the CPU time of all programs on all processors. Interrupts are in
	// Total only: nobody can tell for whose packets they were.
	Busy, Total time.Duration
	// Of is what each child has used.
	Of map[*Child]Usage
}

// ReadClocks reads them. A child that is nil does not run and has used nothing.
func ReadClocks(children ...*Child) (Clocks, error) {
	own, err := Read(os.Getpid())
	if err != nil {
		return Clocks{}, err
	}
	c := Clocks{Ours: own.CPU, Of: map[*Child]Usage{}}
	for _, child := range children {
		if child == nil {
			continue
		}
		u, err := Read(child.PID())
		if err != nil {
			return Clocks{}, err
		}
		c.Of[child] = u
		c.Ours += u.CPU
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return Clocks{}, needsLinux(err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return Clocks{}, needsLinux(err)
	}
	all := stat.CPUTotal
	busy := all.User + all.Nice + all.System + all.Steal // steal is another machine on the same processors
	c.Busy, c.Total = seconds(busy), seconds(busy+all.Idle+all.Iowait+all.IRQ+all.SoftIRQ)
	return c, nil
}

// Since returns the time that passed since an earlier reading. Children are not in it.
func (c Clocks) Since(earlier Clocks) Clocks {
	return Clocks{Ours: c.Ours - earlier.Ours, Busy: c.Busy - earlier.Busy, Total: c.Total - earlier.Total}
}

// Foreign returns the share of the machine's time that programs other than ours
// used since an earlier reading. Readings of different files are some ticks
// apart, so a quiet machine may read slightly below 0: that is 0.
func (c Clocks) Foreign(earlier Clocks) float64 {
	passed := c.Since(earlier)
	if passed.Total <= 0 {
		return 0
	}
	return max(0, float64(passed.Busy-passed.Ours)/float64(passed.Total))
}

// watch is the clocks before and after a reference, after what stands beside it, and after the reference again.
type watch [4]Clocks

// foreign is what others used during both references together, or during what stands between them, whichever is more:
// a short reference beside a long measurement is half of a ratio all the same.
func (w watch) foreign() float64 {
	before, after := w[1].Since(w[0]), w[3].Since(w[2])
	references := Clocks{Ours: before.Ours + after.Ours, Busy: before.Busy + after.Busy, Total: before.Total + after.Total}
	return max(references.Foreign(Clocks{}), w[2].Foreign(w[1]))
}

// Between runs a measurement between two runs of its reference. It returns the share of the machine that programs other
// than this one and its children used: during the references or during the measurement, whichever is more.
func Between(reference, measurement func() error, children ...*Child) (foreign float64, err error) {
	var w watch
	if w[0], err = ReadClocks(children...); err != nil {
		return 0, err
	}
	for i, do := range []func() error{reference, measurement, reference} {
		if err := do(); err != nil {
			return 0, err
		}
		if w[i+1], err = ReadClocks(children...); err != nil {
			return 0, err
		}
	}
	return w.foreign(), nil
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

// String is the machine in one line, without its file system.
func (h Host) String() string {
	return fmt.Sprintf("%s, %d processors, %s, kernel %s, %s", h.Processor, h.Processors, h.OS, h.Kernel, h.Go)
}

// ReadHost describes this machine, and the file system under dir. What cannot
// be read is "unknown": a report without it is still one.
func ReadHost(dir string) Host {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	h := Host{Processor: "unknown", Processors: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Kernel: cmp.Or(strings.TrimSpace(string(kernel)), "unknown"), Go: runtime.Version(), Filesystem: "unknown"}
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(cpuinfo)) {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"model name", "Model", "cpu model"}, strings.TrimSpace(name)) {
			h.Processor = strings.TrimSpace(value)
			break
		}
	}
	mounts, _ := procfs.GetMounts()
	if at, err := filepath.EvalSymlinks(dir); err == nil {
		h.Filesystem = filesystem(mounts, at)
	}
	return h
}

// filesystem is the type of the file system that holds a path: that of the
// longest mount point that is the path or above it.
func filesystem(mounts []*procfs.MountInfo, path string) string {
	kind, longest := "unknown", -1
	for _, m := range mounts {
		at := strings.TrimSuffix(m.MountPoint, "/")
		if (path == at || strings.HasPrefix(path, at+"/")) && len(at) >= longest {
			kind, longest = m.FSType, len(at)
		}
	}
	return kind
}
