package server

import (
	"fmt"
	"net"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/node/trace"
	"corenode/wasm/abi"
)

// exchange is one request from its headers to its last byte: what its log line
// and its metrics say. It is owned by the connection's goroutine. ctx is valid
// until the handler returns; nothing of it is kept.
type exchange struct {
	s    *Server
	ctx  *fasthttp.RequestCtx
	conn *conn
	id   string
	resource

	who       *Identity // nil without a key that is good
	limits    account.Limits
	hasLimits bool

	// retries is what official clients say of themselves, -1 without.
	retries    int
	method     string  // of a request with a key
	arrival    arrival // of the body
	body       body    // until it is parsed
	unreadBody bool    // bytes of the body may still be on the connection
	gone       bool    // its client left within the body: what it is answered is read by few
	wanted     bool    // headerReceived has found nothing against the headers
	modelName  string  // only ids of the catalog: others are the client's words
	asked      string  // the model that the client named, if a rewrite module had a say and it is no longer than askedMax
	stream     bool
	structured bool // the answer's text is JSON that the request asked for

	inputTokens, outputMax int // of the prompt, and the most of the answer

	translating
	filter Filter // of the answer; nil where nothing is filtered. Closed by close.

	registered bool // counted in Server.requests
	rests      bool // its place in the gate is the account's alone
	streamed   bool // the answer's stream has the exchange now and ends it

	result
	timing
	trace trace.Context
	calls []trace.Call // of modules, that took long enough to be in the trace
	ended atomic.Bool
}

// translating is what an exchange in another protocol than messages has besides.
type translating struct {
	// translation is there once the request has a key, or an error to tell on the path of a module. Closed by close.
	translation Translation
	translator  string // the module that translates, by its digest
	array       bool   // the answer is a stream of the elements of one JSON array
	// unfinished says that the node had to write the end of a broken stream in a
	// protocol that it does not know: its body must have no end, or clients take it for whole.
	unfinished bool
	// suspect says that a panic was caught: the translation may be in any state,
	// and is not asked again.
	suspect bool
}

// result is how a request ended.
type result struct {
	status  int
	failed  bool
	kind    abi.Kind // valid if failed
	op      string
	cause   error
	settled account.Settled
	finish  abi.StopReason
}

// timing is when a request came how far; zero where it did not.
type timing struct {
	begun    time.Time
	arrived  time.Time // the last byte of the request was read; TTFT counts from it
	prepared time.Time // the backend was asked to admit it
	admitted time.Time // it did, however that ended
	// settleBegan and settleEnded are when its answer had ended, and when its charge was durable.
	settleBegan, settleEnded time.Time
	ttft                     time.Duration
}

var requestIDHeaders = [...][]byte{[]byte("X-Llm-Request-Id"), []byte("Request-Id"), []byte("X-Request-Id")}

// begin opens the record of a request and gives it its id.
func (s *Server) begin(ctx *fasthttp.RequestCtx) *exchange {
	now := time.Now()
	x := &exchange{s: s, ctx: ctx, conn: ctx.Conn().(*conn), id: engine.NewID(requestIDPrefix), retries: -1,
		timing: timing{begun: now, arrived: now}, result: result{status: fasthttp.StatusOK}}
	if x.conn.parting.Swap(false) {
		ctx.SetConnectionClose()
	}
	x.resource = s.resourceOf(&ctx.Request.Header)
	if v := ctx.Request.Header.PeekCanonical([]byte("X-Stainless-Retry-Count")); len(v) > 0 && len(v) <= 2 {
		if n, err := strconv.Atoi(string(v)); err == nil {
			x.retries = n
		}
	}
	x.setCommon()
	x.setCORS()
	return x
}

func (x *exchange) setCommon() { setCommon(&x.ctx.Response.Header, x.id) }

// setCommon sets what every answer has: the request's id, and that no cache keeps it. One that knows nothing of
// x-api-key would give what an account may see to whoever asks next.
func setCommon(h *fasthttp.ResponseHeader, id string) {
	for _, name := range requestIDHeaders {
		h.SetCanonical(name, []byte(id))
	}
	h.SetCanonical([]byte(fasthttp.HeaderCacheControl), []byte("no-store"))
}

// end is deferred by every entry: a panic becomes a 500, and the exchange is
// closed unless a stream took it over.
func (x *exchange) end() {
	if r := recover(); r != nil {
		x.panicked(r)
		x.ctx.Response.Reset()
		x.setCommon()
		x.setCORS()
		x.closeAfter(unreadMax)
		x.fail(&abi.Error{Kind: abi.Internal, Op: "server.handle", Msg: "internal error", Err: fmt.Errorf("panic: %v", r)})
	}
	// fasthttp would set the same deadline. Where the handler does, it sends the answer at once, and a stream's end;
	// else it keeps them while the next request is there already. It fails only on a closed connection.
	_ = x.ctx.SetWriteDeadline(time.Now().Add(writeTimeout))
	if x.streamed {
		return
	}
	if x.unreadBody {
		x.closeUnread()
	}
	now := time.Now()
	if x.who != nil {
		x.rateHeaders(now)
	}
	x.close(now)
}

// panicked counts a panic and logs where it was.
func (x *exchange) panicked(r any) {
	x.suspect = true
	x.s.metrics.panics.Inc()
	x.s.log.Error("panic", "id", x.id, "route", x.name(), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
}

// rateHeaders writes the limits of an authenticated caller, asking for them
// when no admission has told them.
func (x *exchange) rateHeaders(now time.Time) {
	if !x.hasLimits {
		x.setLimits(x.s.deps.Backend.Limits(*x.who.Account, x.who.key()))
	}
	setRateHeaders(&x.ctx.Response.Header, x.family, x.limits, now)
}

func (x *exchange) setLimits(l account.Limits) { x.limits, x.hasLimits = l, true }

// closeAfter ends the connection with this answer, throwing away at most unread
// bytes that the client still sends.
func (x *exchange) closeAfter(unread int64) {
	x.ctx.SetConnectionClose()
	x.conn.linger.Store(unread)
}

// closeUnread ends a connection whose body was not read: little of it is thrown
// away for strangers, some bodies of the largest size for callers with a key.
func (x *exchange) closeUnread() {
	unread := int64(unreadMax)
	if x.who != nil {
		unread = unreadBodies * x.s.cfg.BodyMax
	}
	x.closeAfter(unread)
}

// fail answers with an error.
func (x *exchange) fail(e *abi.Error) { x.failStatus(x.statusOf(e.Kind), e) }

// failStatus is fail for where the kind does not decide the status: the metrics know each of them.
func (x *exchange) failStatus(status int, e *abi.Error) {
	x.note(e)
	x.status = status
	r := &x.ctx.Response
	r.SetStatusCode(status)
	setRetryHeaders(&r.Header, e)
	x.passOn(e)
	if e.Kind == abi.Timeout && x.module == nil { // a module's client gets its protocol's form
		r.Header.SetContentType("text/html; charset=utf-8")
		r.SetBodyString(gatewayTimeout)
		return
	}
	r.Header.SetContentType("application/json")
	r.SetBodyRaw(x.errorBody(e, status))
}

// hangUp ends the connection without an answer.
func (x *exchange) hangUp() {
	x.status = statusUnanswered
	x.ctx.HijackSetNoResponse(true)
	x.ctx.Hijack(func(net.Conn) {}) // fasthttp closes it then
}

// note records a failure for log and metrics.
func (x *exchange) note(e *abi.Error) {
	x.failed, x.kind, x.op, x.cause = true, e.Kind, e.Op, e.Err
}

func (x *exchange) text(status int, s string) {
	x.status = status
	x.failed = status != fasthttp.StatusOK
	x.kind = abi.Overloaded // the only reason for a probe to fail
	x.ctx.SetStatusCode(status)
	x.ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
	x.ctx.Response.SetBodyString(s)
}

// json answers 200 with a body that the caller gives away.
func (x *exchange) json(b []byte) {
	x.ctx.Response.Header.SetContentType("application/json")
	x.ctx.Response.SetBodyRaw(b)
}

// close writes the log line and the metrics, once.
func (x *exchange) close(now time.Time) {
	if x.ended.Swap(true) {
		return
	}
	if x.gone && x.failed {
		x.note(errGone())
		x.status = statusClientClosed
	}
	total := now.Sub(x.begun)
	x.s.metrics.observe(x, total)
	x.writeLog(total, x.endTrace(now))
	x.remember(total)
	if x.translation != nil {
		x.translation.Close()
	}
	if x.filter != nil {
		x.filter.Close()
	}
	x.conn.lineN = 0
	if x.registered {
		x.s.requests.done()
	}
}
