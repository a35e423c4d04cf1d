package engine

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

// NewID returns prefix, the time in milliseconds and 72 random bits, lower
// case: the form of message, tool call and request ids. Ids made later sort
// later, so that rows with them go to the end of an index.
func NewID(prefix string) string {
	var b [15]byte
	binary.BigEndian.PutUint64(b[:8], uint64(time.Now().UnixMilli())<<16)
	rand.Read(b[6:])  // never fails: the runtime aborts instead
	var text [24]byte // 15 bytes, 5 bits to a letter
	idEncoding.Encode(text[:], b[:])
	return prefix + string(text[:])
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

func newToolID() string { return NewID("toolu_") }

func newSeed() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}
