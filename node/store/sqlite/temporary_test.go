package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/node/store"
	"corenode/node/store/storetest"
)

// TestNoOtherFolderIsNeeded: what a sort does not keep in memory goes to a file beside the database, of which nothing is
// left. Where there is no folder for temporary files, as in a container, rows are proved and copied all the same.
func TestNoOtherFolderIsNeeded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "a folder? 50%#"))
	a := storetest.MustCreate(t, s, "a", 0)
	t.Setenv("SQLITE_TMPDIR", "")
	t.Setenv("TMPDIR", filepath.Join(s.dir, "none"))
	digest := "sha256:" + strings.Repeat("0", 200)
	rows := fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 15000)
		INSERT INTO ledger (kind, account_id, request_id, time, model, module_digest)
		SELECT 'settlement', '%s', i, i, hex(zeroblob(200)) || i, '%s' FROM n`, a.ID, digest)
	if err := s.Exec(rows); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Verify(); err != nil || v.Charges != 15000 {
		t.Errorf("a proof of %d charges: %v", v.Charges, err)
	}
	backup := filepath.Join(s.dir, "copy.db")
	if missing, err := s.Backup(backup); err != nil || !slices.Equal(missing, []string{digest}) {
		t.Errorf("a backup: %q, %v", missing, err)
	}
	if r, err := Restore(backup, filepath.Join(s.dir, "restored")); err == nil || r.Charges != 15000 { // no sums of usage
		t.Errorf("a proof of %d restored charges: %v", r.Charges, err)
	}
	names, err := filepath.Glob(filepath.Join(s.dir, temporaryNames))
	if err != nil || len(names) > 0 {
		t.Errorf("left: %q, %v", names, err)
	}
}

// TestTemporaryFilesOfAKillAreRemoved: a system that removes no open file leaves them.
func TestTemporaryFilesOfAKillAreRemoved(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, ".corenode-sort-17")
	if err := os.WriteFile(left, []byte("sorted"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
}

// TestMigrationsSortInFiles: a script that sorts more than SQLite may have of memory goes through, since a large ledger must
// not keep a node from its start. SQLite's end of memory is a panic.
func TestMigrationsSortInFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), DatabaseName)
	if err := makeFiles(path); err != nil {
		t.Fatal(err)
	}
	c, err := dial(path, writerPragmas)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.db.Exec(`PRAGMA hard_heap_limit = 48000000`); err != nil {
		t.Fatal(err)
	}
	const sorts = `CREATE TABLE sorted AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80000)
		SELECT hex(randomblob(500)) AS x FROM n ORDER BY x;`
	if err := c.migrate(append(migrations(), sorts)); err != nil {
		t.Fatal(err)
	}
}

// TestSortsLeaveRoom: what a proof sorts in files leaves the ledger room on its disk. What an operator asks for is answered.
func TestSortsLeaveRoom(t *testing.T) {
	defer func() { freeBytes = store.FreeBytes }()
	s := open(t, t.TempDir())
	c, err := dialLong(filepath.Join(s.dir, DatabaseName), "PRAGMA cache_size = -64;")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	sorts := func(c *conn) error {
		return c.view(func() error {
			_, err := c.number(`SELECT count(*) FROM (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
				SELECT hex(randomblob(500)) AS x FROM n ORDER BY x LIMIT 20000 OFFSET 1)`)
			return err
		})
	}
	for _, free := range []int64{spareBytes, spareBytes - 1} {
		freeBytes = func(*os.File) (int64, bool) { return free, true }
		err := s.readLong(t.Context(), c, func() error { return sorts(c) })
		if (err == nil) != (free == spareBytes) || err != nil && !errors.Is(err, store.ErrNoRoom) {
			t.Errorf("where %d bytes are free: %v", free, err)
		}
		if err := sorts(s.asked); err != nil {
			t.Errorf("what an operator asks for where %d bytes are free: %v", free, err)
		}
	}
}
