//go:build unix

package store

import (
	"errors"
	"os"
)

// syncFolder makes durable which names a folder has.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
