package extensions

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"corenode/extensions/guest"
)

// signatureContext stands before the digest in what is signed, so that a
// signature for something else never fits a module.
const signatureContext = "corenode-module/1\n"

// SignedMessage is what a module's signature is made over: a fixed context and
// the SHA-256 of the file.
func SignedMessage(module []byte) []byte {
	digest := sha256.Sum256(module)
	return append([]byte(signatureContext), digest[:]...)
}

// Sign makes the detached signature of a module, 64 bytes.
func Sign(key ed25519.PrivateKey, module []byte) []byte {
	return ed25519.Sign(key, SignedMessage(module))
}

// signedMessage is SignedMessage of the file with that digest.
func signedMessage(digest string) []byte {
	sum, _ := hex.DecodeString(strings.TrimPrefix(digest, digestPrefix))
	return append([]byte(signatureContext), sum...)
}

// signer returns the trusted key that signed the module with a digest, in base64 as the configuration has it. Without a
// signature it is empty; one that no trusted key made is an error.
func signer(trusted []ed25519.PublicKey, digest string, signature []byte) (string, error) {
	if len(signature) == 0 {
		return "", nil
	}
	raw := signature
	if len(raw) != ed25519.SignatureSize { // as text, for files that people handle
		var err error
		if raw, err = base64.StdEncoding.DecodeString(strings.TrimSpace(string(signature))); err != nil ||
			len(raw) != ed25519.SignatureSize {
			return "", guest.Refused("signature", "make the signature with: corenode module sign",
				"the signature is %d bytes, want %d bytes or their base64", len(signature), ed25519.SignatureSize)
		}
	}
	message := signedMessage(digest)
	for _, key := range trusted {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, message, raw) {
			return base64.StdEncoding.EncodeToString(key), nil
		}
	}
	return "", &guest.LoadError{Stage: "signature", Err: ErrNotSigned,
		Reason: "no trusted key made this signature for these bytes",
		Fix: "sign the file as it is with a key whose public half is in modules.trusted_keys, " +
			"or remove the .sig where modules.allow_unsigned is set"}
}
