package sqlite

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"corenode/node/store"
)

// renamed are the names that files and folders were given in a folder since it is watched, in this order.
func renamed(t *testing.T, watch int) (names []string) {
	t.Helper()
	events := make([]byte, 1<<16)
	n, err := syscall.Read(watch, events)
	if err != nil {
		t.Fatal(err)
	}
	for events = events[:n]; len(events) > 0; {
		length := binary.NativeEndian.Uint32(events[12:])
		names = append(names, strings.TrimRight(string(events[16:16+length]), "\x00"))
		events = events[16+length:]
	}
	return names
}

// TestBackupHasItsNameLast: a file of that name is a whole backup with its modules, whenever a kill comes.
func TestBackupHasItsNameLast(t *testing.T) {
	s := open(t, t.TempDir())
	modules := filepath.Join(s.dir, ModulesDir)
	err := errors.Join(os.Mkdir(modules, 0o700), os.WriteFile(filepath.Join(modules, digestOf("wasm")+".wasm"), []byte("wasm"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	watch, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(watch)
	if _, err := syscall.InotifyAddWatch(watch, dir, syscall.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backup(filepath.Join(dir, "b.db")); err != nil {
		t.Fatal(err)
	}
	if got := renamed(t, watch); !slices.Equal(got, []string{"b.db.modules", "b.db"}) {
		t.Errorf("named were %q", got)
	}
	wantFiles(t, dir, "b.db", "b.db.modules")
}

// TestBackupAfterAKill: what one that was killed left is not in the way of the next one, or is named with what to do.
func TestBackupAfterAKill(t *testing.T) {
	s, dir := open(t, t.TempDir()), t.TempDir()
	file := filepath.Join(dir, "b.db")
	for _, part := range []string{file + ".part", file + ".part-17"} {
		if err := os.Mkdir(part, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(file+modulesSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backup(file); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "without "+file) {
		t.Errorf("beside modules alone: %v", err)
	}
	if err := os.Remove(file + modulesSuffix); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backup(file); err != nil {
		t.Errorf("beside a part: %v", err)
	}
	wantFiles(t, dir, "b.db", "b.db.part", "b.db.part-17")
}
