//go:build !linux

package postgrestest

import "fmt"

// newAttributes fails: a server that outlives a killed test would stay.
func newAttributes(string) (attributes, error) {
	return attributes{}, fmt.Errorf("tests start a server on Linux only: %w", errAbsent)
}
