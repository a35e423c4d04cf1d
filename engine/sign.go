package engine

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
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
