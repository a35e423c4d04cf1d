//go:build !unix

package cpu

// mapBytes returns n zero bytes, aligned to 64.
func mapBytes(n int) ([]byte, error) { return heapBytes(n), nil }

// unmapBytes leaves b to the garbage collector.
func unmapBytes([]byte) {}

// hugePages is false: these systems choose page sizes themselves.
func hugePages() bool { return false }

// adviseHuge does nothing: these systems choose page sizes themselves.
func adviseHuge([]byte) {}
