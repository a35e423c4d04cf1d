package kernels

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// fifoPriority is low among real-time priorities: above every ordinary program is enough.
const fifoPriority = 10

// realTime puts all threads of this process under SCHED_FIFO; those that they
// start inherit it. The error says that the system does not permit it.
func realTime() error { return schedule(unix.SCHED_FIFO, fifoPriority) }

// normalTime takes that back.
func normalTime() { _ = schedule(unix.SCHED_NORMAL, 0) } // what was permitted once is again

func schedule(policy, priority uint32) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		attr := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: priority}
		if err := unix.SchedSetAttr(id, attr, 0); err != nil && err != unix.ESRCH { // a thread may end meanwhile
			return fmt.Errorf("set scheduling of thread %d: %w", id, err)
		}
	}
	return nil
}
