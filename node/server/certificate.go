package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Certificate is the pair that a listener shows, from two files that may be replaced while it
// is used: connections that begin then see the new one. It is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string

	mu      sync.Mutex // one look at the files at a time
	current atomic.Pointer[tls.Certificate]
	config  *tls.Config // one for all connections: its keys of session tickets are theirs
}

// OpenCertificate reads a certificate chain and its key, in PEM.
func OpenCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	pair, err := c.read()
	if err != nil {
		return nil, err
	}
	c.current.Store(pair)
	c.config = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil }}
	return c, nil
}

func (c *Certificate) read() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("certificate %s: %w", c.certFile, err)
		}
	}
	return &pair, nil
}

// Reload takes what is in the files now, and says whether that is another chain. before is
// called with the leaf that comes, and must not fail. A pair that cannot be used changes nothing.
func (c *Certificate) Reload(before func(leaf *x509.Certificate)) (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pair, err := c.read()
	if err != nil {
		return false, err
	}
	if slices.EqualFunc(pair.Certificate, c.current.Load().Certificate, bytes.Equal) {
		return false, nil
	}
	before(pair.Leaf)
	c.current.Store(pair)
	return true, nil
}

// Leaf is the certificate that is shown now.
func (c *Certificate) Leaf() *x509.Certificate { return c.current.Load().Leaf }

// Pinned is how the node itself reaches the listener: it takes the certificate that is shown at that moment and no
// other, whomever that names and whoever signed it. It is nil without a certificate.
func (c *Certificate) Pinned() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // what follows is stricter
		VerifyConnection: func(s tls.ConnectionState) error {
			if !bytes.Equal(s.PeerCertificates[0].Raw, c.Leaf().Raw) {
				return errors.New("the certificate is not the one that this node shows")
			}
			return nil
		}}
}

// shown is how a listener encrypts its connections; nil leaves them as they are.
func (c *Certificate) shown() *tls.Config {
	if c == nil {
		return nil
	}
	return c.config
}
