package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// Snapshot is every key at one moment, found by its SHA-256. It is immutable:
// a change of keys or accounts makes a new one. Trouble with the store is
// therefore never a 401.
type Snapshot struct {
	keys map[[sha256.Size]byte]*keyEntry
}

type keyEntry struct {
	Identity
	used atomic.Int64 // Unix seconds of the last use, 0 = none seen
}

// NewSnapshot indexes keys. Keys that can never be valid again (revoked, without
// an account, of a disabled account) are left out.
func NewSnapshot(accounts []account.Account, keys []account.Key) *Snapshot {
	byID := make(map[string]account.Account, len(accounts))
	for _, a := range accounts {
		byID[a.ID] = a
	}
	s := &Snapshot{keys: make(map[[sha256.Size]byte]*keyEntry, len(keys))}
	for _, k := range keys {
		if a, ok := byID[k.AccountID]; ok && !a.Disabled && k.Revoked.IsZero() {
			s.keys[k.Hash] = &keyEntry{Identity: Identity{Key: k, Account: a}}
		}
	}
	return s
}

// Lookup finds the key that a secret is, unless it has expired by now.
func (s *Snapshot) Lookup(secret []byte, now time.Time) (*Identity, bool) {
	if s == nil {
		return nil, false
	}
	hash := sha256.Sum256(secret)
	e, ok := s.keys[hash]
	// The map finds by hash, which an attacker cannot steer; the comparison that
	// decides takes the same time for every secret.
	if !ok || subtle.ConstantTimeCompare(hash[:], e.Key.Hash[:]) != 1 {
		return nil, false
	}
	if !e.Key.Expires.IsZero() && !now.Before(e.Key.Expires) {
		return nil, false
	}
	if sec := now.Unix(); e.used.Load() != sec {
		e.used.Store(sec)
	}
	return &e.Identity, true
}

// Used returns when each key was last seen, for those seen since the snapshot
// was made.
func (s *Snapshot) Used() map[string]time.Time {
	used := map[string]time.Time{}
	if s == nil {
		return used
	}
	for _, e := range s.keys {
		if sec := e.used.Load(); sec != 0 {
			used[e.Key.ID] = time.Unix(sec, 0)
		}
	}
	return used
}

// Directory is the current snapshot. Any goroutine may Swap it; requests that
// are being checked finish on the one they began with.
type Directory struct {
	current atomic.Pointer[Snapshot]
}

// NewDirectory starts with one snapshot; nil knows no key.
func NewDirectory(s *Snapshot) *Directory {
	d := &Directory{}
	d.current.Store(s)
	return d
}

// Swap makes s current and returns the snapshot before it.
func (d *Directory) Swap(s *Snapshot) *Snapshot { return d.current.Swap(s) }

// Snapshot returns the current one.
func (d *Directory) Snapshot() *Snapshot { return d.current.Load() }

// Lookup finds a key in the current snapshot.
func (d *Directory) Lookup(secret []byte, now time.Time) (*Identity, bool) {
	return d.current.Load().Lookup(secret, now)
}

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
func (s *Server) identify(h *fasthttp.RequestHeader, f family, now time.Time) (*Identity, *abi.Error) {
	secret, refusal := credential(h, f)
	if refusal != nil {
		return nil, refusal
	}
	who, ok := s.deps.Keys.Lookup(secret, now)
	if !ok {
		return nil, unauthenticated("invalid API key")
	}
	return who, nil
}

// authenticate remembers who is calling.
func (x *exchange) authenticate() *abi.Error {
	who, err := x.s.identify(&x.ctx.Request.Header, x.family, x.begun)
	if err != nil {
		return err
	}
	x.who, x.authentic = who, true
	return nil
}

// optionalKey authenticates an answer that needs no key, so that a caller who
// sent a good one gets its rate-limit headers and is named in the log.
func (x *exchange) optionalKey() {
	if x.authenticate() != nil {
		x.authentic = false
	}
}
