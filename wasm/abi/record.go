package abi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unsafe"
)

// ErrMalformed means that bytes are not the record or frame they should be.
var ErrMalformed = errors.New("malformed record")

// Records are little endian. A text or a section is its length as u32 and its
// bytes; the last one of a record may go without length, up to the end.

func appendText(dst []byte, s string) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

func appendSection(dst, s []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

func appendU32(dst []byte, n uint32) []byte { return binary.LittleEndian.AppendUint32(dst, n) }

func appendInts(dst []byte, all ...int64) []byte {
	for _, n := range all {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	}
	return dst
}

// flag is how a bool is written.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func appendUnit(dst []byte, s string) []byte {
	var unit [UnitBytes]byte
	copy(unit[:], s)
	return append(dst, unit[:]...)
}

// Functions that read know where they are in a record by at, which is -1 behind what is not
// whole. Texts of inputs are strings without a copy: they change when the record does. What
// comes from a guest is always copied.

// room says whether there are n bytes at b[at:].
func room(b []byte, at, n int) bool { return at >= 0 && n <= len(b)-at }

// tagged says whether a record begins with the eight bytes that name it and its layout.
func tagged(b []byte, tag string) bool { return len(b) >= len(tag) && string(b[:len(tag)]) == tag }

func uint16At(b []byte, at int) uint16 { return binary.LittleEndian.Uint16(b[at:]) }

func unitAt(b []byte, at int) string {
	unit, _, _ := bytes.Cut(b[at:at+UnitBytes], []byte{0})
	return string(unit)
}

func aliased(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// sectionAt is the section at b[at:] and where it ends, which is negative where
// there is none, or where at is.
func sectionAt(b []byte, at int) (section []byte, end int) {
	if at < 0 || at > len(b)-4 {
		return nil, -1
	}
	n := Uint32(b, at)
	at += 4
	if uint64(n) > uint64(len(b)-at) {
		return nil, -1
	}
	end = at + int(n)
	return b[at:end:end], end
}
