package abi

import "unsafe"

// Wasm is little endian, and its words need not be aligned. The compiler does
// not join the bytes of a word into one access here, as it does elsewhere.

// Uint32 reads the word at b[at:], which must be within b. at is not negative.
func Uint32(b []byte, at int) uint32 {
	_ = b[at+3]
	return *(*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), at))
}

// Uint64 reads the word at b[at:], which must be within b. at is not negative.
func Uint64(b []byte, at int) uint64 {
	_ = b[at+7]
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), at))
}

// PutUint64 writes the word at b[at:], which must be within b. at is not negative.
func PutUint64(b []byte, at int, v uint64) {
	_ = b[at+7]
	*(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), at)) = v
}

// Ahead is how far behind what it copies Copy may read and write.
const Ahead = 512

// AheadShort is how far behind it CopyShort may read.
const AheadShort = 16

// Copy copies src[from:from+n] to dst[at:]. Both must have Ahead bytes more, of which those
// of dst may change. Up to Ahead bytes are copied at once, without a call.
func Copy(dst []byte, at int, src []byte, from, n int) {
	to, of := unsafe.Add(unsafe.Pointer(unsafe.SliceData(dst)), at), unsafe.Add(unsafe.Pointer(unsafe.SliceData(src)), from)
	*(*block)(to) = *(*block)(of)
	if n > Ahead {
		copy(unsafe.Slice((*byte)(to), n), unsafe.Slice((*byte)(of), n))
	}
}

// CopyShort is Copy where most often n is at most 16. src needs only AheadShort bytes more.
func CopyShort(dst []byte, at int, src []byte, from, n int) {
	to, of := unsafe.Add(unsafe.Pointer(unsafe.SliceData(dst)), at), unsafe.Add(unsafe.Pointer(unsafe.SliceData(src)), from)
	*(*short)(to) = *(*short)(of)
	if n > AheadShort {
		copy(unsafe.Slice((*byte)(to), n), unsafe.Slice((*byte)(of), n))
	}
}

// block is a structure because the compiler calls a function for what may overlap, as
// arrays may.
type (
	block struct{ bytes [Ahead]byte }
	short struct{ low, high uint64 }
)
