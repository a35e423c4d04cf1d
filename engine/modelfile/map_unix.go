//go:build unix

package modelfile

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// mapFile maps a regular file read-only. An empty one has nothing to map.
func mapFile(path string) (m mapping, err error) {
	file, info, err := openRegular(path)
	if err != nil {
		return m, err
	}
	defer file.Close() // a mapping outlives its descriptor
	if info.Size() == 0 {
		return m, nil
	}
	if info.Size() > math.MaxInt {
		return m, fmt.Errorf("%s has %d bytes, more than this platform can map", path, info.Size())
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return m, fmt.Errorf("map %s: %w", path, err)
	}
	return mapping{path, info, data, func() error { return unix.Munmap(data) }}, nil
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
