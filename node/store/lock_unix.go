//go:build unix

package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// errHeld says that another process has the lock.
const errHeld = unix.EWOULDBLOCK

func lockFile(file *os.File) error {
	return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// shareFile keeps lockFile out until the file is closed, and not others that share it.
func shareFile(file *os.File) error {
	return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
}
