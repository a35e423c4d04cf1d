package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/engine/messages"
	"corenode/wasm/abi"
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
	// ConnectionsMax is the most open public connections; over it one is told 503. Default 16384.
	ConnectionsMax int
	// LedgerWait is how long a request that fails waits for the ledger: for its row,
	// and for what was charged to be taken back. Half of DrainGrace at most. Default 5 s.
	LedgerWait time.Duration
	// DrainGrace is how long requests may take to end once a drain's deadline has passed. Default 10 s.
	DrainGrace time.Duration
	// CORSOrigins are the origins whose pages may call the public listener from a
	// browser; "*" is all of them. Default none.
	CORSOrigins []string
	// AdminToken is the bearer token of the admin listener. Required to serve it.
	AdminToken string
}

func (c Config) withDefaults() Config {
	defaultTo(&c.BodyMax, 32<<20)
	defaultTo(&c.BodiesMax, 512<<20)
	defaultTo(&c.HeaderMax, 16<<10)
	defaultTo(&c.ReadTimeout, 10*time.Second)
	defaultTo(&c.BodyTimeout, 5*time.Minute)
	defaultTo(&c.IdleTimeout, 75*time.Second)
	defaultTo(&c.WriteTimeout, time.Minute)
	defaultTo(&c.StallTimeout, 5*time.Minute)
	defaultTo(&c.RequestTimeout, 600*time.Second)
	defaultTo(&c.KeepAlive, 10*time.Second)
	defaultTo(&c.WatchEvery, 250*time.Millisecond)
	defaultTo(&c.PreparesMax, 64)
	defaultTo(&c.ConnectionsMax, 16384)
	defaultTo(&c.DrainGrace, 10*time.Second)
	defaultTo(&c.LedgerWait, c.DrainGrace/2)
	return c
}

func defaultTo[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Validate runs after defaults and reports every problem at once.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, v int64) {
		if v < 0 {
			errs = append(errs, fmt.Errorf("server: %s is %d, want more than 0", name, v))
		}
	}
	positive("BodyMax", c.BodyMax)
	positive("HeaderMax", int64(c.HeaderMax))
	positive("ReadTimeout", int64(c.ReadTimeout))
	positive("BodyTimeout", int64(c.BodyTimeout))
	positive("IdleTimeout", int64(c.IdleTimeout))
	positive("WriteTimeout", int64(c.WriteTimeout))
	positive("StallTimeout", int64(c.StallTimeout))
	positive("RequestTimeout", int64(c.RequestTimeout))
	positive("KeepAlive", int64(c.KeepAlive))
	positive("WatchEvery", int64(c.WatchEvery))
	positive("PreparesMax", int64(c.PreparesMax))
	positive("ConnectionsMax", int64(c.ConnectionsMax))
	positive("LedgerWait", int64(c.LedgerWait))
	positive("DrainGrace", int64(c.DrainGrace))
	if c.BodiesMax < c.BodyMax {
		errs = append(errs, fmt.Errorf("server: BodiesMax is %d, want at least BodyMax (%d)", c.BodiesMax, c.BodyMax))
	}
	return errors.Join(errs...)
}

// Deps is what the front end stands on. Backend, Catalog and Keys are required.
type Deps struct {
	Backend Backend
	Catalog Catalog
	Keys    KeySource
	// Translators serve the chat and responses endpoints; with nil they are unknown paths.
	Translators Translators
	// Secret is the node's; it keys the signatures of thinking blocks.
	Secret []byte
	// Ready returns why the node is not ready, such as a model that still loads; may be nil.
	Ready func() error
	// Admin serves the admin API; nil answers 404.
	Admin Admin
	// Gauges are read at each scrape.
	Gauges []Gauge
	// Metrics writes further series at each scrape, of things that come and go; may be nil.
	Metrics func(io.Writer)
	// DebugState is what /debug/state shows as JSON; may be nil.
	DebugState func() any
	// StartDrain begins the process's shutdown, for POST /drain. It must not block.
	StartDrain func()
	// Log receives one line per request; nil discards.
	Log *slog.Logger
}

func (d Deps) validate() error {
	var errs []error
	if d.Backend == nil {
		errs = append(errs, errors.New("server: Deps.Backend is missing"))
	}
	if d.Catalog == nil {
		errs = append(errs, errors.New("server: Deps.Catalog is missing"))
	}
	if d.Keys == nil {
		errs = append(errs, errors.New("server: Deps.Keys is missing"))
	}
	return errors.Join(errs...)
}

// Backend admits prepared requests and runs them.
type Backend interface {
	// Generate admits a request, all or nothing, and starts it. The error is an
	// *abi.Error; Limits are valid either way.
	Generate(Call) (Stream, account.Limits, error)
	// Enter takes a permit for an endpoint that generates nothing. release gives it
	// back and is called exactly once, only when err is nil.
	Enter(account.Account) (release func(), limits account.Limits, err error)
	// Limits is the account's state now.
	Limits(account.Account) account.Limits
}

// Call is one request for Backend.Generate. It owns all it holds.
type Call struct {
	RequestID string
	Account   account.Account
	KeyID     string
	Request   *engine.Request
	// SessionID is the value of X-Session-Id, empty without one.
	SessionID string
	// Protocol is what the client speaks: "messages", "chat" or "responses".
	Protocol string
}

// Stream is an admitted request. Its owner calls Settle, however it ended.
type Stream interface {
	Output() *engine.Output
	// Held yields nil once the hold is durable, or why it never will be. No output
	// byte leaves before.
	Held() <-chan error
	// Cancel stops it within a step; any goroutine may call it, more than once.
	Cancel()
	// Withhold says that the client gets an error instead of the answer and pays
	// nothing, whatever was computed. The channel is closed when that is certain;
	// until then no error may leave. It may come at any time, and again.
	Withhold() <-chan struct{}
	// Settle waits for the end of the job and sends its charge to the ledger. The
	// channel is closed when Outcome is known. It may be called again.
	Settle() <-chan struct{}
	// Outcome is how it ended. After an error no more of the answer may leave.
	Outcome() (account.Settled, error)
}

// Catalog holds the models by id.
type Catalog interface {
	Model(id string) (Model, bool)
	Models() []engine.Info
}

// Model prepares requests on the caller's goroutine; errors are *abi.Error.
type Model interface {
	Info() engine.Info
	Prepare(account string, q *messages.Request) (*engine.Request, error)
	Count(*messages.Request) (int, error)
}

// Translators opens the translations of requests in other protocols than messages.
type Translators interface {
	// Translate begins one request's translation. protocol is "chat" or
	// "responses"; facts hold ID and Created so far.
	Translate(protocol, account, request string, facts abi.Facts) Translation
}

// Translation turns one request and its answer between a protocol and messages.
// It belongs to the goroutine that serves the request, which closes it once.
// What is handed to a method is not kept by it.
type Translation interface {
	// Request makes a messages body of the client's. The error is an *abi.Error;
	// the caller owns native.
	Request(body []byte) (native []byte, err error)
	// SetFacts tells what is known once the request is admitted: before Events
	// and Response. With facts.Stream the answer is a stream from here on.
	SetFacts(abi.Facts)
	// Events appends the frames of an event group, which holds no EventError. After
	// an error the stream can only be ended with Error.
	Events(dst []byte, group []abi.Event) ([]byte, error)
	// Response appends the body of a whole answer, from EventStart to EventEnd.
	Response(dst []byte, events []abi.Event) ([]byte, error)
	// Error appends what tells the client of a failure: the frames that end a
	// stream that has begun, else a body. It never fails.
	Error(dst []byte, e *abi.Error, status int) []byte
	Close()
}

// KeySource finds the key and the account that a secret acts for. A key that is
// unknown, revoked or expired by now, or whose account is disabled, is not
// found. The secret is not kept.
type KeySource interface {
	Lookup(secret []byte, now time.Time) (*Identity, bool)
}

// Identity is who is calling. It is immutable and shared by requests.
type Identity struct {
	KeyID   string           // safe to log
	Account *account.Account // shared by its keys; immutable
}

// Admin serves the admin API below the admin listener's own paths.
type Admin interface {
	// Handle answers one request; ctx ends when its client leaves.
	Handle(ctx context.Context, method, path string, query, body []byte) (status int, contentType string, answer []byte)
}

// Gauge is one number for /metrics. Name may carry labels, such as
// `corenode_pages{state="free"}`; it must be a valid metric name.
type Gauge struct {
	Name  string
	Value func() float64
}
