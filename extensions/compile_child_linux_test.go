package extensions

import (
	"errors"
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

// TestCompilesOnABrokenDisk: a disk that is full keeps no code, and what was damaged on one that can only be read does not run.
func TestCompilesOnABrokenDisk(t *testing.T) {
	module := newGuest(SlotChat, "1").bytes(t)
	for _, how := range []struct {
		name, why string
		breaks    func(t *testing.T, disk string) error
	}{
		{"full", "no space left", func(_ *testing.T, disk string) error { return fill(disk) }},
		{"read only", "read-only file system", func(t *testing.T, disk string) error {
			h, _ := openTest(t, Options{CacheDir: disk})
			if _, err := h.Load(t.Context(), module, nil, nil); err != nil {
				return err
			}
			code, err := filepath.Glob(filepath.Join(disk, "*", "wazero-*", "*"))
			if err != nil || len(code) != 1 {
				return fmt.Errorf("%q: %w", code, err)
			}
			return errors.Join(os.Truncate(code[0], 100), mount("-o", "remount,ro", disk))
		}},
	} {
		t.Run(how.name, func(t *testing.T) {
			disk := mountDisk(t)
			h, l := openTest(t, Options{Dir: t.TempDir(), CacheDir: disk})
			if err := how.breaks(t, disk); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Load(t.Context(), module, nil, nil); err != nil {
				t.Error(err)
			}
			wantUnkept(t, l, how.why)
		})
	}
}

// TestOpensOnAReadOnlyDisk: a node starts with compiled modules that it cannot write. It runs those that it alone may write to.
func TestOpensOnAReadOnlyDisk(t *testing.T) {
	kept, unkept := chatGuest(t, "1"), chatGuest(t, "2")
	for _, as := range []struct {
		name string
		mode os.FileMode
		used bool
	}{{"private", 0o700, true}, {"of others too", 0o755, false}} {
		t.Run(as.name, func(t *testing.T) {
			disk := mountDisk(t)
			h, _ := openTest(t, Options{CacheDir: disk})
			if _, err := h.Load(t.Context(), kept, nil, nil); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Chmod(disk, as.mode), mount("-o", "remount,ro", disk)); err != nil {
				t.Fatal(err)
			}
			command, started := compilers(t, "compiles")
			h, l := openTest(t, Options{CacheDir: disk, CompileCommand: command})
			if _, err := h.Load(t.Context(), kept, nil, nil); err != nil {
				t.Error(err)
			}
			said, used := strings.Contains(l.String(), "cannot be kept"), h.options.CacheDir == disk
			if said == as.used || used != as.used || len(started()) > 0 {
				t.Errorf("compiled by %d, in %q:\n%s", started(), h.options.CacheDir, l)
			}
			if _, err := h.Load(t.Context(), unkept, nil, nil); err != nil {
				t.Error(err)
			}
			wantUnkept(t, l, "read-only file system")
		})
	}
}

// mountDisk mounts a small disk until the test ends.
func mountDisk(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", dir); err != nil {
		t.Skipf("no disk without the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func mount(args ...string) error {
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// fill leaves no byte free on a disk.
func fill(disk string) error {
	f, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(make([]byte, os.Getpagesize()))
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
