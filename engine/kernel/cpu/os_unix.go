//go:build unix && !linux

package cpu

import "os"

// allocate reserves disk space for [off, off+n) of f.
func allocate(f *os.File, off, n int64) error { return writeZeros(f, off, n) }

// freeBytes is not known: a disk that is too small is found by writing to it.
func freeBytes(*os.File) (n int64, known bool) { return 0, false }

// adviseHuge does nothing: these systems choose page sizes themselves.
func adviseHuge([]byte) {}

// hugePages is false: see adviseHuge.
func hugePages() bool { return false }
