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
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}
