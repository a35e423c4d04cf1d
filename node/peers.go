package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"corenode/engine"
	"corenode/engine/upstream"
	"corenode/node/cluster"
	"corenode/node/config"
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

	digests map[string]string       // of the files of replicated models, which take time to make
	catalog atomic.Pointer[catalog] // nil until there are models to share; what stands above is written before
	looked  time.Time               // owned by commons.run
	pins    cluster.Pins            // of other nodes, by base URL
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
		if p.secure, p.pin, err = cluster.NewPinned(); err != nil {
			return err
		}
		scheme = "https"
	}
	p.address = scheme + "://" + address
	return nil
}

// openReplicated lets other nodes in on the models that the configuration names.
func (n *node) openReplicated() error {
	if n.commons == nil || n.commons.peers.listener == nil {
		return nil
	}
	p := &n.commons.peers
	p.digests = map[string]string{}
	for id, e := range n.catalog.engines {
		if !n.cfg.Cluster.Shares(id) {
			continue
		}
		o := replicaOptions(n.cfg, e, p)
		o.Log = n.log
		m, err := upstream.Open(o)
		if err != nil {
			return err
		}
		n.catalog.replicated[id], p.digests[id] = m, e.Digest()
	}
	p.catalog.Store(n.catalog)
	return nil
}

func replicaOptions(cfg *config.Config, e *engine.Engine, p *peers) upstream.Options {
	l := cfg.Limits
	return upstream.Options{Info: e.Info(), Own: p.address, Key: p.token, TLS: p.pins.Check, Counter: e,
		PrefixAge: l.SessionIdle, QueueMax: l.QueueRequestsMax, QueueTimeout: l.QueueTimeout, ReaderTimeout: l.SlowReaderCancel}
}

// describe says of this node where it shares models, and which.
func (p *peers) describe(r *store.NodeReport) {
	if p.catalog.Load() != nil {
		r.Address, r.Pin, r.Models = p.address, p.pin, p.digests
	}
}

// followPeers makes the replicas of replicated models those nodes that are live and have the same file.
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
	p.pins.Set(pins)
	for id, m := range p.catalog.Load().replicated {
		bases := map[string]bool{}
		for _, r := range reports {
			if r.Models[id] == p.digests[id] && r.Address != p.address && r.Address != "" {
				bases[r.Address] = true
			}
		}
		m.Follow(slices.Sorted(maps.Keys(bases)))
	}
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
