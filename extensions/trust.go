package extensions

import (
	"crypto/ed25519"
	"fmt"

	"corenode/extensions/guest"
)

// trust says whose modules a host takes, and which of them it does not. It is immutable.
type trust struct {
	keys     []ed25519.PublicKey
	denied   []Denial
	unsigned bool // modules without a signature are taken
}

// denial refuses a module that modules.denied covers. m is nil while its manifest is not known.
func (t *trust) denial(digest string, m *guest.Manifest) error {
	for _, d := range t.denied {
		if d.covers(digest, m) {
			return &guest.LoadError{Stage: "denied", Err: ErrDenied, Reason: fmt.Sprintf("modules.denied has %q", d),
				Fix: "use a version that is not denied, or take the entry out of modules.denied " +
					"and let the node read its configuration again"}
		}
	}
	return nil
}

// denialOf says why a module is denied, nil if it is not.
func (t *trust) denialOf(m *module) error {
	var manifest *guest.Manifest
	if m.known || m.generation != nil {
		manifest = &m.manifest
	}
	return t.denial(m.digest, manifest)
}

// checkSigner says who signed a module, and refuses one without a signature
// where that is not allowed.
func (t *trust) checkSigner(digest string, signature []byte) (signedBy string, err error) {
	if signedBy, err = signer(t.keys, digest, signature); err != nil {
		return "", err
	}
	if signedBy == "" && !t.unsigned {
		return "", &guest.LoadError{Stage: "signature", Err: ErrNotSigned, Reason: "the module is not signed",
			Fix: "sign it with: corenode module sign, or set modules.allow_unsigned on a node for development"}
	}
	return signedBy, nil
}
