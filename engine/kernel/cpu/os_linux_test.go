package cpu

import (
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
