package server

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"corenode/node/operators"
)

// Config bounds the front end. Fields that name a key of the configuration have no default: the key has.
type Config struct {
	// BodyMax is limits.body_bytes_max: the most bytes of one request body, as sent and decoded.
	BodyMax int64
	// BodiesMax is limits.body_bytes_total: the most bytes of all bodies being read or parsed at once,
	// at least BodyMax; over it a request is 503.
	BodiesMax int64
	// HeaderMax is limits.header_bytes_max: the most bytes of request line and headers.
	HeaderMax int
	// ReadTimeout is limits.header_timeout: how long headers may take, and how long a body may go without
	// 64 KiB of progress.
	ReadTimeout time.Duration
	// BodyTimeout is limits.body_timeout: how long a whole body may take.
	BodyTimeout time.Duration
	// IdleTimeout is limits.idle_timeout: it closes a connection without a request.
	IdleTimeout time.Duration
	// StallTimeout is limits.slow_reader_cancel: it cancels a stream whose reader has taken nothing for so long.
	StallTimeout time.Duration
	// RequestTimeout is limits.nonstreaming_timeout: the wall clock of a request that does not stream; over it the
	// answer is 504.
	RequestTimeout time.Duration
	// KeepAlive is limits.keepalive: the longest silence of a stream.
	KeepAlive time.Duration
	// ProxyPause is how long behind its request the head of a stream leaves at the earliest where a proxy passed
	// the request on. Default 5 ms.
	ProxyPause time.Duration
	// WatchEvery is how often sockets are asked whether their client left. Default 250 ms.
	WatchEvery time.Duration
	// PreparesMax is limits.prepare_concurrency: how many requests may be parsed and tokenized at once; over it a
	// request is 503.
	PreparesMax int
	// ConnectionsMax is limits.connections_max: the most open connections of either side; over it one is told 503.
	ConnectionsMax int
	// LedgerWait is how long a request that fails waits for the engine to let go of it, and for the ledger: for its row,
	// and for what was charged to be taken back. One whose client has left waits for the engine as long as that takes.
	// Half of DrainGrace at most. Default 5 s.
	LedgerWait time.Duration
	// DrainGrace is how long requests may take to end once a drain's deadline has passed. Default 10 s.
	DrainGrace time.Duration
	// CORSOrigins are the origins whose pages may call the public listener from a
	// browser, until SetCORS; "*" is all of them. Default none.
	CORSOrigins []string
	// PeerKeys are the ids of keys that other nodes forward requests with, until SetPeerKeys.
	PeerKeys []string
	// ClusterToken is the secret with which the nodes of a database forward requests to each other, by
	// ServeNodes; empty takes none.
	ClusterToken string
	// Operators may use the admin listener beside AdminToken, until SetOperators.
	Operators []operators.Operator
	// NameServedModel makes answers name the model that a rewrite module chose, and not the
	// one that the client asked for.
	NameServedModel bool
	// Certificate encrypts the public listener, AdminCertificate the admin listener; nil is plain.
	Certificate, AdminCertificate *Certificate
	// AdminToken is the node's own bearer token of the admin listener, until SetOperators. Required to serve it.
	AdminToken string
}

func (c Config) withDefaults() Config {
	c.ProxyPause = cmp.Or(c.ProxyPause, 5*time.Millisecond)
	c.WatchEvery = cmp.Or(c.WatchEvery, 250*time.Millisecond)
	c.DrainGrace = cmp.Or(c.DrainGrace, 10*time.Second)
	c.LedgerWait = cmp.Or(c.LedgerWait, c.DrainGrace/2)
	return c
}

// Validate names every field without a default that is missing.
func (c Config) Validate() error {
	var errs []error
	for _, bound := range []struct {
		name  string
		value int64
	}{
		{"BodyMax", c.BodyMax}, {"BodiesMax", c.BodiesMax}, {"HeaderMax", int64(c.HeaderMax)}, {"ReadTimeout", int64(c.ReadTimeout)},
		{"BodyTimeout", int64(c.BodyTimeout)}, {"IdleTimeout", int64(c.IdleTimeout)}, {"StallTimeout", int64(c.StallTimeout)},
		{"RequestTimeout", int64(c.RequestTimeout)}, {"KeepAlive", int64(c.KeepAlive)},
		{"PreparesMax", int64(c.PreparesMax)}, {"ConnectionsMax", int64(c.ConnectionsMax)},
	} {
		if bound.value < 1 {
			errs = append(errs, fmt.Errorf("server: %s is %d, want more than 0", bound.name, bound.value))
		}
	}
	return errors.Join(errs...)
}
