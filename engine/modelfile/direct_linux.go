package modelfile

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openDirect opens a file to be read past the system's memory.
func openDirect(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
}

// resident says whether the system has most of a part of a mapping in its memory, as far as it
// tells: of a file that is not ours, it says so of all. The part begins at a page.
func resident(part []byte) bool {
	if len(part) == 0 {
		return true
	}
	page := os.Getpagesize()
	has := make([]byte, (len(part)+page-1)/page)
	_, _, failed := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&part[0])), uintptr(len(part)), uintptr(unsafe.Pointer(&has[0])))
	if failed != 0 {
		return true
	}
	n := 0
	for _, b := range has {
		n += int(b & 1)
	}
	return 2*n > len(has)
}
