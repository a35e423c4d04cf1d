package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"

	"corenode/node/store"
)

// While a proof or a copy reads, nothing can be taken out of the WAL. At walMax such a read ends: the index of a WAL takes memory of
// each connection, and walMax stays under what they have. A WAL of walKept bytes or less is not cut: nothing is won by the end of
// a read. Tests replace walMax.
var walMax int64 = 64 << 30

const (
	walKept = 32 << 20 // journal_size_limit
	// walLookEvery is short of the time in which a disk writes spareBytes.
	walLookEvery = 100 * time.Millisecond
)

// endsLongRead says why a read that takes long has to end, where the WAL has wal bytes and the disk free ones.
func endsLongRead(wal, free int64, known bool) error {
	switch {
	case wal > walMax:
		return fmt.Errorf("%w: meanwhile %s-wal grew to %d bytes, %d at most: do it when less is written", store.ErrNoRoom,
			DatabaseName, wal, walMax)
	case known && free < spareBytes && wal > walKept:
		return fmt.Errorf("%w: meanwhile %s-wal grew to %d bytes, and %d have to stay free for the ledger: there are %d", store.ErrNoRoom,
			DatabaseName, wal, spareBytes, free)
	}
	return nil
}

// readLong does a read that may take hours, on a connection of its own. It ends with ctx, and where endsLongRead says so.
func (s *Store) readLong(ctx context.Context, c *conn, read func() error) error {
	ctx, done, err := s.watchWAL(ctx)
	if err != nil {
		return err
	}
	defer done()
	c.db.SetInterrupt(ctx)
	switch err = read(); {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, sqlite3.FULL):
		err = fmt.Errorf("%w: %d bytes have to stay free for the ledger: %w", store.ErrNoRoom, spareBytes, err)
	}
	return err
}

// watchWAL gives a context that ends with ctx or when endsLongRead says why, which is its cause. done ends what looks.
func (s *Store) watchWAL(ctx context.Context) (watched context.Context, done func(), err error) {
	dir, err := os.Open(s.dir)
	if err != nil {
		return nil, nil, err
	}
	look := func() error {
		info, err := os.Stat(filepath.Join(s.dir, DatabaseName+"-wal"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		free, known := freeBytes(dir)
		return endsLongRead(info.Size(), free, known)
	}
	if err := look(); err != nil {
		return nil, nil, errors.Join(err, dir.Close())
	}
	watched, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer dir.Close()
		tick := time.NewTicker(walLookEvery)
		defer tick.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-tick.C:
				if err := look(); err != nil {
					cancel(err)
				}
			}
		}
	}()
	return watched, func() {
		cancel(context.Canceled)
		<-ended
	}, nil
}
