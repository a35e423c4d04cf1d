package store

import (
	"os"

	"golang.org/x/sys/windows"
)

// errHeld says that another process has the lock.
const errHeld = windows.ERROR_LOCK_VIOLATION

// lockFile locks one byte far behind the text: what is locked cannot be read by
// others, and the text says who the owner is.
func lockFile(file *os.File) error {
	return lockByte(file, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
}

// shareFile keeps lockFile out until the file is closed, and not others that share it.
func shareFile(file *os.File) error { return lockByte(file, windows.LOCKFILE_FAIL_IMMEDIATELY) }

func lockByte(file *os.File, flags uint32) error {
	return windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}
