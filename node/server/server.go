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
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"corenode/wasm/abi"
)

// Server is the public listener and the admin listener of one node.
type Server struct {
	cfg  Config
	deps Deps
	log  *slog.Logger

	public *fasthttp.Server
	admin  *fasthttp.Server

	metrics *metrics
	watcher *watcher
	bodies  intake
	gate    gate
	flights flights
	conns   connections
	cors    cors

	draining  atomic.Bool
	abort     chan struct{} // closed when a drain's deadline has passed
	abortOnce sync.Once
	closeOnce sync.Once
}

// New makes a server; it listens to nothing yet. Close releases it.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Log, abort: make(chan struct{}), cors: newCORS(cfg.CORSOrigins)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.bodies.max, s.bodies.accounts = cfg.BodiesMax, map[string]*holding{}
	s.gate = gate{nodeMax: cfg.PreparesMax, accounts: map[string]int{}}
	s.conns.open = map[*conn]struct{}{}
	s.metrics = newMetrics(s)
	s.watcher = newWatcher(cfg.WatchEvery)
	s.public = s.newPublic()
	s.admin = s.newAdmin()
	return s, nil
}

// newPublic configures fasthttp for the public listener. Bodies are streamed,
// so that the handler runs when the headers are in; a prefetch of one byte is
// the least that fasthttp allows.
func (s *Server) newPublic() *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                      s.handle,
		ErrorHandler:                 s.unreadable,
		HeaderReceived:               s.headerReceived,
		StreamRequestBody:            true,
		MaxRequestBodySize:           1,
		DisablePreParseMultipartForm: true,
		ReadBufferSize:               s.cfg.HeaderMax,
		ReadTimeout:                  s.cfg.ReadTimeout,
		WriteTimeout:                 s.cfg.WriteTimeout,
		IdleTimeout:                  s.cfg.IdleTimeout,
		Concurrency:                  s.cfg.ConnectionsMax + refusalsMax + 1, // our listener refuses before fasthttp would
		CloseOnShutdown:              true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true,
		Logger:                       quiet{},
	}
}

// quiet drops fasthttp's own log lines: they quote bytes of requests. What
// matters of them is in the request log and the metrics.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Serve answers requests on ln until Drain or Close.
func (s *Server) Serve(ln net.Listener) error {
	return s.public.Serve(newListener(&patient{Listener: ln, log: s.log}, s))
}

// ServeAdmin answers the admin API, metrics and debugging on ln until Drain or Close.
func (s *Server) ServeAdmin(ln net.Listener) error {
	return s.admin.Serve(&patient{Listener: ln, log: s.log})
}

// Draining says whether a drain has begun.
func (s *Server) Draining() bool { return s.draining.Load() }

// Drain ends service in order: not ready and new work refused at once; streams
// finish until ctx ends; those that remain get the protocol's error, whether
// they answer or still read their body; then the public listener closes. It
// returns when every connection is done, or with an error when some would not
// end within DrainGrace after ctx.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	if !s.flights.wait(ctx) {
		s.abortAll()
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainGrace)
	defer cancel()
	if !s.flights.wait(grace) {
		return fmt.Errorf("drain: %d requests did not end within %s of the deadline", s.flights.count(), s.cfg.DrainGrace)
	}
	if err := s.shutPublic(grace); err != nil {
		return fmt.Errorf("drain: close connections: %w", err)
	}
	return nil
}

// shutPublic closes the public listeners and waits for the connections to end.
func (s *Server) shutPublic(ctx context.Context) error {
	return errors.Join(s.conns.finish(), s.public.ShutdownWithContext(ctx), s.conns.wait(ctx))
}

// abortAll makes every request in flight fail with errDraining, also those whose
// writer waits for a slow reader, and those whose body is slow to come.
func (s *Server) abortAll() {
	s.abortOnce.Do(func() {
		close(s.abort)
		s.conns.hurry(lingerTimeout)
	})
}

// aborted says whether abortAll was called.
func (s *Server) aborted() bool {
	select {
	case <-s.abort:
		return true
	default:
		return false
	}
}

// Close ends both listeners without patience, cancels what is in flight, and
// stops the watcher. A server that was drained is closed too.
func (s *Server) Close() error {
	s.draining.Store(true)
	s.abortAll()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainGrace)
	defer cancel()
	err := errors.Join(s.shutPublic(ctx), s.admin.ShutdownWithContext(ctx))
	s.closeOnce.Do(s.watcher.stop)
	return err
}

// handle is every readable request's entry. fasthttp lets a panic end the
// process, so this one becomes a 500.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	x := s.begin(ctx)
	defer x.end()
	x.serve()
}

// serve walks the checks in the order of the contract: path and method, key,
// then whatever the endpoint needs.
func (x *exchange) serve() {
	x.deferBody()
	if !spoken(x.ctx.Request.Header.Protocol()) {
		x.closeAfter(unreadMax)
		x.fail(&abi.Error{Kind: abi.InvalidRequest, Msg: "this listener speaks HTTP/1.1 and HTTP/1.0"})
		return
	}
	if err := misframed(&x.ctx.Request.Header); err != nil { // before the key: where the request ends is in doubt
		x.closeAfter(unreadMax)
		x.fail(err)
		return
	}
	if x.route == routeUnknown {
		x.optionalKey()
		x.fail(&abi.Error{Kind: abi.PathNotFound, Msg: "no such path"})
		return
	}
	if !x.methodAllowed() {
		return
	}
	switch x.route {
	case routeHealth:
		x.text(fasthttp.StatusOK, "ok\n")
	case routeReady:
		x.ready()
	default:
		x.endpoint()
	}
}

// spoken refuses what fasthttp takes for an old dialect, such as the preface of HTTP/2.
func spoken(protocol []byte) bool {
	return string(protocol) == "HTTP/1.1" || string(protocol) == "HTTP/1.0"
}

// methodAllowed answers OPTIONS and wrong methods itself.
func (x *exchange) methodAllowed() bool {
	method := x.ctx.Method()
	allow := x.route.allow()
	switch {
	case x.route.allows(method):
		return true
	case string(method) == fasthttp.MethodOptions:
		x.ctx.Response.Header.Set("Allow", allow)
		x.preflight(allow)
		x.status = fasthttp.StatusNoContent
		x.ctx.SetStatusCode(x.status)
	default:
		x.optionalKey()
		x.ctx.Response.Header.Set("Allow", allow)
		x.fail(&abi.Error{Kind: abi.MethodNotAllowed, Msg: "this path allows " + allow})
	}
	return false
}

// endpoint serves the paths that need a key.
func (x *exchange) endpoint() {
	if err := x.authenticate(); err != nil {
		x.ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
		x.fail(err)
		return
	}
	if !x.takeOff() {
		x.fail(errDraining())
		return
	}
	switch x.route {
	case routeMessages, routeChat, routeResponses:
		x.generate()
	case routeCount:
		x.countTokens()
	case routeModels:
		x.models()
	case routeModel:
		x.model()
	}
}

// errDraining refuses new work of a node that is about to stop. Another one, or
// this one restarted, takes it.
func errDraining() *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Msg: "the node is shutting down; retry", RetryAfter: drainRetryAfter}
}

const drainRetryAfter = 5 * time.Second

func (x *exchange) ready() {
	if x.s.Draining() {
		x.unready("draining\n")
		return
	}
	if check := x.s.deps.Ready; check != nil {
		if err := check(); err != nil {
			x.unready("not ready\n")
			return
		}
	}
	x.text(fasthttp.StatusOK, "ready\n")
}

func (x *exchange) unready(why string) {
	x.text(fasthttp.StatusServiceUnavailable, why)
	setRetryHeaders(&x.ctx.Response.Header, errDraining())
}

// unreadable answers what fasthttp could not read as a request. Where its first
// line can be made out, the error has the form of its path.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	x := s.begin(ctx)
	defer x.end()
	x.route = routeUnreadable
	if x.conn != nil {
		_, x.family = routeOf(x.conn.target())
	}
	x.closeAfter(unreadMax)
	if _, ok := errors.AsType[*fasthttp.ErrSmallBuffer](err); ok {
		x.failStatus(fasthttp.StatusRequestHeaderFieldsTooLarge, &abi.Error{Kind: abi.TooLarge,
			Msg: fmt.Sprintf("request line and headers exceed %d bytes", s.cfg.HeaderMax)})
		return
	}
	if isTimeout(err) {
		x.fail(&abi.Error{Kind: abi.ReadTimeout, Msg: "the request did not arrive in time"})
		return
	}
	x.fail(&abi.Error{Kind: abi.InvalidRequest, Op: "server.unreadable", Msg: "the request is not readable HTTP"})
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
