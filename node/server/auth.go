package server

import (
	"bytes"
	"crypto/subtle"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"corenode/actors/account"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// credential takes the secret out of the headers. Where both styles are
// allowed, Authorization wins even when it is wrong. A header given twice is
// refused: what a proxy checked might not be what we read. The secret is part
// of the headers: it is as short-lived as they are.
func credential(h *fasthttp.RequestHeader, f family) ([]byte, *abi.Error) {
	authorization := h.PeekAll(fasthttp.HeaderAuthorization)
	if len(authorization) > 1 {
		return nil, unauthenticated("the Authorization header is given more than once")
	}
	if len(authorization) == 1 {
		return bearer(authorization[0])
	}
	if f == familyChat {
		return nil, unauthenticated("no API key: send Authorization: Bearer <API_KEY>")
	}
	keys := h.PeekAll("X-Api-Key")
	switch {
	case len(keys) > 1:
		return nil, unauthenticated("the x-api-key header is given more than once")
	case len(keys) == 0 || len(keys[0]) == 0:
		return nil, unauthenticated("no API key: send x-api-key: <API_KEY> or Authorization: Bearer <API_KEY>")
	}
	return keys[0], nil
}

// bearer takes the secret out of an Authorization value.
func bearer(value []byte) ([]byte, *abi.Error) {
	scheme, secret, _ := bytes.Cut(value, []byte{' '})
	secret = bytes.TrimSpace(secret)
	if !bytes.EqualFold(scheme, []byte("Bearer")) || len(secret) == 0 {
		return nil, unauthenticated("the Authorization header is not Bearer <API_KEY>")
	}
	return secret, nil
}

func unauthenticated(msg string) *abi.Error {
	return &abi.Error{Kind: abi.Unauthenticated, Op: "server.authenticate", Msg: msg}
}

// identify decides who is calling from the headers alone.
func (s *Server) identify(h *fasthttp.RequestHeader, r *resource, now time.Time) (*Identity, *abi.Error) {
	var secret []byte
	var refusal *abi.Error
	if r.module != nil {
		secret, refusal = r.module.credential(h)
	} else {
		secret, refusal = credential(h, r.family)
	}
	if refusal != nil {
		return nil, refusal
	}
	if who := s.clusterPeer(secret, h); who != nil {
		return who, nil
	}
	who, ok := s.deps.Keys.Lookup(secret, now)
	if !ok {
		return nil, unauthenticated("invalid API key")
	}
	return s.keyPeer(who, h), nil
}

// peerConcurrency is what bounds the requests of a node that forwards: its own limits.
const peerConcurrency = 1 << 30

// clusterName is the key of a node of the same database, and the name of each account, in the log.
const clusterName = "cluster"

// SetPeerKeys says which keys other nodes forward requests with, from now on.
func (s *Server) SetPeerKeys(ids []string) { s.peerKeys.Store(&ids) }

// keyPeer is who calls, as the node that it is, if its key is another node's and it says for
// which of its accounts it asks.
func (s *Server) keyPeer(who *Identity, h *fasthttp.RequestHeader) *Identity {
	if !slices.Contains(*s.peerKeys.Load(), who.KeyID) {
		return who
	}
	partition := h.Peek(wire.PartitionHeader)
	if len(partition) == 0 || len(partition) > 128 {
		return who
	}
	node, owner := *who, *who.Account
	owner.Concurrency = peerConcurrency
	node.Account, node.Peer = &owner, account.KeyPeer(string(partition))
	return &node
}

// clusterPeer is who calls, if that is a node of the same database. It names the account itself, so that
// the request finds what the account's own requests left in the cache here.
func (s *Server) clusterPeer(secret []byte, h *fasthttp.RequestHeader) *Identity {
	if len(s.cfg.ClusterToken) == 0 || subtle.ConstantTimeCompare(secret, []byte(s.cfg.ClusterToken)) != 1 {
		return nil
	}
	partition := h.Peek(wire.PartitionHeader)
	if len(partition) == 0 || len(partition) > 128 {
		return nil
	}
	return &Identity{KeyID: clusterName, Peer: account.ClusterPeer(),
		Account: &account.Account{ID: string(partition), Name: clusterName, Unlimited: true, Concurrency: peerConcurrency}}
}

// priority is what a node says of a request that it forwards. A client's own word counts for nothing.
func (who *Identity) priority(h *fasthttp.RequestHeader) int8 {
	if !who.Peer.Forwards() {
		return 0
	}
	n, err := strconv.ParseInt(string(h.Peek(wire.PriorityHeader)), 10, 8)
	if err != nil {
		return 0 // it has none, or says what is none
	}
	return int8(n)
}

// authenticate remembers who is calling. A node of the same database calls where nodes ask, and is nobody elsewhere:
// the headers alone do not say where they came.
func (x *exchange) authenticate() *abi.Error {
	who, err := x.s.identify(&x.ctx.Request.Header, &x.resource, x.begun)
	if err != nil {
		return err
	}
	if who.Peer == account.ClusterPeer() && !x.conn.ofNodes {
		return unauthenticated("invalid API key")
	}
	x.who = who
	return nil
}

// optionalKey authenticates an answer that needs no key, so that a caller who
// sent a good one gets its rate-limit headers and is named in the log.
func (x *exchange) optionalKey() { _ = x.authenticate() } // a bad one changes nothing
