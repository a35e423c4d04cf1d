package sqlite

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"corenode/node/store"
	"corenode/node/store/storetest"
)

// smallDisk mounts a file system of its own, and gives what fills it.
func smallDisk(t *testing.T) (dir string, fill func()) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=0700,size=4m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no small disk without the right to mount one: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir, func() {
		t.Helper()
		f, err := os.Create(filepath.Join(dir, "filler"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, os.Getpagesize()))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// TestFullDiskIsNamed: an error of a disk says how much of it is free, since to SQLite one that is full is one that fails.
func TestFullDiskIsNamed(t *testing.T) {
	disk, fill := smallDisk(t)
	s, whole := open(t, filepath.Join(disk, "data")), open(t, t.TempDir())
	a := storetest.MustCreate(t, s, "a", 1000)
	fill()
	defer func() { freeBytes = store.FreeBytes }()
	known := false
	freeBytes = func(file *os.File) (int64, bool) {
		if strings.HasPrefix(file.Name(), filepath.Join(disk, "b.db.part-")) && !known { // as if others filled it while it is written
			known = true
			return 0, false
		}
		return store.FreeBytes(file)
	}
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"a top-up", func() error { _, err := s.TopUp(a.ID, 5, "", ""); return err }},
		{"a start", func() error { _, err := Open(filepath.Join(disk, "new")); return err }},
		{"a backup", func() error { _, err := whole.Backup(filepath.Join(disk, "b.db")); return err }},
	} {
		if err := c.do(); err == nil || strings.Count(err.Error(), "bytes free") != 1 || !strings.Contains(err.Error(), "its disk has 0 bytes free") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
