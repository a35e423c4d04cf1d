package cpu

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCacheWhereNothingIsAllocated: on a file system without fallocate, as some of networks are, weights are kept too, and
// their disk is taken before they are. A signal in the middle is no reason to keep nothing.
func TestCacheWhereNothingIsAllocated(t *testing.T) {
	all := cacheSources()
	want := inMemory(t, all)
	var need int64
	for _, src := range all {
		need += PackedBytes(src)
	}
	defer func() { fallocate = unix.Fallocate }()
	for _, first := range []error{unix.EOPNOTSUPP, unix.ENOSYS, unix.EINTR} {
		calls := 0
		fallocate = func(fd int, mode uint32, off, n int64) error {
			if calls++; first != unix.EINTR || calls == 1 {
				return first
			}
			return unix.Fallocate(fd, mode, off, n)
		}
		o := Options{Threads: 1, CacheDir: t.TempDir(), CacheKey: "k", CacheBytes: need}
		b := open(t, o)
		if b.disk.file == nil {
			t.Errorf("%v: nothing is kept: %v", first, b.disk.err)
			continue
		}
		var is unix.Stat_t
		if err := unix.Fstat(int(b.disk.file.Fd()), &is); err != nil || is.Size < need || is.Blocks*512 < need {
			t.Errorf("%v: %d bytes with %d on the disk, want %d (%v)", first, is.Size, is.Blocks*512, need, err)
		}
		loadAll(t, b, all)
		seal(t, b)
		if _, err := os.Stat(filepath.Join(o.CacheDir, storeFile(t, "k"))); err != nil {
			t.Errorf("%v: %v", first, err)
		}
		got, found := loadAll(t, open(t, o), all)
		if sameBytes(t, got, want); !found {
			t.Errorf("%v: what was kept is not used", first)
		}
	}
}
