//go:build unix

package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestForbidden: nobody else may read a secret, and its group only where the process did not make it that wide itself.
func TestForbidden(t *testing.T) {
	for _, c := range []struct {
		owner, process int
		mode           os.FileMode
		want           bool
	}{
		{1000, 1000, 0o600, true}, {1000, 1000, 0o400, true}, {1000, 1000, 0o640, false}, {1000, 1000, 0o440, false},
		{1000, 1000, 0o644, false},
		{0, 1000, 0o440, true}, {0, 1000, 0o640, true}, {0, 1000, 0o660, false}, {0, 1000, 0o444, false}, {0, 1000, 0o604, false},
		{0, 0, 0o600, true}, {0, 0, 0o440, true}, {0, 0, 0o644, false},
		{2000, 1000, 0o440, true}, {2000, 1000, 0o444, false}, {2000, 0, 0o640, true},
	} {
		if got := c.mode&forbiddenTo(c.owner, c.process) == 0; got != c.want {
			t.Errorf("%04o of %d, read by %d: %v, want %v", c.mode, c.owner, c.process, got, c.want)
		}
	}
}

// TestReadSecret reads files as they are on disk: one of root as its group may read it, where the test can make it.
func TestReadSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(mode os.FileMode) error {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		got, err := ReadSecret(path)
		if err == nil && got != "a b\n" {
			t.Errorf("%04o: %q", mode, got)
		}
		return err
	}
	if err := read(0o600); err != nil {
		t.Error(err)
	}
	for _, mode := range []os.FileMode{0o644, 0o604, 0o666} {
		if read(mode) == nil {
			t.Errorf("%04o was taken", mode)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("a file of root's, or of another user's, cannot be made: the test is not run by root")
	}
	for _, owner := range []int{0, 65534} {
		if err := os.Chown(path, owner, 65534); err != nil {
			t.Skipf("a file cannot be given away: %v", err)
		}
		if err := read(0o440); err != nil {
			t.Errorf("of %d: %v", owner, err)
		}
	}
}

// TestOpenToGroup: what a volume opened to the group is read and private again; what is open to all, or was so made, stays.
func TestOpenToGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if IsOpenToGroup(path) {
		t.Error("a file that is not there is open")
	}
	if err := os.WriteFile(path, []byte("a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	groupMayRead := os.Geteuid() == 0
	for mode, want := range map[os.FileMode]bool{
		0o660: true, 0o640: !groupMayRead, 0o440: !groupMayRead, 0o600: false, 0o400: false, 0o664: false, 0o666: false,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		open := IsOpenToGroup(path)
		if _, err := ReadSecret(path); (err == nil) != (mode&0o007 == 0) {
			t.Errorf("%04o: %v", mode, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		after := mode
		if want {
			after = 0o600
		}
		if open != want || info.Mode() != after {
			t.Errorf("%04o: %v, and it has %04o; want %v", mode, open, info.Mode(), want)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("a file of another user's cannot be made: the test is not run by root")
	}
	if err := errors.Join(os.Chown(path, 65534, 65534), os.Chmod(path, 0o660)); err != nil {
		t.Skipf("a file cannot be given away: %v", err)
	}
	if _, err := ReadSecret(path); err == nil || IsOpenToGroup(path) {
		t.Errorf("another user's file is taken for an own one: %v", err)
	}
}

// TestOpensToGroup has the modes that fsGroup makes, for a process that is not root.
func TestOpensToGroup(t *testing.T) {
	for _, c := range []struct {
		owner, process int
		mode           os.FileMode
		want           bool
	}{
		{1000, 1000, 0o660, true}, {1000, 1000, 0o640, true}, {1000, 1000, 0o440, true}, {1000, 1000, 0o600, false},
		{1000, 1000, 0o664, false}, {0, 0, 0o660, true}, {0, 0, 0o640, false},
		{0, 1000, 0o440, false}, // a mounted Secret, as defaultMode and fsGroup make it
	} {
		if got := opensToGroup(c.mode, forbiddenTo(c.owner, c.process)); got != c.want {
			t.Errorf("%04o of %d, read by %d: %v, want %v", c.mode, c.owner, c.process, got, c.want)
		}
	}
}
