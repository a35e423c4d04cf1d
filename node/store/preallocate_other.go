//go:build !linux

package store

import "os"

// preallocate takes so many bytes of disk.
func preallocate(file *os.File, size int64) error { return writeZeros(file, size) }
