package cpu

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate reserves disk space for [off, off+n) of f.
func allocate(f *os.File, off, n int64) error { return unix.Fallocate(int(f.Fd()), 0, off, n) }
