package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// FreeBytes is what is left on the disk of a file for those who are not root.
func FreeBytes(file *os.File) (n int64, known bool) {
	var s unix.Statfs_t
	err := unix.Fstatfs(int(file.Fd()), &s)
	return int64(s.Bavail) * int64(s.Bsize), err == nil && s.Blocks > 0 // 0 is of disks without a bound
}

// preallocate takes so many bytes of disk, without writing them where the file
// system can.
func preallocate(file *os.File, size int64) error {
	err := unix.Fallocate(int(file.Fd()), 0, 0, size)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(file.Fd()), 0, 0, size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeZeros(file, size)
	}
	if err != nil {
		return err
	}
	return file.Sync()
}
