package extensions

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// parentVariable in the environment makes the test program one that loads a module.
const parentVariable = "CORENODE_TEST_PARENT"

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
	deadline := time.Now().Add(time.Minute)
	for len(started()) == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	_ = parent.Process.Kill() // the next line says whether it was there
	_ = parent.Wait()
	if len(started()) != 1 {
		t.Fatal("nothing was compiled")
	}
	deadline = time.Now().Add(time.Minute)
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
