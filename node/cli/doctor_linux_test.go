package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"corenode/node/admin"
)

// TestTouched: who may not ask the kernel goes by a file that says of one synchronization only that it was.
func TestTouched(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "synchronized"), time.Now()
	if touched(path, now) {
		t.Error("a file that is not there was touched")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]bool{time.Minute: true, keptTrue + time.Minute: false} {
		if err := os.Chtimes(path, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		if got := touched(path, now); got != want {
			t.Errorf("touched %v ago: %v", age, got)
		}
	}
}

// TestOpenToGroup: a file that the group of the process may read, as fsGroup of Kubernetes makes it, is not one that others may.
func TestOpenToGroup(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, admin.TokenName)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(name string, mode os.FileMode, group int, open, toGroup []string) {
		t.Helper()
		for _, file := range []string{path, dir} {
			if err := os.Chown(file, -1, group); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, mode|0o100); err != nil {
				t.Fatal(err)
			}
		}
		if gotOpen, gotGroup := openToOthers(dir); !slices.Equal(gotOpen, open) || !slices.Equal(gotGroup, toGroup) {
			t.Errorf("%s: open %v, to the group %v", name, gotOpen, gotGroup)
		}
	}
	both := []string{dir, path}
	check("private", 0o600, os.Getegid(), nil, nil)
	check("as of fsGroup", 0o660, os.Getegid(), nil, both)
	check("to all", 0o664, os.Getegid(), both, nil)
	if os.Geteuid() != 0 {
		t.Skip("another group's file cannot be made: the test is not run by root")
	}
	check("to another group", 0o660, 65534, both, nil)
}
