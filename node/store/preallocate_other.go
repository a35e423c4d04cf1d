//go:build !linux

package store

import "os"

// freeBytes does not know.
func freeBytes(*os.File) (n int64, known bool) { return 0, false }

// preallocate takes so many bytes of disk.
func preallocate(file *os.File, size int64) error { return writeZeros(file, size) }
