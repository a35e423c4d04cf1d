package sqlite

import (
	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// wal is the log of a connection that writes. SQLite writes each page of a transaction in two pieces, then syncs them, and then tells
// readers of them (synchronous=FULL). Until the sync nobody else reads them, so they reach the system in one write. They are here only
// while the transaction has the write lock: after a rollback others write where they belonged.
type wal struct {
	vfs.File
	pieces []byte // written by SQLite, and not yet to the file; walPiecesMax and one piece at most
	at     int64  // where they belong
}

// walPiecesMax bounds what a large transaction keeps in memory.
const walPiecesMax = 256 << 10

// WriteAt implements vfs.File.
func (w *wal) WriteAt(b []byte, off int64) (int, error) {
	if off != w.at+int64(len(w.pieces)) || len(w.pieces) >= walPiecesMax {
		if err := w.flush(); err != nil {
			return 0, err
		}
		w.at = off
	}
	w.pieces = append(w.pieces, b...)
	return len(b), nil
}

// flush writes what was not written. What fails is not tried again: it fails its transaction, and the next one writes over it.
func (w *wal) flush() error {
	if len(w.pieces) == 0 {
		return nil
	}
	_, err := w.File.WriteAt(w.pieces, w.at)
	w.at, w.pieces = w.at+int64(len(w.pieces)), w.pieces[:0]
	return vfs.SystemError(err, sqlite3.IOERR_WRITE)
}

// ReadAt implements vfs.File.
func (w *wal) ReadAt(b []byte, off int64) (int, error) {
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.File.ReadAt(b, off)
}

// Sync implements vfs.File.
func (w *wal) Sync(flags vfs.SyncFlag) error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.File.Sync(flags)
}

// Size implements vfs.File.
func (w *wal) Size() (int64, error) {
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.File.Size()
}

// Truncate implements vfs.File.
func (w *wal) Truncate(size int64) error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.File.Truncate(size)
}

// drop forgets what a transaction wrote that was rolled back.
func (w *wal) drop() { w.pieces = w.pieces[:0] }

// Close implements vfs.File. What was not synced is nobody's.
func (w *wal) Close() error {
	w.drop()
	return w.File.Close()
}
