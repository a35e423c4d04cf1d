//go:build unix

package guest

import "golang.org/x/sys/unix"

// reserve maps n bytes that cost nothing until they are touched. Where the
// address space is limited it may give none: nil.
func reserve(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

func release(b []byte) {
	if b != nil {
		_ = unix.Munmap(b) // of a whole mapping of ours: it cannot fail
	}
}
