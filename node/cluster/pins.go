package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"math/big"
	"sync"
	"time"
)

// NewPinned makes a certificate for one life of a node, and its pin. Nobody signs it: other nodes know
// it by its hash, which the node's report has.
func NewPinned() (*tls.Config, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-24 * time.Hour), NotAfter: now.AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", err
	}
	pair := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
	return config, pinOf(der), nil
}

func pinOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// errPin says that a node shows another certificate than its report names.
var errPin = errors.New("the certificate is not the one that the node reported")

// Pins are the hashes of other nodes' certificates, as their reports name them. The zero value knows none.
type Pins struct {
	mu  sync.Mutex
	all map[string]string // by base URL. Guarded by mu
}

// Set replaces all of them. They are by base URL, and not changed any more.
func (p *Pins) Set(all map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = all
}

// Check is how the certificate of a node at a base URL is checked: by its pin, whatever it says.
func (p *Pins) Check(base string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			p.mu.Lock()
			want := p.all[base]
			p.mu.Unlock()
			if len(s.PeerCertificates) == 0 || want == "" || pinOf(s.PeerCertificates[0].Raw) != want {
				return errPin
			}
			return nil
		}}
}
