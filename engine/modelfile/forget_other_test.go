//go:build !linux

package modelfile

import "testing"

// Forget does nothing: these systems cannot be asked.
func Forget(*testing.T, string) {}
