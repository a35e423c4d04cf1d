//go:build !amd64 && !arm64

package cpu

// archLevels is empty: only portable Go runs here.
func archLevels() []*ops { return nil }
