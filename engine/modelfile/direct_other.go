//go:build !linux

package modelfile

import "os"

// openDirect opens nothing: these systems read ahead by themselves.
func openDirect(string) *os.File { return nil }

// resident is not asked without openDirect.
func resident([]byte) bool { return true }
