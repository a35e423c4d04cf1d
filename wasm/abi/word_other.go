//go:build !wasm

package abi

import "encoding/binary"

// Uint32 reads the word at b[at:], which must be within b.
func Uint32(b []byte, at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }

// Uint64 reads the word at b[at:], which must be within b.
func Uint64(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// PutUint64 writes the word at b[at:], which must be within b.
func PutUint64(b []byte, at int, v uint64) { binary.LittleEndian.PutUint64(b[at:], v) }

// Ahead is how far behind what they copy Copy and CopyShort may read and write.
const Ahead = 0

// AheadShort is how far behind it CopyShort may read.
const AheadShort = 0

// Copy copies src[from:from+n] to dst[at:]. Both must have Ahead bytes more, of which those
// of dst may change.
func Copy(dst []byte, at int, src []byte, from, n int) { copy(dst[at:at+n], src[from:from+n]) }

// CopyShort is Copy where n is most often small. src needs only AheadShort bytes more.
func CopyShort(dst []byte, at int, src []byte, from, n int) { copy(dst[at:at+n], src[from:from+n]) }
