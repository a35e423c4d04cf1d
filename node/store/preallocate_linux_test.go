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
// gone by then.
func TestJournalWithHoles(t *testing.T) {
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
	if taken() >= size {
		t.Skip("this file system has no holes")
	}
	openSpill(t, dir, size)
	if got := taken(); got < size {
		t.Errorf("the journal has %d bytes of disk, want %d", got, size)
	}
}
