package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || !endsAlone("/sys/fs/cgroup", string(groups)) {
		t.Log("all threads are idle, and the process does not end alone")
		return
	}
	if score, err := os.ReadFile("/proc/self/oom_score_adj"); err != nil || strings.TrimSpace(string(score)) != "1000" {
		t.Errorf("where memory is short it counts %s, %v", score, err)
	}
	t.Log("all threads are idle")
}

// TestEndsAlone: a process does not volunteer where the kernel would end its whole control group with it.
func TestEndsAlone(t *testing.T) {
	root := t.TempDir()
	for group, value := range map[string]string{"pod": "0\n", "pod/all": "1\n", "pod/all/inner": "0\n", "unit": "0\n"} {
		if err := os.MkdirAll(filepath.Join(root, group), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, group, "memory.oom.group"), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for groups, want := range map[string]bool{
		"0::/\n": true, "0::/unit\n": true, "0::/pod/all\n": false, "0::/pod/all/inner\n": false, "0::/gone\n": true,
		"4:memory:/pod/all\n0::/unit\n": true, "4:memory:/pod/all\n": true, "": true, "0::/pod\n": true,
	} {
		if got := endsAlone(root, groups); got != want {
			t.Errorf("%q: %v", groups, got)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "memory.oom.group"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if endsAlone(root, "0::/\n") { // a container sees its own group there
		t.Error("the group of a container")
	}
}
