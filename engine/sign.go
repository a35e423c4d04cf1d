package engine

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"hash"
	"time"

	"corenode/wasm/abi"
)

// Signer signs the thinking text of one account and model, so that a thinking
// block can be told from one that somebody else wrote.
type Signer struct {
	Secret         []byte // the node's
	Account, Model string
}

// MAC starts the signature of one thinking block: HMAC-SHA256 over account,
// model and the text, each part ended by a zero byte but the last.
func (s Signer) MAC() hash.Hash {
	h := hmac.New(sha256.New, s.Secret)
	h.Write([]byte(s.Account))
	h.Write([]byte{0})
	h.Write([]byte(s.Model))
	h.Write([]byte{0})
	return h
}

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

func invalidf(param, format string, args ...any) *abi.Error {
	msg := fmt.Sprintf(format, args...)
	if param != "" {
		msg = param + ": " + msg
	}
	return &abi.Error{Kind: abi.InvalidRequest, Op: "engine.Prepare", Msg: msg, Param: param}
}
