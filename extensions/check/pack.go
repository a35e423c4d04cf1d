package check

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"corenode/extensions"
	"corenode/extensions/guest"
	"corenode/extensions/meter"
	"corenode/extensions/vector"
)

// Pack gives a module its manifest and, unless vectors is nil, its golden
// vectors, in place of those it has.
func Pack(module, manifest, vectors []byte) ([]byte, error) {
	m, err := guest.ParseManifest(manifest)
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, manifest); err != nil {
		return nil, err
	}
	module, err = meter.WithCustomSection(module, "corenode.manifest", compact.Bytes())
	if err != nil || vectors == nil {
		return module, err
	}
	all, err := vector.Parse(vectors)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := all[i].CheckRoute(len(m.Routes)); err != nil {
			return nil, fmt.Errorf("vector %q: %w", all[i].Name, err)
		}
	}
	return meter.WithCustomSection(module, "corenode.vectors", vectors)
}

// keyBlock is the type of a private key's PEM block: PKCS 8, as other tools
// write and read it.
const keyBlock = "PRIVATE KEY"

// NewKey makes a key that signs modules: the private one as PEM text, and the
// public one as modules.trusted_keys takes it.
func NewKey() (private []byte, public string, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, "", err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), base64.StdEncoding.EncodeToString(pub), nil
}

// ParseKey reads what NewKey made.
func ParseKey(private []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(private)
	if block == nil || block.Type != keyBlock {
		return nil, errors.New("it is no private key: make one with corenode module keygen")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, is := parsed.(ed25519.PrivateKey)
	if !is {
		return nil, fmt.Errorf("it is a %T, want an ed25519 key", parsed)
	}
	return key, nil
}

// Sign makes the text of a signature file. What is no WebAssembly module is
// not signed: a wrong file name is the usual reason.
func Sign(key ed25519.PrivateKey, module []byte) ([]byte, error) {
	if _, err := meter.Inspect(module); err != nil {
		return nil, fmt.Errorf("it is no module: %w", err)
	}
	return []byte(base64.StdEncoding.EncodeToString(extensions.Sign(key, module)) + "\n"), nil
}
