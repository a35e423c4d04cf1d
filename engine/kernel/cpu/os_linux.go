package cpu

import (
	"cmp"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// fallocate is the system's. Tests put another one in its place.
var fallocate = unix.Fallocate

// allocate reserves disk space for [off, off+n) of f, without writing it where the file system can.
func allocate(f *os.File, off, n int64) error {
	for {
		switch err := fallocate(int(f.Fd()), 0, off, n); err {
		case unix.EINTR:
		case unix.EOPNOTSUPP, unix.ENOSYS:
			return writeZeros(f, off, n)
		default:
			return err
		}
	}
}

// freeBytes is what is left on the disk of f for those who are not root.
func freeBytes(f *os.File) (n int64, known bool) {
	var s unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &s)
	return leftBytes(s), err == nil && s.Blocks > 0 // 0 is of disks without a bound
}

// leftBytes counts in fragments: a block of a network file system is what it likes to transfer.
func leftBytes(s unix.Statfs_t) int64 {
	return int64(s.Bavail) * int64(cmp.Or(s.Frsize, s.Bsize))
}

// adviseHuge asks for huge pages: reading weights that are scattered over small
// ones was measured at 33 GB/s where huge ones gave 46. It is a hint.
func adviseHuge(b []byte) { unix.Madvise(b, unix.MADV_HUGEPAGE) }

// hugePages says whether memory can have huge pages when it asks for them.
var hugePages = sync.OnceValue(func() bool {
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && !strings.Contains(string(mode), "[never]")
})
