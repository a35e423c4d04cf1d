package server

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"corenode/node/operators"
)

// Config bounds the front end. A zero field takes its default.
type Config struct {
	// BodyMax is the most bytes of one request body, as sent and decoded. Default 32 MiB.
	BodyMax int64
	// BodiesMax is the most bytes of all bodies being read or parsed at once; over it
	// a request is 503. Default 512 MiB; at least BodyMax.
	BodiesMax int64
	// HeaderMax is the most bytes of request line and headers. Default 16 KiB.
	HeaderMax int
	// ReadTimeout is how long headers may take, and how long a body may go without
	// 64 KiB of progress. Default 10 s.
	ReadTimeout time.Duration
	// BodyTimeout is how long a whole body may take. Default 5 min.
	BodyTimeout time.Duration
	// IdleTimeout closes a connection without a request. Default 75 s.
	IdleTimeout time.Duration
	// WriteTimeout is how long writing an answer that is not a stream may take. Default 60 s.
	WriteTimeout time.Duration
	// StallTimeout cancels a stream whose reader has taken nothing for so long. Default 5 min.
	StallTimeout time.Duration
	// RequestTimeout is the wall clock of a request that does not stream; over it the
	// answer is 504. Default 600 s.
	RequestTimeout time.Duration
	// KeepAlive is the longest silence of a stream. Default 10 s.
	KeepAlive time.Duration
	// WatchEvery is how often sockets are asked whether their client left. Default 250 ms.
	WatchEvery time.Duration
	// PreparesMax is how many requests may be parsed and tokenized at once; over it a
	// request is 503. Default 64.
	PreparesMax int
	// ConnectionsMax is the most open connections of either side; over it one is told 503. Default 16384.
	ConnectionsMax int
	// LedgerWait is how long a request that fails waits for the ledger: for its row,
	// and for what was charged to be taken back. Half of DrainGrace at most. Default 5 s.
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
	c.BodyMax = cmp.Or(c.BodyMax, 32<<20)
	c.BodiesMax = cmp.Or(c.BodiesMax, 512<<20)
	c.HeaderMax = cmp.Or(c.HeaderMax, 16<<10)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 10*time.Second)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, 5*time.Minute)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 75*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, time.Minute)
	c.StallTimeout = cmp.Or(c.StallTimeout, 5*time.Minute)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 600*time.Second)
	c.KeepAlive = cmp.Or(c.KeepAlive, 10*time.Second)
	c.WatchEvery = cmp.Or(c.WatchEvery, 250*time.Millisecond)
	c.PreparesMax = cmp.Or(c.PreparesMax, 64)
	c.ConnectionsMax = cmp.Or(c.ConnectionsMax, 16384)
	c.DrainGrace = cmp.Or(c.DrainGrace, 10*time.Second)
	c.LedgerWait = cmp.Or(c.LedgerWait, c.DrainGrace/2)
	return c
}

// Validate runs after defaults and reports every problem at once.
func (c Config) Validate() error {
	var errs []error
	for _, bound := range []struct {
		name  string
		value int64
	}{
		{"BodyMax", c.BodyMax}, {"HeaderMax", int64(c.HeaderMax)}, {"ReadTimeout", int64(c.ReadTimeout)},
		{"BodyTimeout", int64(c.BodyTimeout)}, {"IdleTimeout", int64(c.IdleTimeout)}, {"WriteTimeout", int64(c.WriteTimeout)},
		{"StallTimeout", int64(c.StallTimeout)}, {"RequestTimeout", int64(c.RequestTimeout)}, {"KeepAlive", int64(c.KeepAlive)},
		{"WatchEvery", int64(c.WatchEvery)}, {"PreparesMax", int64(c.PreparesMax)}, {"ConnectionsMax", int64(c.ConnectionsMax)},
		{"LedgerWait", int64(c.LedgerWait)}, {"DrainGrace", int64(c.DrainGrace)},
	} {
		if bound.value < 0 {
			errs = append(errs, fmt.Errorf("server: %s is %d, want more than 0", bound.name, bound.value))
		}
	}
	if c.BodiesMax < c.BodyMax {
		errs = append(errs, fmt.Errorf("server: BodiesMax is %d, want at least BodyMax (%d)", c.BodiesMax, c.BodyMax))
	}
	return errors.Join(errs...)
}
