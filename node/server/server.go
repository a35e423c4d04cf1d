// Package server is the node's front end: it speaks HTTP through fasthttp and
// knows nothing of tokens, money or pages.
//
// Life of a request: the connection's goroutine reads the headers, decides from
// them alone whether the body is worth reading (wantsBody), reads and decodes
// the body within the node's byte budget, has a translation make a messages
// body of it where it is of another protocol, has the catalog prepare it, and
// asks the backend to admit it. From then on a stream of events belongs to that same
// goroutine until it has settled it, exactly once, on every path: finished,
// failed, timed out, drained, or left by its client. No other goroutine writes
// to the connection; the watcher only cancels.
//
// An exchange is one request's record: what the log line and the metrics say.
// Nothing that leaves a handler aliases fasthttp's buffers.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"corenode/node/operators"
)

// Server is the public listener and the admin listener of one node.
type Server struct {
	cfg  Config
	deps Deps
	log  *slog.Logger

	public  *fasthttp.Server
	admin   *fasthttp.Server
	console fasthttp.RequestHandler // nil without one

	metrics  *metrics
	watcher  *watcher
	bodies   intake
	gate     gate
	requests requestCount
	past     pasts
	conns    connections // of the public side
	admins   connections // of the admin listener
	cors     atomic.Pointer[cors]

	peerKeys  atomic.Pointer[[]string]
	operators atomic.Pointer[[]operators.Operator]

	leaving   atomic.Bool // and serves yet
	draining  atomic.Bool
	life      context.Context // ends when a drain's deadline has passed
	end       context.CancelFunc
	calls     context.Context // of the admin listener; ends when the server closes
	endCalls  context.CancelFunc
	abortOnce sync.Once
	closeOnce sync.Once
}

// New makes a server; it listens to nothing yet. Close releases it.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Log}
	s.life, s.end = context.WithCancel(context.Background())
	s.calls, s.endCalls = context.WithCancel(context.Background())
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.SetPeerKeys(cfg.PeerKeys)
	s.SetCORS(cfg.CORSOrigins)
	s.SetOperators(cfg.AdminToken, cfg.Operators)
	s.bodies.max, s.bodies.accounts = cfg.BodiesMax, map[string]*accountBodies{}
	s.gate = gate{nodeMax: cfg.PreparesMax, accounts: map[string]int{}}
	s.conns.open, s.admins.open = map[*conn]struct{}{}, map[*conn]struct{}{}
	s.metrics = newMetrics(s)
	s.watcher = newWatcher(cfg.WatchEvery)
	s.public = s.newPublic()
	s.admin = s.newAdmin()
	if deps.Console != nil {
		s.console = s.answerConsole
	}
	return s, nil
}

// newListening configures fasthttp for either listener.
func (s *Server) newListening(handle fasthttp.RequestHandler) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                      handle,
		DisablePreParseMultipartForm: true,
		ReadBufferSize:               s.cfg.HeaderMax,
		ReadTimeout:                  s.cfg.ReadTimeout,
		IdleTimeout:                  s.cfg.IdleTimeout,
		CloseOnShutdown:              true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true,
		Logger:                       quiet{},
	}
}

// writeTimeout is how long writing an answer that is not a stream may take.
const writeTimeout = time.Minute

// newPublic configures fasthttp for the public listener. Bodies are streamed,
// so that the handler runs when the headers are in; a prefetch of one byte is
// the least that fasthttp allows.
func (s *Server) newPublic() *fasthttp.Server {
	public := s.newListening(s.handle)
	public.ErrorHandler, public.HeaderReceived = s.unreadable, s.headerReceived
	public.StreamRequestBody, public.MaxRequestBodySize = true, 1
	public.WriteTimeout = writeTimeout
	public.Concurrency = s.cfg.ConnectionsMax + refusalsMax + 1 // our listener refuses before fasthttp would
	return public
}

// quiet drops fasthttp's own log lines: they quote bytes of requests. What
// matters of them is in the request log and the metrics.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Serve answers requests on ln until Drain or Close.
func (s *Server) Serve(ln net.Listener) error {
	return s.public.Serve(newListener(ln, s, &s.conns, s.cfg.Certificate.shown()))
}

// ServeNodes answers what other nodes of the same database forward on ln until Drain or Close;
// nil is plain.
func (s *Server) ServeNodes(ln net.Listener, secure *tls.Config) error {
	l := newListener(ln, s, &s.conns, secure)
	l.nodes = true
	return s.public.Serve(l)
}

// ServeAdmin answers the admin API, metrics and debugging on ln until Close. Encryption is
// outermost: fasthttp asks a connection whether it is encrypted.
func (s *Server) ServeAdmin(ln net.Listener) error {
	l := newListener(ln, s, &s.admins, s.cfg.AdminCertificate.shown())
	l.outermost = true
	return s.admin.Serve(l)
}

// Close ends both listeners without patience, cancels what is in flight on either, and
// stops the watcher. A server that was drained is closed too.
func (s *Server) Close() error {
	s.draining.Store(true)
	s.abortAll()
	s.endCalls()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainGrace)
	defer cancel()
	err := errors.Join(s.conns.shut(ctx, s.public), s.admins.shut(ctx, s.admin))
	s.closeOnce.Do(s.watcher.stop)
	return err
}
