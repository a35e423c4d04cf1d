package guest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes has the kernel end the child when this process is killed and
// cannot do so itself. The signal follows the death of the thread that started
// the child; the Go runtime ends no thread but those of locked goroutines. What
// a terminal sends to this process is not for the child, which ends with it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// lowerPriority lets every other thread of the machine go first, and this process end first where memory is short, if it then
// ends alone. Priorities are of threads here, and a new one inherits its maker's: so all there are get it,
// until no new one is found. What the system does not permit stays as it is.
func lowerPriority() {
	if groups, err := os.ReadFile("/proc/self/cgroup"); err == nil && endsAlone("/sys/fs/cgroup", string(groups)) {
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	}
	done := map[int]bool{}
	for before := -1; before < len(done); {
		before = len(done)
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			threads = nil // this one at least
			lowerThread(0)
		}
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil && !done[id] {
				lowerThread(id)
				done[id] = true
			}
		}
	}
}

// endsAlone says whether the kernel, where memory is short, ends a process without all others of its control group: those of
// a pod's containers have memory.oom.group. groups is /proc/self/cgroup, root is where groups of version 2 are mounted.
func endsAlone(root, groups string) bool {
	for line := range strings.Lines(groups) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for ok {
			text, err := os.ReadFile(filepath.Join(root, group, "memory.oom.group"))
			if err == nil && strings.TrimSpace(string(text)) == "1" {
				return false
			}
			ok, group = group != "/" && group != ".", filepath.Dir(group)
		}
	}
	return true
}

// lowerThread is for one thread; 0 is the caller's.
func lowerThread(id int) {
	_ = unix.Setpriority(unix.PRIO_PROCESS, id, 19) // where the next is not permitted
	_ = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: 19}, 0)
}
