// Package sqlite keeps accounts, keys and the ledger of one node, in one database in the
// data folder.
//
// One data folder is one node: Open takes an exclusive lock on the folder and
// a second opener, in any process, gets store.ErrLocked. Every change is one
// transaction and durable when the call returns (WAL, synchronous=FULL).
//
// There is one connection for writing, one for what requests read and one for what
// operators ask for, which may take long. Each is behind its own mutex: a reader never
// waits for a commit, and no request for an operator. All methods are safe for concurrent use.
//
// What SQLite sorts and memory does not hold is in files beside the database, and in no other folder.
package sqlite

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"corenode/node/store"
)

// DatabaseName is the database file in the data folder.
const DatabaseName = "corenode.db"

// Store is an open data folder.
type Store struct {
	dir   string
	lock  io.Closer
	write *conn
	read  *conn            // for what is short: requests wait for it
	asked *conn            // for what operators ask of tables that grow
	now   func() time.Time // replaced by tests only
}

// Open is OpenAsItIs and Migrate.
func Open(dir string) (*Store, error) {
	s, err := OpenAsItIs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := s.Migrate(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// OpenAsItIs locks the data folder, creating it (0700) when absent, and opens its database, a new one with the schema of this
// binary. Until Migrate it may be of an older schema, and only Secret, Backup, Audit and Close are to be called.
func OpenAsItIs(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lock, err := store.LockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{dir: dir, lock: lock, now: time.Now}
	if err := s.connect(filepath.Join(dir, DatabaseName)); err != nil {
		s.Close()
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	return s, nil
}

// connect opens the connection for writing. A new database gets its schema at once: there is no older program that used it.
func (s *Store) connect(path string) (err error) {
	defer outOfMemory(&err)
	removeTemporary(s.dir)
	if err := makeFiles(path); err != nil {
		return err
	}
	if s.write, err = dialWriter(path); err != nil {
		return err
	}
	version, err := s.write.version()
	if err == nil && version == 0 {
		err = s.write.migrate(migrations())
	}
	return err
}

// Migrate brings the database up to the schema of this binary, which an older one then refuses, and says from which to which.
func (s *Store) Migrate() (m store.Migration, err error) {
	before, err := s.write.version()
	if err == nil {
		err = s.ready(s.write.path)
	}
	if err != nil {
		return m, fmt.Errorf("open store %s: %w", s.dir, err)
	}
	return store.Migration{From: int(before), To: len(migrations()), Reader: len(migrations())}, nil
}

// ready migrates and opens the readers; the writer ends the WAL before they look.
func (s *Store) ready(path string) (err error) {
	defer outOfMemory(&err)
	if err := s.write.migrate(migrations()); err != nil {
		return err
	}
	if err := s.write.arrange(); err != nil {
		return err
	}
	if err := s.write.db.Exec(servingPragmas); err != nil {
		return withRoom(err, path)
	}
	_ = s.write.cutWAL() // the readers may have no memory for what a kill left; without it they say so themselves
	if s.read, err = dial(path, readerPragmas); err != nil {
		return err
	}
	s.asked, err = dial(path, readerPragmas)
	return err
}

// makeFiles makes the files that SQLite would make readable for everyone, and root's where root opens the database.
func makeFiles(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		file, err := store.Make(path + suffix)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Close implements store.Store. Reads that run are waited for, as changes are.
func (s *Store) Close() error {
	var errs []error
	for _, c := range []*conn{s.asked, s.read, s.write} { // the writer last: it checkpoints the WAL
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
		s.lock = nil
	}
	return errors.Join(errs...)
}

// Secret implements store.Store.
func (s *Store) Secret(name string) ([]byte, error) {
	fresh := make([]byte, 32)
	rand.Read(fresh)
	setting := "secret:" + name
	var secret []byte
	err := s.write.transaction(func() error {
		err := s.write.exec(`INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING`, setting, fresh)
		if err != nil {
			return err
		}
		return s.write.each(`SELECT value FROM settings WHERE name = ?`, func(r row) error {
			secret = r.blob(0)
			return nil
		}, setting)
	})
	return secret, wrapped(err, "read secret %q", name)
}

// wrapped adds to an error what was attempted. Without an error it is nil.
func wrapped(err error, attempt string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(attempt, args...), err)
}

// only returns the one thing that a query finds, or ErrNotFound.
func only[T any](found []T, err error) (one T, _ error) {
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return one, err
	}
	return found[0], nil
}
