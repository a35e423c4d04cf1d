package store

import (
	"fmt"
	"io"
	"os"
)

// ReadSecret reads a file that others may not read: its group may where its owner is root or another user than this
// process, since that is how a service manager gives a service a file.
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
	if mode := info.Mode().Perm(); mode&forbidden(info) != 0 {
		return "", fmt.Errorf("%s has the mode %04o and others may read it: want 0600, or 0640 where it is root's", path, mode)
	}
	text, err := io.ReadAll(file)
	return string(text), err
}
