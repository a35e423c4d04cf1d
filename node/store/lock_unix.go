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
