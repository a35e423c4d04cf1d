package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

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
