//go:build unix

package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapMemory is the system's. Tests refuse in its place.
var mapMemory = unix.Mmap

// mapBytes returns n zero bytes of their own, outside the Go heap: page
// aligned, and really given back by unmapBytes.
func mapBytes(n int) ([]byte, error) {
	b, err := mapMemory(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("%w: %d bytes (%w); see ulimit -v, LimitAS= and vm.overcommit_memory", ErrMemory, n, err)
	}
	if n >= hugeMin {
		adviseHuge(b)
	}
	return b, nil
}

// unmapBytes gives back what mapBytes returned.
func unmapBytes(b []byte) {
	if err := unix.Munmap(b); err != nil {
		panic(fmt.Sprintf("unmap %d bytes: %v", len(b), err))
	}
}
