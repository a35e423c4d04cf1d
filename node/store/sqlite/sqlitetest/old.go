package sqlitetest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"corenode/node/store/sqlite"
)

// Old makes the database of an empty folder with the first so many scripts of a folder of migrations, as the program
// that knew no more of them did.
func Old(dir string, migrations fs.FS, version int) error {
	names, err := fs.Glob(migrations, "*.sql") // sorted
	if err != nil || len(names) < version {
		return fmt.Errorf("there are %d migrations, want %d: %w", len(names), version, err)
	}
	db, err := sqlite3.Open(filepath.Join(dir, sqlite.DatabaseName))
	if err != nil {
		return err
	}
	err = db.Exec(`PRAGMA journal_mode = WAL`)
	for _, name := range names[:version] {
		script, readErr := fs.ReadFile(migrations, name)
		err = errors.Join(err, readErr, db.Exec(string(script)))
	}
	return errors.Join(err, db.Exec(fmt.Sprintf(`PRAGMA user_version = %d`, version)), db.Close())
}

// Schema is the version of the schema of the database in a file.
func Schema(file string) (version int, err error) {
	db, err := sqlite3.Open(file)
	if err != nil {
		return 0, err
	}
	s, _, err := db.Prepare(`PRAGMA user_version`)
	if err != nil {
		return 0, errors.Join(err, db.Close())
	}
	if s.Step() {
		version = s.ColumnInt(0)
	}
	return version, errors.Join(s.Close(), db.Close())
}
