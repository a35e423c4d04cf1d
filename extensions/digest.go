package extensions

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// digestPrefix stands before the hex of a module file's SHA-256.
const digestPrefix = "sha256:"

func digestOf(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// Abbreviate is a digest for people: twelve of its digits, which every call that names a module takes. A native policy's name,
// which has no other form, stays whole.
func Abbreviate(digest string) string {
	if short := shortDigest(digest); short != digest {
		return strings.TrimPrefix(short, digestPrefix)
	}
	return digest
}

// shortDigest is enough of a digest to tell modules apart.
func shortDigest(digest string) string {
	if len(digest) > len(digestPrefix)+12 && digest[:len(digestPrefix)] == digestPrefix {
		return digest[:len(digestPrefix)+12]
	}
	return digest
}

// isDigest says whether text is the digest of a module file.
func isDigest(text string) bool {
	hex, ok := strings.CutPrefix(text, digestPrefix)
	return ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}
