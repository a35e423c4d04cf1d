//go:build unix

package modelfile

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a regular file read-only. release unmaps it; it is nil for an
// empty file, which has nothing to map.
func mapFile(path string) (data []byte, release func() error, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close() // a mapping outlives its descriptor
	size, err := regularSize(file)
	if err != nil || size == 0 {
		return nil, nil, err
	}
	if size > math.MaxInt {
		return nil, nil, fmt.Errorf("%s has %d bytes, more than this platform can map", path, size)
	}
	data, err = unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	return data, func() error { return unix.Munmap(data) }, nil
}

// releasePages takes the pages of a mapping out of this process.
func releasePages(data []byte) { unix.Madvise(data, unix.MADV_DONTNEED) } // an aid: what it cannot do costs memory only

// adviseRandom says that single pages of a mapping will be read, around which the system would else read
// megabytes, or that this is over.
func adviseRandom(data []byte, random bool) {
	advice := unix.MADV_NORMAL
	if random {
		advice = unix.MADV_RANDOM
	}
	unix.Madvise(data, advice) // an aid
}
