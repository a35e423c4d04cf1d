package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/storetest"
)

// TestBackupLeavesRoom: a copy that would take the last of the disk, which is the ledger's too, is refused before it takes any.
func TestBackupLeavesRoom(t *testing.T) {
	s := open(t, t.TempDir())
	storetest.Use(t, s)
	whole := filepath.Join(t.TempDir(), "whole.db")
	if _, err := s.Backup(whole); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(whole)
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(s.dir, ModulesDir)
	for name, size := range map[string]int{"state.json": 2, digestOf("") + ".wasm": 0, digestOf("") + ".config.json": 30,
		".state.json-17": 7, "cache/cc": 7} {
		if err = errors.Join(err, os.MkdirAll(filepath.Join(modules, "cache"), 0o700),
			os.WriteFile(filepath.Join(modules, name), make([]byte, size), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	copied := info.Size() + 32
	defer func() { freeBytes = store.FreeBytes }()
	for _, c := range []struct {
		free         int64
		known, taken bool
	}{{copied + spareBytes, true, true}, {copied + spareBytes - 1, true, false}, {0, true, false}, {0, false, true}} {
		freeBytes = func(*os.File) (int64, bool) { return c.free, c.known }
		dir := t.TempDir()
		_, err := s.Backup(filepath.Join(dir, "b.db"))
		if c.taken {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		said := fmt.Sprintf("up to %d bytes, and %d have to stay free for the ledger: there are %d", copied, spareBytes, c.free)
		if !errors.Is(err, store.ErrNoRoom) || !strings.Contains(err.Error(), said) {
			t.Errorf("%+v: %v, want %q", c, err, said)
		}
		wantFiles(t, dir)
	}
}

func TestBackupAndRestore(t *testing.T) {
	s := open(t, t.TempDir())
	a := storetest.Use(t, s)
	one, err := s.Secret("node")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "copy.db")
	if _, err := s.Backup(file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup's mode is %v, %v", info.Mode(), err)
	}
	if _, err := s.Backup(file); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("over an existing file: %v", err)
	}
	if _, err := s.Backup(filepath.Join(file, "b.db")); err == nil || errors.Is(err, store.ErrInvalid) {
		t.Errorf("where nobody can look: %v, want the system's reason", err)
	}
	// What comes after the backup is not in it.
	if _, err := s.TopUp(a.ID, 5, "", ""); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	v, err := Restore(file, dir)
	if err != nil || v.Rows != 10 || v.Before {
		t.Fatalf("restored %+v, %v", v, err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	was, _, _ := s.Balance(a.ID)
	if is, held, err := again.Balance(a.ID); err != nil || is != was-5 || held != 700 {
		t.Errorf("balance %d, held %d, %v; the original has %d", is, held, err, was)
	}
	if two, err := again.Secret("node"); err != nil || string(one) != string(two) {
		t.Errorf("the secret is not in the backup: %v", err)
	}

	broken := filepath.Join(t.TempDir(), "broken.db")
	if err := os.WriteFile(broken, []byte("not a database at all, but long enough to be read as one header"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "none")
	if _, err := Restore(broken, dir); err == nil {
		t.Error("a file that is no backup was restored")
	}
	if _, err := os.Stat(filepath.Join(dir, DatabaseName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed restore leaves a database: %v", err)
	}
}

// TestProofEndsWithItsCaller: nobody waits for what it would find.
func TestProofEndsWithItsCaller(t *testing.T) {
	s := open(t, t.TempDir())
	storetest.Use(t, s)
	caller, leave := context.WithCancel(t.Context())
	if v, err := s.VerifyWithin(caller); err != nil || v.Rows != 10 {
		t.Errorf("%+v, %v", v, err)
	}
	leave()
	if v, err := s.VerifyWithin(caller); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestRestoreIsRepeated: a restore whose modules could not be copied leaves no database and goes through when it is
// repeated, and so does one that went through, as long as nothing has used the database.
func TestRestoreIsRepeated(t *testing.T) {
	_, file := backedUp(t)
	dir, beside := t.TempDir(), file+modulesSuffix
	if err := os.MkdirAll(beside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(beside, digestOf("wasm")+".wasm"), []byte("wasm"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ModulesDir), nil, 0o600); err != nil { // where the folder goes
		t.Fatal(err)
	}
	if _, err := Restore(file, dir); err == nil {
		t.Error("restored, though the modules have no place")
	}
	wantFiles(t, dir, ModulesDir)
	if err := os.Remove(filepath.Join(dir, ModulesDir)); err != nil {
		t.Fatal(err)
	}
	if r, err := Restore(file, dir); err != nil || r.Before {
		t.Errorf("after one that failed: %+v, %v", r, err)
	}
	module := filepath.Join(dir, ModulesDir, digestOf("wasm")+".wasm")
	if err := errors.Join(os.Remove(module), os.WriteFile(module+".part", []byte("wa"), 0o600)); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	if r, err := Restore(file, dir); err != nil || !r.Before || r.Rows != 10 {
		t.Errorf("after one that went through: %+v, %v", r, err)
	}
	if text, err := os.ReadFile(module); err != nil || string(text) != "wasm" {
		t.Errorf("the module is %q, %v", text, err)
	}
	wantFiles(t, dir, DatabaseName, ModulesDir)
	used := open(t, dir)
	if _, err := used.CreateAccount(account.Account{Name: "new"}, 5); err != nil {
		t.Fatal(err)
	}
	if err := used.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(file, dir); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "move corenode.db* away first") {
		t.Errorf("over a database that was used: %v", err)
	}
	wantFiles(t, dir, DatabaseName, ModulesDir)
}

// TestLastBackupIsOnlyRead: who asks a folder for its last backup finds it, and changes nothing there: neither an
// older schema, nor which files there are.
func TestLastBackupIsOnlyRead(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if at, err := LastBackup(dir, "/backup"); err != nil || !at.IsZero() {
		t.Errorf("before a backup: %v, %v", at, err)
	}
	s = open(t, dir)
	ahead := s.Audit(store.AuditRow{Path: "/backup", Status: 201})
	last := time.Unix(1_700_000_000, 0).UTC()
	s.SetClock(func() time.Time { return last }) // it was ahead
	err := errors.Join(ahead, s.Audit(store.AuditRow{Path: "/backup", Status: 201}), s.Audit(store.AuditRow{Path: "/backup", Status: 500}),
		s.Audit(store.AuditRow{Path: "/other", Status: 201}), s.write.db.Exec(`PRAGMA user_version = 1`), s.Close())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, DatabaseName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := LastBackup(dir, "/backup"); err != nil || !at.Equal(last) {
		t.Errorf("after a backup: %v, %v, want %v", at, err, last)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the database is changed, or gone: %v", err)
	}
	wantFiles(t, dir, DatabaseName)
}

// backedUp gives a store with rows and a backup of it, larger than what a pipe holds.
func backedUp(t *testing.T) (s *Store, file string) {
	t.Helper()
	s = open(t, t.TempDir())
	storetest.Use(t, s)
	s.write.mu.Lock()
	err := s.write.exec(`INSERT INTO settings (name, value) VALUES ('large', zeroblob(200000))`)
	s.write.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "copy.db")
	if _, err := s.Backup(file); err != nil {
		t.Fatal(err)
	}
	return s, file
}

// wantFiles says what a folder has, beside the file of its lock.
func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.Name() != store.LockName {
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the folder has %q, want %q", got, want)
	}
}

// TestRestoreBesideWhatIsLeft: a file of an earlier database, whichever, would
// be taken for a part of the backup; it may be all that is left, and stays.
func TestRestoreBesideWhatIsLeft(t *testing.T) {
	_, file := backedUp(t)
	for _, name := range []string{"corenode.db", "corenode.db-wal", "corenode.db-shm", "corenode.db-journal"} {
		dir := t.TempDir()
		left := filepath.Join(dir, name)
		if err := os.WriteFile(left, []byte("rows"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(file, dir); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "move corenode.db* away first") {
			t.Errorf("beside %s: %v", name, err)
		}
		wantFiles(t, dir, name)
		if text, err := os.ReadFile(left); err != nil || string(text) != "rows" {
			t.Errorf("%s is %q now, %v", name, text, err)
		}
	}
	dir := t.TempDir()
	if _, err := Restore(file, dir); err != nil {
		t.Error(err)
	}
	wantFiles(t, dir, DatabaseName)
	busy, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if _, err := Restore(file, busy.dir); !errors.Is(err, store.ErrLocked) {
		t.Errorf("into the folder of a node that runs: %v", err)
	}
}

// TestRestoreCutShort holds a restore in the middle of its copy: there is no
// database that a start would take, and none is left when the rest is missing.
func TestRestoreCutShort(t *testing.T) {
	_, file := backedUp(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pipe, dir := filepath.Join(t.TempDir(), "pipe"), t.TempDir()
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Restore(pipe, dir)
		done <- err
	}()
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(whole[:len(whole)-8192]); err != nil { // the copy has begun when it is written
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, DatabaseName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a copy has the name of the database: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("half a backup was restored")
	}
	wantFiles(t, dir)
}

// TestRestoreOfNoBackup: what has no ledger in it is not sound because nothing
// contradicts itself, and what a running node writes has its newest rows elsewhere.
func TestRestoreOfNoBackup(t *testing.T) {
	s, file := backedUp(t)
	live := filepath.Join(s.dir, DatabaseName)
	if info, err := os.Stat(live + "-wal"); err != nil || info.Size() == 0 {
		t.Fatalf("the store has nothing in its WAL: %v", err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	blank := slices.Clone(whole)
	clear(blank[60:64]) // user_version
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	db, err := sqlite3.Open(foreign)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Exec(`CREATE TABLE songs (title TEXT)`), db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, says string }{
		{"nothing", write(nil), "not a database"},
		{"less than a header", write(whole[:99]), "not a database"},
		{"zeros", write(make([]byte, 9000)), "not a database"},
		{"a schema of version 0", write(blank), "not of corenode backup"},
		{"another program's", foreign, "not of corenode backup"},
		{"a copied live database", live, "corenode backup FILE --data-dir"},
	} {
		dir := t.TempDir()
		if v, err := Restore(c.path, dir); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: restored %d rows, %v; want %q", c.name, v.Rows, err, c.says)
		}
		wantFiles(t, dir)
	}
	if _, err := Restore(file, t.TempDir()); err != nil {
		t.Error(err)
	}
}
