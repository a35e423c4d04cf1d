package postgres

import (
	"fmt"
	"os"
	"strings"
)

// ReadPassword reads the password of a file that only its owner may read; "" where none is named.
func ReadPassword(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("%s has the mode %04o and others may read it: want 0600", path, info.Mode().Perm())
	}
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	return strings.TrimRight(string(text), "\r\n"), err
}
