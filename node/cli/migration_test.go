package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/node/store/sqlite"
	"corenode/node/store/sqlite/sqlitetest"
)

// oldFolder makes a data folder of the schema before the last one, and last is that.
func oldFolder(t *testing.T) (dir string, last int) {
	t.Helper()
	dir = t.TempDir()
	const scripts = "../store/sqlite/migrations"
	all, err := filepath.Glob(scripts + "/*.sql")
	if err == nil {
		last = len(all)
		err = sqlitetest.Old(dir, os.DirFS(scripts), last-1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, last
}

func wantSchema(t *testing.T, file string, want int) {
	t.Helper()
	if got, err := sqlitetest.Schema(file); got != want || err != nil {
		t.Errorf("the schema of %s is %d, want %d: %v", file, got, want, err)
	}
}

// TestBackupBeforeAnUpgrade: a backup of a folder that an older program served is one that it can restore, and it can
// go on serving the folder. Another command of this program closes that way, and says so, once.
func TestBackupBeforeAnUpgrade(t *testing.T) {
	dir, last := oldFolder(t)
	backup, database := filepath.Join(t.TempDir(), "b.db"), filepath.Join(dir, sqlite.DatabaseName)
	run := func(says bool, line ...string) {
		t.Helper()
		said := new(bytes.Buffer)
		if _, err := typedTo(said, line...); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(said.String(), "an older program refuses it") != says {
			t.Errorf("%v says %q on standard error, want of a migration: %v", line, said, says)
		}
	}
	run(false, "backup", backup, "--data-dir", dir)
	wantSchema(t, backup, last-1)
	wantSchema(t, database, last-1)

	restored := filepath.Join(t.TempDir(), "restored")
	run(true, "restore", backup, "--data-dir", restored)
	wantSchema(t, filepath.Join(restored, sqlite.DatabaseName), last)
	wantSchema(t, backup, last-1)

	run(true, "account", "list", "--data-dir", dir)
	run(false, "account", "list", "--data-dir", dir)
	wantSchema(t, database, last)
	run(false, "backup", backup+".2", "--data-dir", dir)
	wantSchema(t, backup+".2", last)
	run(false, "restore", backup+".2", "--data-dir", restored+".2")
}

// TestBackupOfAnyOlderSchema: each that was released can be copied, also where it has no audit.
func TestBackupOfAnyOlderSchema(t *testing.T) {
	_, last := oldFolder(t)
	for version := 1; version < last; version++ {
		dir := t.TempDir()
		if err := sqlitetest.Old(dir, os.DirFS("../store/sqlite/migrations"), version); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "b.db")
		if _, err := typed("backup", file, "--data-dir", dir); err != nil {
			t.Errorf("schema %d: %v", version, err)
		}
		wantSchema(t, file, version)
	}
}
