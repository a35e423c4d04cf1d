//go:build !unix

package cpu

// mapBytes returns n zero bytes, aligned to 64.
func mapBytes(n int) []byte { return heapBytes(n) }

// unmapBytes leaves b to the garbage collector.
func unmapBytes([]byte) {}

// adviseHuge does nothing: these systems choose page sizes themselves.
func adviseHuge([]byte) {}
