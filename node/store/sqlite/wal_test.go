package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/storetest"
)

// TestWALGivesItsRoomBack: what it grew to while nothing could be taken out of it does not stay.
func TestWALGivesItsRoomBack(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Exec(`INSERT INTO settings (name, value) VALUES ('large', zeroblob(36 << 20))`); err != nil {
		t.Fatal(err)
	}
	wal := filepath.Join(s.dir, DatabaseName+"-wal")
	if info, err := os.Stat(wal); err != nil || info.Size() < 36<<20 {
		t.Fatalf("the WAL has not grown: %v", err)
	}
	if _, err := s.Secret("small"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(wal); err != nil || info.Size() > 32<<20 {
		t.Errorf("the WAL has %d bytes, %v", info.Size(), err)
	}
}

// TestMemoryThatDoesNotDo: where the writer's memory does not do, as for the index of a WAL that grew for long, what is written gives an
// error, as on a full disk. What was written before is there after a kill.
func TestMemoryThatDoesNotDo(t *testing.T) {
	defer func(was int64) { writerMemory = was }(writerMemory)
	writerMemory = 640 << 10
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("it does for a folder to be opened")
	}
	writerMemory = 8 << 20
	s := open(t, t.TempDir())
	a := storetest.MustCreate(t, s, "a", 0)
	input := make([]byte, 1<<20)
	hash := sha256.Sum256(input)
	written, err := 0, error(nil)
	held := s.asked.view(func() error {
		if _, err := s.asked.number(`SELECT count(*) FROM accounts`); err != nil {
			return err
		}
		for ; err == nil && written < 1000; written++ {
			e := storetest.Settlement(a.ID, fmt.Sprint(written), -1)
			e.ChargeInput, e.InputHash = input, hex.EncodeToString(hash[:])
			err = s.Append([]account.Entry{e})
		}
		return nil
	})
	if held != nil || written < 2 || err == nil || store.Rejects(err) {
		t.Fatalf("%d rows were written, and the last one gives %v; the read gives %v", written, err, held)
	}
	if err := s.Append([]account.Entry{storetest.Settlement(a.ID, "small", -1)}); err != nil {
		t.Errorf("a smaller row behind it: %v", err)
	}
	killed := t.TempDir()
	for _, name := range []string{DatabaseName, DatabaseName + "-wal"} {
		copyFile(t, filepath.Join(s.dir, name), filepath.Join(killed, name))
	}
	writerMemory = 1 << 30
	again := open(t, killed)
	if v, err := again.Verify(); err != nil || len(v.Findings) != 0 || int(v.Rows) != written {
		t.Errorf("after a kill: %+v, %v, want %d rows", v, err, written)
	}
	storetest.MustAppend(t, again, storetest.Settlement(a.ID, "after", -1))
}

// TestWALThatReadersCannotRead: a folder is opened after a kill, and answers, also where the index of its WAL takes more memory than
// those have who read.
func TestWALThatReadersCannotRead(t *testing.T) {
	defer func(was int64) { readerMemory = was }(readerMemory)
	dir, killed := t.TempDir(), t.TempDir()
	small, err := sqlite3.Open(filepath.Join(dir, DatabaseName)) // small pages, so that each takes as much of the index as a large one
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(small.Exec(`PRAGMA page_size = 512; VACUUM`), small.Close()); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	a := storetest.MustCreate(t, s, "a", 0)
	held := s.asked.view(func() error {
		if _, err := s.asked.number(`SELECT count(*) FROM accounts`); err != nil {
			return err
		}
		if err := s.Exec(`INSERT INTO settings (name, value) VALUES ('large', zeroblob(36 << 20))`); err != nil {
			return err
		}
		for _, name := range []string{DatabaseName, DatabaseName + "-wal"} {
			copyFile(t, filepath.Join(dir, name), filepath.Join(killed, name))
		}
		return nil
	})
	if held != nil {
		t.Fatal(held)
	}
	readerMemory = 1 << 20
	again := open(t, killed)
	if found, err := again.Account("a"); err != nil || found.ID != a.ID {
		t.Errorf("the account is %q, %v", found.ID, err)
	}
	if _, err := again.Holders("", 10); err != nil {
		t.Error(err)
	}
}

// TestPanicsGoOn: of what may have left SQLite in the middle of a change no error is made, which would say that nothing was changed. Where
// a connection is opened, nothing is.
func TestPanicsGoOn(t *testing.T) {
	guarded := func(do func() error) (err error) {
		defer outOfMemory(&err)
		return do()
	}
	of := func(guard func(func() error) error, value any) (panicked any, err error) {
		defer func() { panicked = recover() }()
		return nil, guard(func() error { panic(value) })
	}
	noMemory := func() (p any) {
		defer func() { p = recover() }()
		sqlite3.WithMaxMemory(t.Context(), -1)
		return nil
	}()
	for _, c := range []struct {
		value          any
		error, opening bool
	}{
		{noMemory, true, true},
		{syscall.ENOMEM, false, true},
		{errors.New("another"), false, false},
		{"a text", false, false},
		{new(runtime.PanicNilError), false, false},
	} {
		for _, g := range []struct {
			name  string
			guard func(func() error) error
			error bool
		}{{"a statement", guarded, c.error}, {"an opening", opening, c.opening}} {
			panicked, err := of(g.guard, c.value)
			if g.error && (panicked != nil || err == nil) || !g.error && (panicked != c.value || err != nil) {
				t.Errorf("%s, %T %[2]v: the error %v, the panic %v", g.name, c.value, err, panicked)
			}
		}
	}
}

// TestLongReadEnds: a proof or a backup that has the WAL grow beyond its bound, or fill the disk, ends and says so.
func TestLongReadEnds(t *testing.T) {
	defer func(was int64) { walMax, freeBytes = was, store.FreeBytes }(walMax)
	for _, c := range []struct {
		wal, free int64
		known     bool
		says      string
	}{
		{walMax, spareBytes, true, ""},
		{walMax, 0, false, ""},
		{walKept, 0, true, ""}, // its end would free nothing
		{walMax + 1, spareBytes, true, "grew to 68719476737 bytes, 68719476736 at most"},
		{walKept + 1, spareBytes - 1, true, "268435456 have to stay free for the ledger: there are 268435455"},
	} {
		err := endsLongRead(c.wal, c.free, c.known)
		if (c.says == "") != (err == nil) || err != nil && (!errors.Is(err, store.ErrNoRoom) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v", c, err)
		}
	}

	walMax = 8 << 20
	s := open(t, t.TempDir())
	ctx, done, err := s.watchWAL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if err := s.Exec(`INSERT INTO settings (name, value) VALUES ('large', zeroblob(12 << 20))`); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, store.ErrNoRoom) {
		t.Errorf("what watches says %v", err)
	}
	if _, err := s.Verify(); !errors.Is(err, store.ErrNoRoom) {
		t.Errorf("a proof: %v", err)
	}
	dir := t.TempDir()
	if _, err := s.Backup(filepath.Join(dir, "b.db")); !errors.Is(err, store.ErrNoRoom) {
		t.Errorf("a backup: %v", err)
	}
	wantFiles(t, dir)
}
