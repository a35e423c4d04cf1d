package store

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// IsOpenToGroup says whether a secret's file is this process's own and its group may read or write it: a volume whose files all
// are given to a group, as by fsGroup of Kubernetes, does that at each mount.
func IsOpenToGroup(path string) bool {
	info, err := os.Stat(path)
	return err == nil && isOpenToGroup(info)
}

func isOpenToGroup(info fs.FileInfo) bool {
	return isOwn(info) && opensToGroup(info.Mode(), forbidden(info))
}

// opensToGroup says whether of the bits that a mode may not have it has some of the group's, and none of others'.
func opensToGroup(mode, forbidden fs.FileMode) bool { return mode&forbidden != 0 && mode&0o007 == 0 }

// ReadSecret reads a file that others may not read: its group may where its owner is root or another user than this
// process, since that is how a service manager gives a service a file. One that IsOpenToGroup gets the mode 0600. What all
// others may read is refused: it is no secret any more.
func ReadSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if isOpenToGroup(info) && file.Chmod(0o600) == nil {
		if info, err = file.Stat(); err != nil {
			return "", err
		}
	}
	if mode := info.Mode().Perm(); mode&forbidden(info) != 0 {
		return "", fmt.Errorf("%s has the mode %04o and others may read it: want 0600, or 0640 where it is root's", path, mode)
	}
	text, err := io.ReadAll(file)
	return string(text), err
}
