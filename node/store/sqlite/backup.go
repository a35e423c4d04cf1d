package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"corenode/node/store"
)

// Backup writes a consistent copy of the database to a new file, readable by
// the owner only, while the node goes on, and the folder's modules into a new folder
// beside it. The copy is complete and on disk when Backup returns; with an error there is
// none. It is made in a folder of its own beside the file, which gets its name last: a file
// of that name is whole. missing are the modules that rows name and that have no file,
// and those that are damaged: they are left out.
func (s *Store) Backup(path string) (missing []string, err error) {
	if err := wantNew(path); err != nil {
		return nil, err
	}
	part, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	defer os.RemoveAll(part) // left behind, it is only a part
	database, modules := filepath.Join(part, DatabaseName), filepath.Join(part, ModulesDir)
	if err := s.copyDatabase(database); err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	// The modules last: they are what the rows that were copied name, and more.
	if missing, err = copyOfModules(filepath.Join(s.dir, ModulesDir), modules, database); err == nil {
		err = publish(database, modules, path)
	}
	return missing, wrapped(err, "backup")
}

// wantNew refuses the path of a backup that is there, or a part of it.
func wantNew(path string) error {
	beside, part := path+modulesSuffix, false
	whole, err := isThere(path)
	if err == nil {
		part, err = isThere(beside)
	}
	switch {
	case whole:
		return fmt.Errorf("%w: the backup %s exists already", store.ErrInvalid, path)
	case part:
		return fmt.Errorf("%w: %s exists already, without %s, as a backup that was killed leaves it: remove it, or choose another name",
			store.ErrInvalid, beside, path)
	}
	return err
}

// isThere says whether a path has a file. Where nobody can tell the error says why.
func isThere(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// publish gives the parts of a backup their names, durably: the modules, if there are any, and then the database.
func publish(database, modules, path string) error {
	if err := wantNew(path); err != nil { // of another backup, meanwhile
		return err
	}
	dir, beside := filepath.Dir(path), path+modulesSuffix
	var made []string
	err := os.Rename(modules, beside)
	if err == nil {
		made = append(made, beside)
		err = store.SyncFolder(dir)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = os.Rename(database, path)
	}
	if err == nil {
		made = append(made, path)
		err = store.SyncFolder(dir)
	}
	if err != nil {
		for _, name := range made {
			err = errors.Join(err, os.RemoveAll(name))
		}
	}
	return err
}

// copyDatabase makes a file of the database, on disk.
func (s *Store) copyDatabase(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = s.copyInto(file); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// copyInto fills an empty file. A connection of its own keeps the others free.
func (s *Store) copyInto(file *os.File) error {
	c, err := dialLong(filepath.Join(s.dir, DatabaseName), "") // query_only would forbid VACUUM INTO too
	if err != nil {
		return err
	}
	defer c.close()
	return s.readLong(context.Background(), c, func() (err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer outOfMemory(&err)
		if err := c.wantRoom(file, filepath.Join(s.dir, ModulesDir)); err != nil {
			return err
		}
		return withRoom(c.exec(`VACUUM INTO ?`, file.Name()), file.Name())
	})
}

// spareBytes are left free on the disk of a copy, which is mostly that of the ledger too.
const spareBytes = 256 << 20

// freeBytes is what the file's disk has left. Tests put another disk in its place.
var freeBytes = store.FreeBytes

// withRoom adds to an error of the disk what is free where a file is: of one that is full SQLite says no more than that it fails.
func withRoom(err error, path string) error {
	if !errors.Is(err, sqlite3.IOERR) {
		return err
	}
	file, openErr := os.Open(path)
	if openErr != nil {
		return err
	}
	defer file.Close()
	if free, known := freeBytes(file); known {
		return fmt.Errorf("%w: its disk has %d bytes free", err, free)
	}
	return err
}

// wantRoom refuses to copy the database into a file, and a folder of modules beside it, whose disk would then be as good as full.
func (c *conn) wantRoom(file *os.File, modules string) error {
	free, known := freeBytes(file)
	if !known {
		return nil
	}
	pages, err := c.number(`PRAGMA page_count`)
	if err != nil {
		return err
	}
	each, err := c.number(`PRAGMA page_size`)
	if err != nil {
		return err
	}
	beside, err := sizeOfModules(modules)
	if copied := pages*each + beside; err == nil && free < copied+spareBytes {
		err = fmt.Errorf("%w: the copy takes up to %d bytes, and %d have to stay free for the ledger: there are %d",
			store.ErrNoRoom, copied, spareBytes, free)
	}
	return err
}

// Restored is what a restore came to.
type Restored struct {
	store.Verification
	ModulesMissing []string `json:"modules_missing"` // that rows name, and that have no file, or that are damaged and left out
	Before         bool     `json:"restored_before"` // the database was there already, as the backup gives it
	// Migration is what became of the schema: the backup's may be of an older program.
	Migration store.Migration `json:"-"`
}

// Restore makes a data folder's database of a backup, with the modules that lie beside it. The folder
// must not have another one, nor a part of one; what the backup says is proved before it counts. Copy
// and proof have a folder of their own, and the database gets its name last: a restore that fails or is
// killed leaves none, and can be repeated. So can one that went through, before the database is used.
func Restore(backup, dir string) (r Restored, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return r, fmt.Errorf("restore: %w", err)
	}
	lock, err := store.LockFolder(dir)
	if err != nil {
		return r, fmt.Errorf("restore: %w", err)
	}
	defer lock.Close()
	if err := wantNothing(dir, "-wal", "-shm", "-journal"); err != nil {
		return r, fmt.Errorf("restore: %w", err)
	}
	apart, err := os.MkdirTemp(dir, "restore-")
	if err != nil {
		return r, fmt.Errorf("restore: %w", err)
	}
	defer os.RemoveAll(apart) // left behind, it is only a copy
	if err := store.OwnFolder(apart); err != nil {
		return r, fmt.Errorf("restore: %w", err)
	}
	r, err = restoreBy(apart, backup, dir)
	return r, wrapped(err, "restore %s", backup)
}

// restoreBy restores a backup by way of an empty folder.
func restoreBy(apart, backup, dir string) (r Restored, err error) {
	path, final := filepath.Join(apart, DatabaseName), filepath.Join(dir, DatabaseName)
	if err := copyDurably(backup, path); err != nil {
		return r, err
	}
	if err := wantBackup(path); err != nil {
		return r, err
	}
	if r.Verification, r.Migration, err = prove(apart); err != nil {
		return r, err
	}
	if r.Before, err = sameBytes(path, final); err == nil && !r.Before {
		err = wantNothing(dir, "")
	}
	if err == nil {
		r.ModulesMissing, err = copyOfModules(backup+modulesSuffix, filepath.Join(dir, ModulesDir), path)
	}
	if err != nil || r.Before {
		return r, err
	}
	if err = os.Rename(path, final); err == nil {
		err = store.SyncFolder(dir)
	}
	return r, err
}

// wantNothing refuses a folder with a file of a database. SQLite would take
// a WAL for a part of the backup, and it may hold the only copy of charges.
func wantNothing(dir string, suffixes ...string) error {
	for _, suffix := range suffixes {
		path := filepath.Join(dir, DatabaseName+suffix)
		switch there, err := isThere(path); {
		case err != nil:
			return err
		case there:
			return fmt.Errorf("%w: %s exists, and it is not what this backup gives: move %s* away first", store.ErrInvalid, path,
				DatabaseName)
		}
	}
	return nil
}

// sameBytes says whether there is a second file, as the first one is.
func sameBytes(one, two string) (bool, error) {
	a, err := os.Open(one)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := os.Open(two)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer b.Close()
	ofA, ofB := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, errA := io.ReadFull(a, ofA)
		m, errB := io.ReadFull(b, ofB)
		if !bytes.Equal(ofA[:n], ofB[:m]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			return atEnd(errA) && atEnd(errB), nil
		}
	}
}

func atEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// The header of an SQLite file: https://www.sqlite.org/fileformat.html#the_database_header
const (
	headerMagic   = "SQLite format 3\x00"
	headerBytes   = 100
	headerJournal = 18 // 2: changes go to a WAL
	headerSchema  = 60 // user_version, big endian; see migrate
)

// wantBackup refuses a file that Backup cannot have written. To Open an empty
// database is a new one, which is sound.
func wantBackup(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	head := make([]byte, headerBytes)
	if _, err := file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	} else if err != nil || string(head[:len(headerMagic)]) != headerMagic {
		return fmt.Errorf("%w: it is not a database", store.ErrInvalid)
	}
	if head[headerJournal] == 2 {
		return fmt.Errorf("%w: it is copied from a data folder, and its newest rows may be in %s-wal: put both files into a folder "+
			"of their own, and restore what corenode backup FILE --data-dir FOLDER makes of them", store.ErrInvalid, DatabaseName)
	}
	if binary.BigEndian.Uint32(head[headerSchema:]) == 0 {
		return fmt.Errorf("%w: it is a database, but not of corenode backup", store.ErrInvalid)
	}
	return nil
}

// prove brings the database of a folder up to the schema of this binary and
// verifies it. When it returns without an error, all of it is in its one file, on disk.
func prove(dir string) (v store.Verification, m store.Migration, err error) {
	s, err := OpenAsItIs(dir)
	if err != nil {
		return v, m, err
	}
	if m, err = s.Migrate(); err == nil {
		v, err = s.Verify()
	}
	if err == nil && len(v.Findings) > 0 {
		err = fmt.Errorf("%w: the backup has %d faults, the first: %s", store.ErrInvalid, len(v.Findings), v.Findings[0])
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return v, m, err
	}
	path := filepath.Join(dir, DatabaseName)
	if info, err := os.Lstat(path + "-wal"); err == nil && info.Size() > 0 { // SQLite's Close does not say it
		return v, m, fmt.Errorf("%d bytes of the WAL were not brought to the database", info.Size())
	}
	return v, m, syncFile(path)
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
	store.Own(file)
	_, err = file.ReadFrom(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(to) // a part of it would count as all
	}
	return err
}

// syncFile makes durable what a file holds. Windows syncs only what may be written.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
