//go:build unix

package extensions

import (
	"errors"
	"os"
)

// syncFolder makes durable which names a folder has, where its file system can.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
