package main

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream"
	"corenode/node/config"
	"corenode/node/server"
	"corenode/node/store"
)

// peersEvery is how often it is looked which nodes share a model.
const peersEvery = 2 * time.Second

// peers are the nodes that compute for each other, as this one knows them. Without a shared
// model it is empty.
type peers struct {
	listener net.Listener
	secure   *tls.Config // of listener; nil on loopback
	address  string      // the base URL that other nodes know this one by
	pin      string      // of the certificate, in hex; empty on loopback
	token    string      // what nodes show each other, made from a secret of the store

	digests map[string]string       // of the files of shared models, which take time to make
	catalog atomic.Pointer[catalog] // nil until there are models to share; what stands above is written before
	looked  time.Time               // owned by commons.run

	mu   sync.Mutex
	pins map[string]string // of other nodes, by base URL. Guarded by mu
}

// openPeers listens for the nodes that share models with this one.
func (n *node) openPeers() error {
	if n.commons == nil || len(n.cfg.Cluster.ShareModels) == 0 {
		return nil
	}
	p := &n.commons.peers
	secret, err := n.store.Secret("nodes")
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("forward"))
	p.token = hex.EncodeToString(mac.Sum(nil))
	if p.listener, err = bind("cluster.listen", n.cfg.Cluster.Listen); err != nil {
		return err
	}
	n.closers = append(n.closers, func() { p.listener.Close() }) // the server has mostly done it
	address, scheme := cmp.Or(n.cfg.Cluster.Address, p.listener.Addr().String()), "http"
	if host, _, err := net.SplitHostPort(address); err != nil || !net.ParseIP(host).IsLoopback() {
		if p.secure, p.pin, err = newPinned(); err != nil {
			return err
		}
		scheme = "https"
	}
	p.address = scheme + "://" + address
	return nil
}

// newPinned makes a certificate for one life of the node. Nobody signs it: other nodes know it by
// its hash, which the node's report has.
func newPinned() (*tls.Config, string, error) {
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

// check is how the certificate of a node at a base URL is checked: by its pin, whatever it says.
func (p *peers) check(base string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			p.mu.Lock()
			want := p.pins[base]
			p.mu.Unlock()
			if len(s.PeerCertificates) == 0 || want == "" || pinOf(s.PeerCertificates[0].Raw) != want {
				return errPin
			}
			return nil
		}}
}

// shareModels lets other nodes in on the models that the configuration names.
func (n *node) shareModels() error {
	if n.commons == nil || n.commons.peers.listener == nil {
		return nil
	}
	p := &n.commons.peers
	p.digests = map[string]string{}
	for id, e := range n.catalog.engines {
		if !n.cfg.Cluster.Shares(id) {
			continue
		}
		o := sharedOptions(n.cfg, e, p)
		o.Log = n.log
		m, err := upstream.Open(o)
		if err != nil {
			return err
		}
		n.catalog.shared[id], p.digests[id] = m, e.Digest()
	}
	p.catalog.Store(n.catalog)
	return nil
}

func sharedOptions(cfg *config.Config, e *engine.Engine, p *peers) upstream.Options {
	l := cfg.Limits
	return upstream.Options{Info: e.Info(), Own: p.address, Key: p.token, TLS: p.check, Counter: e,
		PrefixAge: l.SessionIdle, QueueMax: l.QueueRequestsMax, QueueTimeout: l.QueueTimeout, ReaderTimeout: l.SlowReaderCancel}
}

// describe says of this node where it shares models, and which.
func (p *peers) describe(r *store.NodeReport) {
	if p.catalog.Load() != nil {
		r.Address, r.Pin, r.Models = p.address, p.pin, p.digests
	}
}

// followPeers makes the replicas of shared models those nodes that are live and have the same file.
func (c *commons) followPeers() error {
	p := &c.peers
	if p.catalog.Load() == nil || time.Since(p.looked) < peersEvery {
		return nil
	}
	p.looked = time.Now()
	reports, err := c.store.Reports()
	if err != nil {
		return err // those that are known stay
	}
	delete(reports, c.id)
	p.follow(reports)
	return nil
}

func (p *peers) follow(reports map[string]store.NodeReport) {
	pins := map[string]string{}
	for _, r := range reports {
		if r.Address != "" && r.Address != p.address {
			pins[r.Address] = r.Pin
		}
	}
	p.mu.Lock()
	p.pins = pins
	p.mu.Unlock()
	for id, m := range p.catalog.Load().shared {
		bases := map[string]bool{}
		for _, r := range reports {
			if r.Models[id] == p.digests[id] && r.Address != p.address && r.Address != "" {
				bases[r.Address] = true
			}
		}
		m.Follow(slices.Sorted(maps.Keys(bases)))
	}
}

// sharedModel is a model whose requests this node's own engine answers, or another node's.
type sharedModel struct {
	*engine.Engine
	far *upstream.Model
}

// Own implements server.Sharer.
func (m sharedModel) Own() server.Model { return m.Engine }

// Prepare implements server.Model: by the own engine, and so that another node can take it.
func (m sharedModel) Prepare(account string, q *messages.Request) (*engine.Request, error) {
	r, err := m.Engine.Prepare(account, q)
	if err == nil {
		r.Payload = m.far.Carry(account, q, r)
	}
	return r, err
}

// serveNodes answers what other nodes forward.
func (n *node) serveNodes() {
	if n.commons == nil || n.commons.peers.listener == nil {
		return
	}
	p := &n.commons.peers
	if err := n.server.ServeNodes(p.listener, p.secure); err != nil {
		n.fail(fmt.Errorf("cluster.listen: %w", err))
	}
}

// clusterToken is what other nodes show; empty where no model is shared.
func (n *node) clusterToken() string {
	if n.commons == nil {
		return ""
	}
	return n.commons.peers.token
}
