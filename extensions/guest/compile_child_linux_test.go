package guest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lowVariable in the environment makes the test program one that lowers its priority.
const lowVariable = "CORENODE_TEST_LOW"

// TestLowPriority: every thread of a compiling process gives way, those that it had before too, and it is the first to go where
// memory is short.
func TestLowPriority(t *testing.T) {
	if os.Getenv(lowVariable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLowPriority$", "-test.v")
		cmd.Env = append(os.Environ(), lowVariable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "threads are idle") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	lock := func() { // threads beside the runtime's
		runtime.LockOSThread()
		time.Sleep(time.Minute)
	}
	go lock()
	go lock()
	time.Sleep(10 * time.Millisecond)
	lowerPriority()
	go lock()
	time.Sleep(10 * time.Millisecond)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil || len(threads) < 4 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, thread := range threads {
		var id int
		if _, err := fmt.Sscan(thread.Name(), &id); err != nil {
			t.Fatal(err)
		}
		if a, err := unix.SchedGetAttr(id, 0); err != nil || a.Policy != unix.SCHED_IDLE {
			t.Errorf("thread %d: %+v, %v", id, a, err)
		}
	}
	if score, err := os.ReadFile("/proc/self/oom_score_adj"); err != nil || strings.TrimSpace(string(score)) != "1000" {
		t.Errorf("where memory is short it counts %s, %v", score, err)
	}
	t.Log("all threads are idle")
}
