//go:build unix

package store

import (
	"errors"
	"os"
)

// SyncFolder makes durable which names a folder has.
func SyncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
