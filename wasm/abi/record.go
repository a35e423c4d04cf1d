package abi

import (
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

// cursor reads a record from its front. After the first malformed field it
// yields zero values, and err says so.
type cursor struct {
	b   []byte
	err error
}

// take returns the next n bytes, which alias the record, or nil.
func (c *cursor) take(n int) []byte {
	if c.err != nil || n < 0 || n > len(c.b) {
		c.err = ErrMalformed
		return nil
	}
	head := c.b[:n:n]
	c.b = c.b[n:]
	return head
}

func (c *cursor) u8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) i64() int64 {
	if b := c.take(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

func (c *cursor) section() []byte {
	n := c.u32()
	if c.err != nil || int64(n) > int64(len(c.b)) {
		c.err = ErrMalformed
		return nil
	}
	return c.take(int(n))
}

func (c *cursor) text() string { return string(c.section()) }

// aliasedText and aliasedRest are strings without a copy, for inputs: they
// change when the record does. What comes from a guest is always copied.
func (c *cursor) aliasedText() string { return aliased(c.section()) }

func (c *cursor) aliasedRest() string { return aliased(c.rest()) }

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

// rest takes all that is left.
func (c *cursor) rest() []byte { return c.take(len(c.b)) }

// end makes bytes that are left an error.
func (c *cursor) end() error {
	if c.err == nil && len(c.b) > 0 {
		c.err = ErrMalformed
	}
	return c.err
}

// tag takes the eight bytes that name a record and its layout.
func (c *cursor) tag(want string) {
	if got := c.take(len(want)); c.err == nil && string(got) != want {
		c.err = ErrMalformed
	}
}
