package sqlite

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"corenode/node/store"
)

// temporaryNames are those of the files in which SQLite sorts what it does not keep in memory. They are beside the
// database: there is room for rows, and a container may have no other folder.
const temporaryNames = ".corenode-sort-*"

// fileSystem is that of one connection, whose temporary files are in a folder.
type fileSystem struct {
	vfs.VFSFilename // for all other files
	dir             string
	spare           int64 // bytes that stay free on the folder's disk
	log             *wal  // of a connection that writes; nil of one that reads
}

var (
	system      = vfs.Find("os").(vfs.VFSFilename)
	connections atomic.Int64 // that were made, which names them apart
)

// openBeside gives the URI by which SQLite opens a database with temporary files beside it, which leave spare bytes free, until done is
// called. Without a log the connection writes none.
func openBeside(path string, spare int64, log *wal) (uri string, done func()) {
	name := "beside-" + strconv.FormatInt(connections.Add(1), 10)
	vfs.Register(name, fileSystem{system, filepath.Dir(path), spare, log})
	return fileURI(path, "vfs="+name), func() { vfs.Unregister(name) }
}

// fileURI is a path as SQLite takes it with parameters.
func fileURI(path, query string) string {
	path = filepath.ToSlash(path)
	if strings.HasPrefix(path, "//") {
		path = "//" + path // or the first name would be a host
	}
	file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query}
	return file.String()
}

// OpenFilename implements vfs.VFSFilename. A file without a name is a temporary one. A WAL or a journal that SQLite makes
// (it removes the empty WAL that a new database has) belongs to whom the folder belongs, and nobody else may read it.
func (f fileSystem) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if name != nil {
		if flags&(vfs.OPEN_WAL|vfs.OPEN_MAIN_JOURNAL) != 0 && flags&vfs.OPEN_CREATE != 0 {
			if made, err := store.Make(name.String()); err == nil { // else SQLite says what is wrong
				made.Close()
			}
		}
		file, flags, err := f.VFSFilename.OpenFilename(name, flags)
		if err == nil && flags&vfs.OPEN_WAL != 0 && f.log != nil {
			f.log.File, file = file, f.log
		}
		return file, flags, err
	}
	file, err := os.CreateTemp(f.dir, temporaryNames)
	if err != nil {
		return nil, flags, err
	}
	if runtime.GOOS != "windows" { // which removes no open file
		os.Remove(file.Name()) // its end goes with this process then, however that ends
	}
	return temporary{file, f.spare}, flags, nil
}

// removeTemporary removes the files that a kill left. One that cannot be removed is in nobody's way.
func removeTemporary(dir string) {
	left, _ := os.ReadDir(dir)
	for _, e := range left {
		if ours, _ := filepath.Match(temporaryNames, e.Name()); ours {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// temporary is a file that one connection has for itself, until it closes it.
type temporary struct {
	*os.File
	spare int64 // as that of fileSystem
}

// WriteAt implements vfs.File. What is sorted leaves spare bytes of the disk to the ledger.
func (t temporary) WriteAt(b []byte, off int64) (int, error) {
	if t.spare > 0 { // else nobody asks the system at each write
		if free, known := freeBytes(t.File); known && free < t.spare {
			return 0, sqlite3.FULL
		}
	}
	return t.File.WriteAt(b, off)
}

// Close implements vfs.File.
func (t temporary) Close() error {
	err := t.File.Close()
	if runtime.GOOS == "windows" {
		err = errors.Join(err, os.Remove(t.Name()))
	}
	return err
}

// Sync implements vfs.File: nobody reads it after a crash.
func (temporary) Sync(vfs.SyncFlag) error { return nil }

// Size implements vfs.File.
func (t temporary) Size() (int64, error) {
	info, err := t.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Lock implements vfs.File.
func (temporary) Lock(vfs.LockLevel) error { return nil }

// Unlock implements vfs.File.
func (temporary) Unlock(vfs.LockLevel) error { return nil }

// CheckReservedLock implements vfs.File.
func (temporary) CheckReservedLock() (bool, error) { return false, nil }

// SectorSize implements vfs.File: 0 is SQLite's own.
func (temporary) SectorSize() int { return 0 }

// DeviceCharacteristics implements vfs.File.
func (temporary) DeviceCharacteristics() vfs.DeviceCharacteristic { return 0 }
