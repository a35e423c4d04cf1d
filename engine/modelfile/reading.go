package modelfile

import (
	"os"
	"unsafe"
)

// The rows of a large tensor are read by those who pack them, once, each thread into memory of its
// own that stays in its caches. From a mapping they would come with a fault for every few pages,
// and with a copy in the system's memory that nobody reads again. So what the system does not have in
// memory yet is read past it, where it can be.

// readAlign is what memory, offset and length of such a read are multiples of.
var readAlign = max(4096, os.Getpagesize())

// Read returns the bytes of part, which is a part of a tensor's Data or Pieces: in scratch, which
// grows as is needed, or part itself where nothing is better. It is for the time between Prefetch
// and stop, and safe for concurrent use with a scratch each. After one that failed, Failed says so, and what
// was returned is not what the file has.
func (f *File) Read(part []byte, scratch *[]byte) []byte {
	if f.prefetcher == nil {
		return part
	}
	of, offset := f.prefetcher.locate(part)
	if of == nil {
		return part
	}
	skip := offset % readAlign
	size := (skip + len(part) + readAlign - 1) / readAlign * readAlign
	if len(*scratch) < size {
		*scratch = alignedBytes(size)
	}
	n, err := of.read((*scratch)[:size], offset-skip)
	if n < skip+len(part) {
		f.prefetcher.fail(of, err) // to touch the mapping would end the process
	}
	return (*scratch)[skip : skip+len(part)]
}

// alignedBytes is memory that begins at a multiple of readAlign.
func alignedBytes(n int) []byte {
	b := make([]byte, n+readAlign)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (readAlign - 1)
	return b[skip : skip+n : skip+n]
}

// Failed says what could not be read since Prefetch, such as a file that somebody made shorter; nil where all could.
func (f *File) Failed() error {
	if f.prefetcher == nil {
		return nil
	}
	f.prefetcher.mu.Lock()
	defer f.prefetcher.mu.Unlock()
	return f.prefetcher.failed
}

// read fills dst from an offset on, both multiples of readAlign, and says how much there is.
func (of *prefetchFile) read(dst []byte, offset int) (int, error) {
	if of.direct != nil && !resident(of.data[offset:min(offset+len(dst), len(of.data))]) {
		if n, _ := of.direct.ReadAt(dst, int64(offset)); n >= min(len(dst), len(of.data)-offset) {
			return n, nil
		}
	}
	return of.file.ReadAt(dst, int64(offset))
}
