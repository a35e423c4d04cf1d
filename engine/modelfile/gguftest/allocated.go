package gguftest

import "runtime"

// Allocated is how many bytes a call takes from the heap, given back or not. Nothing else may
// run beside it.
func Allocated(call func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}
