package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/node/store"
	"corenode/node/store/storetest"
)

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestOneNodeOwnsTheFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := open(t, dir)
	_, err := Open(dir)
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "process") {
		t.Fatalf("second Open: %v, want store.ErrLocked that names the process", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	for path, want := range map[string]os.FileMode{
		".": 0o700, DatabaseName: 0o600, DatabaseName + "-wal": 0o600, DatabaseName + "-shm": 0o600, store.LockName: 0o600} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Error(err)
		} else if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %s is %o, want %o", path, got, want)
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.write.db.Exec(`PRAGMA user_version = 999`); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := Open(dir); !errors.Is(err, store.ErrNewerSchema) {
		t.Fatalf("Open: %v, want store.ErrNewerSchema", err)
	}
}

func TestFailedMigrationLeavesTheOldSchema(t *testing.T) {
	s := open(t, t.TempDir())
	broken := append(migrations(), `CREATE TABLE half (x INTEGER) STRICT; CREATE TABLE ledger (x INTEGER);`)
	if err := s.write.migrate(broken); err == nil {
		t.Fatal("a broken migration succeeded")
	}
	version, err := s.write.number(`PRAGMA user_version`)
	if err != nil || version != int64(len(migrations())) {
		t.Errorf("version %d, err %v after a failed migration", version, err)
	}
	if n, _ := s.write.number(`SELECT count(*) FROM sqlite_schema WHERE name = 'half'`); n != 0 {
		t.Error("a failed migration left a table behind")
	}
}

// TestTopUpIsWhole fails a top-up between its row and its idempotency key: neither
// is there, and the same call works afterwards, once.
func TestTopUpIsWhole(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	a := storetest.MustCreate(t, s, "a", 0)
	const cut = `CREATE TRIGGER cut BEFORE INSERT ON idempotency BEGIN SELECT RAISE(ABORT, 'power cut'); END`
	if err := s.write.db.Exec(cut); err != nil {
		t.Fatal(err)
	}
	if balance, err := s.TopUp(a.ID, 7, "", "once"); err == nil {
		t.Fatalf("TopUp = %d without its key", balance)
	}
	storetest.WantBalance(t, s, a.ID, 0, 0)
	if err := s.write.db.Exec(`DROP TRIGGER cut`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if balance, err := s.TopUp(a.ID, 7, "", "once"); err != nil || balance != 7 {
			t.Fatalf("TopUp = %d, %v", balance, err)
		}
		s.Close()
		s = open(t, dir) // the key outlives the process
	}
	if entries, _, err := s.Statement(store.StatementQuery{AccountID: a.ID}); err != nil || len(entries) != 1 {
		t.Errorf("entries = %+v, %v", entries, err)
	}
}
