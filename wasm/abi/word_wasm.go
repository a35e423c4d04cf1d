package abi

import "unsafe"

// Wasm is little endian, and its words need not be aligned. The compiler does
// not join the bytes of a word into one access here, as it does elsewhere.

// Uint32 reads the word at b[at:], which must be within b.
func Uint32(b []byte, at int) uint32 {
	_, _ = b[at], b[at+3]
	return *(*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), at))
}

// Uint64 reads the word at b[at:], which must be within b.
func Uint64(b []byte, at int) uint64 {
	_, _ = b[at], b[at+7]
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), at))
}

// PutUint64 writes the word at b[at:], which must be within b.
func PutUint64(b []byte, at int, v uint64) {
	_, _ = b[at], b[at+7]
	*(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), at)) = v
}
