package extensions

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lowVariable in the environment makes the test program one that lowers its
// priority; parentVariable one that loads a module.
const lowVariable, parentVariable = "CORENODE_TEST_LOW", "CORENODE_TEST_PARENT"

// TestLowPriority: every thread of a compiling process gives way, those that it had before too.
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
	t.Log("all threads are idle")
}

// TestCompilerDies: a compiling process ends with the node that started it, however that ends.
func TestCompilerDies(t *testing.T) {
	if cache := os.Getenv(parentVariable); cache != "" {
		command := []string{os.Args[0], "compile"}
		if err := os.Setenv(compilerVariable, "hangs"); err != nil { // of its own child
			t.Fatal(err)
		}
		h, _ := openTest(t, Options{CacheDir: cache, CompileCommand: command})
		_, _ = h.Load(t.Context(), newGuest(SlotChat, "1").bytes(t), nil, nil)
		return
	}
	_, started := compilers(t, "")
	parent := exec.Command(os.Args[0], "-test.run=^TestCompilerDies$")
	parent.Env = append(os.Environ(), parentVariable+"="+filepath.Join(t.TempDir(), "cache"))
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for len(started()) == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	_ = parent.Process.Kill() // the next line says whether it was there
	_ = parent.Wait()
	if len(started()) != 1 {
		t.Fatal("nothing was compiled")
	}
	for syscall.Kill(started()[0], 0) == nil && !isZombie(started()[0]) {
		if time.Now().After(deadline) {
			t.Fatal("the compiling process outlives its node")
		}
		time.Sleep(time.Millisecond)
	}
}

// isZombie: a container's first process may not wait for orphans.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
