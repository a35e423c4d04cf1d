package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// LockName is the file whose lock says who owns the folder. It is never
// removed: removing it would let two openers lock two different files.
const LockName = "lock"

// LockFolder takes the folder for this process. The kernel releases the lock
// when the process ends, however it ends.
func LockFolder(dir string) (io.Closer, error) {
	file, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(file); err != nil {
		if errors.Is(err, errHeld) {
			err = fmt.Errorf("%w: %s%s", ErrLocked, dir, ownerOf(file))
		}
		file.Close()
		return nil, err
	}
	// The process id is for people; the lock does not depend on it.
	if err := file.Truncate(0); err == nil {
		fmt.Fprintf(file, "%d\n", os.Getpid())
	}
	return file, nil
}

// ownerOf reads the process id that the owner left in the lock file.
func ownerOf(file *os.File) string {
	var text [20]byte
	n, _ := file.ReadAt(text[:], 0) // absent or short: there is nothing to add to the message
	if pid := strings.TrimSpace(string(text[:n])); pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}
