//go:build !linux

package modelfile

import (
	"errors"
	"os"
)

// openDirect opens nothing: these systems read ahead by themselves.
func openDirect(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// resident is not asked without openDirect.
func resident([]byte) bool { return true }
