package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFreeBytesAreCountedInFragments: a block of NFS or of a FUSE may be a MiB, where free is counted in 4 KiB.
func TestFreeBytesAreCountedInFragments(t *testing.T) {
	for _, c := range []struct {
		disk unix.Statfs_t
		want int64
	}{
		{unix.Statfs_t{Bavail: 10, Bsize: 1 << 20, Frsize: 4096}, 40960},
		{unix.Statfs_t{Bavail: 10, Bsize: 4096}, 40960},
	} {
		if got := leftBytes(c.disk); got != c.want {
			t.Errorf("%+v has %d bytes left, want %d", c.disk, got, c.want)
		}
	}
}

// TestJournalWithHoles: a journal that was copied without its zeros takes its disk again, or the rows of an outage need what may be
// gone by then. Where the disk has no room for that, none of it is taken.
func TestJournalWithHoles(t *testing.T) {
	t.Cleanup(func() { allocate = fallocate })
	for _, c := range []struct {
		allocate func(*os.File, int64) error
		sparse   error
	}{
		{fallocate, nil},
		{func(*os.File, int64) error { return unix.EOPNOTSUPP }, nil},
		{func(file *os.File, size int64) error { return errors.Join(writeZeros(file, size), unix.ENOSPC) }, unix.ENOSPC},
	} {
		allocate = fallocate
		const size = 1 << 20
		dir := t.TempDir()
		taken := func() int64 {
			var s unix.Stat_t
			if err := unix.Stat(filepath.Join(dir, SpillName), &s); err != nil {
				t.Fatal(err)
			}
			return s.Blocks * 512
		}
		openSpill(t, dir, size).Close()
		if taken() < size {
			t.Skip("this file system says less than it gave")
		}
		path := filepath.Join(dir, SpillName)
		head, err := os.ReadFile(path)
		if err = errors.Join(err, os.WriteFile(path, head[:4096], 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		before := taken()
		if before >= size {
			t.Skip("this file system has no holes")
		}
		allocate = c.allocate
		s := openSpill(t, dir, size)
		got := taken()
		if (c.sparse == nil) != (got >= size) || c.sparse != nil && got > before {
			t.Errorf("the journal has %d bytes of disk, of %d, and had %d", got, size, before)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != size || !errors.Is(s.Sparse(), c.sparse) {
			t.Errorf("it has %d bytes, %v, and says %v, want %d and %v", info.Size(), err, s.Sparse(), size, c.sparse)
		}
	}
}
