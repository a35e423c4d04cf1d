package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/engine/messages"
	"corenode/extensions/guest"
	"corenode/node/operators"
	"corenode/node/trace"
	"corenode/wasm/abi"
)

// Deps is what the front end stands on. Backend, Catalog and Keys are required.
type Deps struct {
	Backend Backend
	Catalog Catalog
	Keys    KeySource
	// Translators serve the chat and responses endpoints; with nil they are unknown paths.
	Translators Translators
	// Policies change requests and answers; may be nil.
	Policies Policies
	// Secret is the node's; it keys the signatures of thinking blocks.
	Secret []byte
	// Ready returns why the node is not ready, such as a model that still loads; may be nil.
	Ready func() error
	// Notes are what operators are told of a node that is ready; may be nil.
	Notes func() []string
	// Admin serves the admin API; nil answers 404.
	Admin Admin
	// Console serves the operators' pages below /console; nil is none.
	Console Console
	// Metrics writes further series at each scrape; may be nil. Charted writes those of which the console draws something.
	Metrics, Charted func(io.Writer)
	// Load writes what GET /metrics on the public listener shows to anybody; with nil it is
	// an unknown path there.
	Load func(io.Writer)
	// DebugState is what /debug/state shows as JSON; may be nil.
	DebugState func() any
	// Tracer takes the traces of requests; nil makes none.
	Tracer *trace.Tracer
	// StartDrain begins the process's shutdown, for POST /drain. It must not block.
	StartDrain func()
	// Audit keeps who did what of the listener's own paths and the console's forms, of those that change something; may be nil.
	Audit func(who operators.Operator, method, path string, status int)
	// Log receives one line per request; nil discards.
	Log *slog.Logger
}

func (d Deps) validate() error {
	var errs []error
	for _, need := range []struct {
		name    string
		missing bool
	}{{"Backend", d.Backend == nil}, {"Catalog", d.Catalog == nil}, {"Keys", d.Keys == nil}} {
		if need.missing {
			errs = append(errs, fmt.Errorf("server: Deps.%s is missing", need.name))
		}
	}
	return errors.Join(errs...)
}

// Backend admits prepared requests and runs them.
type Backend interface {
	// Generate admits a request, all or nothing, and starts it. The error is an
	// *abi.Error; Limits are valid either way.
	Generate(account.Call) (Stream, account.Limits, error)
	// Enter takes a permit for an endpoint that generates nothing. release gives it
	// back and is called exactly once, only when err is nil.
	Enter(account.Account, account.LimitedKey) (release func(), limits account.Limits, err error)
	// Limits is the state of an account and a key now.
	Limits(account.Account, account.LimitedKey) account.Limits
}

// Stream is an admitted request. Its owner calls Settle, however it ended, or Cancel: then it is settled without the owner, too.
type Stream interface {
	Output() *engine.Output
	// Held yields nil once the hold is durable, or why it never will be. No output
	// byte leaves before.
	Held() <-chan error
	// Cancel stops it within a step; any goroutine may call it, more than once.
	Cancel()
	// Shown says that content has left: what the engine gave up to then is paid after a crash.
	Shown()
	// Withhold says that the client gets an error instead of the answer and pays
	// nothing, whatever was computed. The channel is closed when that is certain;
	// until then no error may leave. It may come at any time, and again.
	Withhold() <-chan struct{}
	// Stopped is the error of a request that an operator cancelled, nil of others.
	Stopped() *abi.Error
	// Done is closed when the job has ended.
	Done() <-chan struct{}
	// Settle waits for Done and sends its charge to the ledger. The
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

// HeaderForwarder is a Model to whose servers some of the client's headers go along.
type HeaderForwarder interface{ ForwardHeaders() []string }

// Asking is a Model that may ask servers elsewhere for the tokens of a request, and bounds how many it asks at once. Where Asks
// says so, Prepare and Count wait for them, outside of what bounds the work of this process; the request's Context ends that.
type Asking interface{ Asks() bool }

// Replicated is a Model that this node's own engine and those of other nodes answer. What another
// node forwarded is the own engine's.
type Replicated interface{ Own() Model }

// Translators opens the translations of requests in other protocols than messages.
type Translators interface {
	// Route finds which module answers a path that is no endpoint's, as it was sent.
	Route(path []byte) (Routed, bool)
	// Routers are the modules that answer such paths now, each once. What it gives has no route.
	Routers() []Routed
	// Owner finds the module that has all paths which begin with the first segment of one that
	// nobody answers. What it gives has no route.
	Owner(path []byte) (Routed, bool)
	// Translate begins one request's translation. protocol is "chat", "responses" or
	// that of a Routed; facts hold ID and Created so far. It may be nil: the
	// module is not in memory.
	Translate(protocol, account, request string, facts abi.Facts) Translation
}

// Translation turns one request and its answer between a protocol and messages.
// It belongs to the goroutine that serves the request, which closes it once.
// What is handed to a method is not kept by it.
type Translation interface {
	// Request makes a messages body of the client's. The error is an *abi.Error;
	// the caller owns native.
	Request(body []byte) (native []byte, err error)
	// Module names the generation that translates, by its digest.
	Module() string
	// SetRoute tells how the request came to a module with routes, before the others: by a route of a manifest. It is
	// false where the module that was picked has other routes.
	SetRoute(*guest.Manifest, *abi.Route) bool
	// Models appends the body that answers a listing, and Count that of a count, whose
	// request was translated. The error is an *abi.Error.
	Models(dst []byte, models []abi.Model, body []byte) ([]byte, error)
	Count(dst []byte, tokens int) ([]byte, error)
	// SetFacts tells what is known once the request is admitted: before Events
	// and Response. With facts.Stream the answer is a stream from here on.
	SetFacts(abi.Facts)
	// Events appends the frames of an event group, which holds no EventError. After
	// an error the stream can only be ended with Error.
	Events(dst []byte, group []abi.Event) ([]byte, error)
	// Early says whether nothing of the answer was in what Events gave so far.
	Early() bool
	// Response appends the body of a whole answer, from EventStart to EventEnd.
	Response(dst []byte, events []abi.Event) ([]byte, error)
	// Error appends what tells the client of a failure: the frames that end a
	// stream that has begun, else a body. Nothing where a module with routes fails.
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
	// Limits are those of the key; nil is none. Immutable.
	Limits *account.KeyLimits
	// Peer is the caller where it is another node.
	Peer account.Peer
}

// mayUse says whether the key and its account are entitled to a model.
func (who *Identity) mayUse(model string) bool {
	return who.Account.MayUse(model) && (who.Limits == nil || who.Limits.MayUse(model))
}

// key is what of its key admission counts.
func (who *Identity) key() account.LimitedKey {
	if who.Limits == nil {
		return account.LimitedKey{ID: who.KeyID}
	}
	return account.LimitedKey{ID: who.KeyID, TokensPerMinute: who.Limits.TokensPerMinute, Budget: who.Limits.Budget}
}

// Console serves the operators' pages on the admin listener. SignedIn says whether a request to
// a host with these cookies comes from somebody who has signed in.
type Console interface {
	http.Handler
	SignedIn(host, cookies string) bool
}

// Admin serves the admin API below the admin listener's own paths.
type Admin interface {
	// Handle answers one request; ctx ends when its client leaves.
	Handle(ctx context.Context, method, path string, query, body []byte) (status int, contentType string, answer []byte)
	// Refuse is told of a request that gets a status because its body was not read. It returns an error for a client who may
	// not make it.
	Refuse(ctx context.Context, method, path string, status int) (forbidden error)
}
