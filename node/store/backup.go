package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup writes a consistent copy of the database to a new file, readable by
// the owner only, while the node goes on. The copy is complete and on disk
// when Backup returns; with an error there is none.
func (s *Store) Backup(path string) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the backup %s exists already", ErrInvalid, path)
	}
	part := path + ".part"
	file, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(part)
		}
	}()
	if err = s.copyInto(part); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// copyInto fills an empty file. A connection of its own keeps the others free.
func (s *Store) copyInto(path string) error {
	c, err := dial(filepath.Join(s.dir, DatabaseName), "") // query_only would forbid VACUUM INTO too
	if err != nil {
		return err
	}
	defer c.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exec(`VACUUM INTO ?`, path)
}

// Restore makes a data folder's database of a backup. The folder must not have
// one; what the backup says is proved before it counts.
func Restore(backup, dir string) (v Verification, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return v, fmt.Errorf("restore: %w", err)
	}
	path := filepath.Join(dir, DatabaseName)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return v, fmt.Errorf("restore: %w: %s has a database already", ErrInvalid, dir)
	}
	defer func() {
		if err != nil {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				os.Remove(path + suffix)
			}
		}
	}()
	if err := copyDurably(backup, path); err != nil {
		return v, fmt.Errorf("restore: %w", err)
	}
	s, err := Open(dir)
	if err != nil {
		return v, fmt.Errorf("restore %s: %w", backup, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if v, err = s.Verify(); err == nil && len(v.Findings) > 0 {
		err = fmt.Errorf("restore: %w: the backup has %d faults, the first: %s", ErrInvalid, len(v.Findings), v.Findings[0])
	}
	return v, err
}

func copyDurably(from, to string) error {
	content, err := os.Open(from)
	if err != nil {
		return err
	}
	defer content.Close()
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.ReadFrom(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncFolder makes a new name in a folder durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
