package sqlite

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/storetest"
)

// watchedSystem has what is done to a WAL noted, and may have its writes fail.
type watchedSystem struct {
	vfs.VFSFilename
	done *[]byte // 'w' is a write, 's' a sync
	fail *error
}

func (w watchedSystem) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, out, err := w.VFSFilename.OpenFilename(name, flags)
	if err == nil && flags&vfs.OPEN_WAL != 0 {
		file = watchedWAL{file, w.done, w.fail}
	}
	return file, out, err
}

type watchedWAL struct {
	vfs.File
	done *[]byte
	fail *error
}

func (w watchedWAL) WriteAt(b []byte, off int64) (int, error) {
	if *w.fail != nil {
		n, _ := w.File.WriteAt(b[:len(b)/2], off)
		return n, *w.fail
	}
	*w.done = append(*w.done, 'w')
	return w.File.WriteAt(b, off)
}

func (w watchedWAL) Sync(flags vfs.SyncFlag) error {
	*w.done = append(*w.done, 's')
	return w.File.Sync(flags)
}

// watchWALs notes what the connections that are opened from here on do to their WALs, but for those of readers: these do nothing.
func watchWALs(t *testing.T) (done *[]byte, fail *error) {
	t.Helper()
	was := system
	t.Cleanup(func() { system = was })
	done, fail = new([]byte), new(error)
	system = watchedSystem{was, done, fail}
	return done, fail
}

// TestCommitIsOneWrite: what a transaction changes reaches the log in one write, before the one sync.
func TestCommitIsOneWrite(t *testing.T) {
	done, _ := watchWALs(t)
	s := open(t, t.TempDir())
	a := storetest.MustCreate(t, s, "a", 1000).ID
	storetest.MustAppend(t, s, storetest.Hold(a, "r0", 10))
	*done = nil
	storetest.MustAppend(t, s, storetest.Hold(a, "r1", 10), storetest.Hold(a, "r2", 10), storetest.Settlement(a, "r2", -7))
	if string(*done) != "ws" {
		t.Errorf("a commit wrote (w) and synced (s) as %q, want %q", *done, "ws")
	}
}

// TestWriteOfTheLogFails: a commit that the disk takes half of is an error of the disk and leaves nothing, here or after a kill. The next
// one is whole.
func TestWriteOfTheLogFails(t *testing.T) {
	_, fail := watchWALs(t)
	dir, image := t.TempDir(), t.TempDir()
	s := open(t, dir)
	a := storetest.MustCreate(t, s, "a", 1000).ID
	*fail = syscall.ENOSPC
	err := s.Append([]account.Entry{storetest.Hold(a, "r1", 10)})
	if !errors.Is(err, sqlite3.IOERR_WRITE) {
		t.Errorf("%v is no error of a write", err)
	}
	*fail = nil
	storetest.WantBalance(t, s, a, 1000, 0)
	storetest.MustAppend(t, s, storetest.Hold(a, "r2", 20))
	for _, name := range []string{DatabaseName, DatabaseName + "-wal"} {
		copyFile(t, filepath.Join(dir, name), filepath.Join(image, name))
	}
	for _, s := range []*Store{s, open(t, image)} {
		storetest.WantBalance(t, s, a, 1000, 20)
		if v, err := s.Verify(); err != nil || len(v.Findings) > 0 {
			t.Errorf("the ledger: %+v, %v", v, err)
		}
	}
}

// TestRolledBackPagesAreNotWritten: what SQLite wrote of a transaction larger than its cache, before that was rolled back, does not reach
// the log when the lock is another's: there it would lie over what that one has committed.
func TestRolledBackPagesAreNotWritten(t *testing.T) {
	for _, size := range []int{14420 << 6, 14500 << 6, 14580 << 6} { // of 16 inputs: the cache has 16 MiB
		dir := t.TempDir()
		s := open(t, dir)
		a := storetest.MustCreate(t, s, "a", 1000).ID
		s.Close()
		s = open(t, dir) // its log is empty, so a rollback reads nothing from there
		var rows []account.Entry
		for i := range 16 {
			e := storetest.Settlement(a, fmt.Sprint("large", i), 0)
			e.ChargeInput = make([]byte, size)
			e.InputHash, e.ModuleDigest = fmt.Sprintf("%x", sha256.Sum256(e.ChargeInput)), "sha256:x"
			rows = append(rows, e)
		}
		if err := s.Append(append(rows, storetest.Hold("acct_nobody", "r", 1))); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("a row of no account: %v", err)
		}
		shell, err := sqlite3.Open(filepath.Join(dir, DatabaseName))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			if err := shell.Exec(fmt.Sprintf(`INSERT INTO settings (name, value) VALUES ('n%d', randomblob(3000))`, i)); err != nil {
				t.Fatal(err)
			}
		}
		shell.Close()
		storetest.MustAppend(t, s, storetest.Hold(a, "r", 20))
		s.Close()
		s = open(t, dir)
		storetest.WantBalance(t, s, a, 1000, 20)
		if v, err := s.Verify(); err != nil || len(v.Findings) > 0 {
			t.Errorf("the ledger: %+v, %v", v, err)
		}
	}
}

// plainFile is a file and nothing more.
type plainFile struct{ temporary }

func (f plainFile) Close() error { return f.File.Close() }

// TestLogIsWhatWasWritten: whatever asks for the file after a write finds that there, in whatever order pieces came.
func TestLogIsWhatWasWritten(t *testing.T) {
	for name, ask := range map[string]func(w *wal) error{
		"read":     func(w *wal) error { _, err := w.ReadAt(make([]byte, 1), 0); return err },
		"sync":     func(w *wal) error { return w.Sync(vfs.SYNC_FULL) },
		"size":     func(w *wal) error { _, err := w.Size(); return err },
		"truncate": func(w *wal) error { return w.Truncate(9) },
	} {
		path := filepath.Join(t.TempDir(), "log")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		w, want := &wal{File: plainFile{temporary{File: file}}}, make([]byte, walPiecesMax+50)
		for _, piece := range []struct {
			at   int
			text string
		}{{0, "header"}, {6, "frame"}, {11, "frame"}, {6, "again"}, {20, "apart"}, {25, string(make([]byte, walPiecesMax))},
			{walPiecesMax + 25, "large"}} {
			if n, err := w.WriteAt([]byte(piece.text), int64(piece.at)); n != len(piece.text) || err != nil {
				t.Fatal(n, err)
			}
			copy(want[piece.at:], piece.text)
		}
		want = want[:walPiecesMax+30]
		if name == "truncate" {
			want = want[:9]
		}
		if err := ask(w); err != nil {
			t.Error(name, err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("after %s it has %d bytes, want %d, or others; %v", name, len(got), len(want), err)
		}
	}
}
