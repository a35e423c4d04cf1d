package engine

import (
	"crypto/hmac"
	"crypto/sha256"
	"testing"
)

// signature is the finished one of a text.
func signature(s Signer, text string) []byte {
	h := s.MAC()
	h.Write([]byte(text))
	return h.Sum(nil)
}

// TestSignatureIsBound: it is the HMAC-SHA256 of account, model and text, and of
// another of any of them, or the same letters parted elsewhere, it is another.
func TestSignatureIsBound(t *testing.T) {
	secret := []byte("secret")
	reference := hmac.New(sha256.New, secret)
	reference.Write([]byte("acct\x00model\x00hm"))
	want := reference.Sum(nil)
	for range 2 {
		if got := signature(Signer{secret, "acct", "model"}, "hm"); !hmac.Equal(got, want) {
			t.Errorf("signed %x, want %x", got, want)
		}
	}
	for name, got := range map[string][]byte{
		"secret":                signature(Signer{[]byte("other"), "acct", "model"}, "hm"),
		"account":               signature(Signer{secret, "acct2", "model"}, "hm"),
		"model":                 signature(Signer{secret, "acct", "model-mini"}, "hm"),
		"text":                  signature(Signer{secret, "acct", "model"}, "hm."),
		"end of the account":    signature(Signer{secret, "acctm", "odel"}, "hm"),
		"beginning of the text": signature(Signer{secret, "acct", "mode"}, "lhm"),
	} {
		if hmac.Equal(got, want) {
			t.Errorf("another %s has the same signature", name)
		}
	}
}
