// Package libcuda is the device that NVIDIA's driver has: cuda.Driver through
// libcuda.so.1, which is opened at run time and called without cgo.
//
// It is built with the tag cuda, on Linux. Without the tag Open returns an error,
// and the program stays static and knows nothing of dynamic libraries.
//
// A device has a context of its own. Every call makes it current on the thread
// that it runs on, so that a goroutine may move between threads.
package libcuda
