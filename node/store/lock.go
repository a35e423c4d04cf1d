package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// LockName is the file whose lock says who owns the folder. It is never
// removed: removing it would let two openers lock two different files.
const LockName = "lock"

// In these files the node that has the lock says where its admin listener is, and its API.
const AddressName, APIAddressName = "admin.addr", "api.addr"

// Held looks at a lock for a moment, which is no reason to refuse the folder: it is tried again so often, so long after.
const lockTries, lockPause = 5, 10 * time.Millisecond

// LockFolder takes the folder for this process. The kernel releases the lock
// when the process ends, however it ends. Addresses that are there then are of one
// that was killed, and go: whoever listens there now must not be sent a token.
func LockFolder(dir string) (io.Closer, error) {
	file, err := Make(filepath.Join(dir, LockName))
	if err != nil {
		return nil, err
	}
	err = lockFile(file)
	for tries := 1; errors.Is(err, errHeld) && tries < lockTries; tries++ {
		time.Sleep(lockPause)
		err = lockFile(file)
	}
	if err == nil {
		err = errors.Join(removeIfThere(filepath.Join(dir, AddressName)), removeIfThere(filepath.Join(dir, APIAddressName)))
	}
	if err != nil {
		if errors.Is(err, errHeld) {
			err = fmt.Errorf("%w: %s", ErrLocked, dir)
			if pid := ownerOf(file); pid != "" {
				err = fmt.Errorf("%w (process %s)", err, pid)
			}
		}
		file.Close()
		return nil, err
	}
	removeLeft(dir)
	// The process id is for people; the lock does not depend on it.
	if err := file.Truncate(0); err == nil {
		fmt.Fprintf(file, "%d\n", os.Getpid())
	}
	return file, nil
}

// TrialName begins the name of a file that is written to see how fast the folder's disk is, by who need not have the lock.
const TrialName = ".trial-"

// removeLeft removes files that a kill left before they got their names, or lost them: tokens in plain text among them. Who has the
// lock writes none at that time. One that cannot be removed is in nobody's way.
func removeLeft(dir string) {
	left, _ := os.ReadDir(dir)
	for _, e := range left {
		for _, begins := range []string{secretName, TrialName} {
			if rest, ours := strings.CutPrefix(e.Name(), begins); ours && strings.Trim(rest, "0123456789") == "" {
				os.Remove(filepath.Join(dir, e.Name()))
			}
		}
	}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Held says whether a process has the folder's lock. It makes no file.
func Held(dir string) (bool, error) {
	file, err := os.Open(filepath.Join(dir, LockName))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	err = shareFile(file)
	if errors.Is(err, errHeld) {
		return true, nil
	}
	return false, err
}

// Owner is the process id that the latest owner of the folder left there, for people; empty where none is known.
func Owner(dir string) (pid string) {
	file, err := os.Open(filepath.Join(dir, LockName))
	if err != nil {
		return ""
	}
	defer file.Close()
	return ownerOf(file)
}

func ownerOf(file *os.File) (pid string) {
	var text [20]byte
	n, _ := file.ReadAt(text[:], 0) // absent or short: nothing is known
	return strings.TrimSpace(string(text[:n]))
}
