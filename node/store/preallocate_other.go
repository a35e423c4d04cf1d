//go:build !linux

package store

import (
	"errors"
	"os"
)

// FreeBytes does not know.
func FreeBytes(*os.File) (n int64, known bool) { return 0, false }

// fallocate cannot.
func fallocate(*os.File, int64) error { return errors.ErrUnsupported }

// hasDisk does not know.
func hasDisk(*os.File, int64) bool { return true }
