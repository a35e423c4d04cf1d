package store

import (
	"cmp"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// FreeBytes is what is left on the disk of a file for those who are not root.
func FreeBytes(file *os.File) (n int64, known bool) {
	var s unix.Statfs_t
	err := unix.Fstatfs(int(file.Fd()), &s)
	return leftBytes(s), err == nil && s.Blocks > 0 // 0 is of disks without a bound
}

// leftBytes counts in fragments: a block of a network file system is what it likes to transfer.
func leftBytes(s unix.Statfs_t) int64 {
	return int64(s.Bavail) * int64(cmp.Or(s.Frsize, s.Bsize))
}

// hasDisk says whether a file has the disk for all of its size bytes. A copy may have holes where there were zeros, and a file
// system that compresses has less for all of them.
func hasDisk(file *os.File, size int64) bool {
	var s unix.Stat_t
	const unit = 512
	return unix.Fstat(int(file.Fd()), &s) == nil && s.Blocks*unit >= size
}

// fallocate takes so many bytes of disk for a file, and keeps what is in it.
func fallocate(file *os.File, size int64) error {
	err := unix.Fallocate(int(file.Fd()), 0, 0, size)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(file.Fd()), 0, 0, size)
	}
	return err
}
