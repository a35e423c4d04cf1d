package server

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	"github.com/valyala/fasthttp"

	"corenode/wasm/abi"
)

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
	if !x.wanted { // else that was asked before
		if err := misframed(&x.ctx.Request.Header); err != nil { // before the key: where the request ends is in doubt
			x.closeAfter(unreadMax)
			x.fail(err)
			return
		}
	}
	if x.route == routeUnknown {
		if !x.preflightOfUnknown() {
			x.optionalKey()
			x.unknown(pathOf(x.ctx.Request.Header.RequestURI()))
		}
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
	case routeLoad:
		x.load()
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
	allow := x.allow()
	switch {
	case x.allows(method):
		return true
	case string(method) == fasthttp.MethodOptions:
		x.ctx.Response.Header.Set("Allow", allow)
		x.preflight(allow)
		x.noContent()
	case x.route == routeResponses && string(method) == fasthttp.MethodGet && asksWebSocket(&x.ctx.Request.Header):
		x.optionalKey()
		x.refuseWebSocket()
	default:
		x.optionalKey()
		x.ctx.Response.Header.Set("Allow", allow)
		x.turnAway(&abi.Error{Kind: abi.MethodNotAllowed, Msg: "this path allows " + allow})
	}
	return false
}

// asksWebSocket says whether a request would go on as a WebSocket.
func asksWebSocket(h *fasthttp.RequestHeader) bool {
	for _, line := range h.PeekAll(fasthttp.HeaderUpgrade) {
		for protocol := range bytes.SplitSeq(line, []byte{','}) {
			if bytes.EqualFold(bytes.TrimSpace(protocol), []byte("websocket")) {
				return true
			}
		}
	}
	return false
}

// refuseWebSocket answers clients that try a WebSocket first: with this status some of them post at once, and for the
// whole session, where they would try again after a 405. What it says to use is what the listener speaks.
func (x *exchange) refuseWebSocket() {
	h := &x.ctx.Response.Header
	h.Set(fasthttp.HeaderUpgrade, "HTTP/1.1")
	h.Set(fasthttp.HeaderConnection, fasthttp.HeaderUpgrade)
	x.failStatus(fasthttp.StatusUpgradeRequired, &abi.Error{Kind: abi.MethodNotAllowed, Msg: "this path is no WebSocket; send it a POST"})
}

// noContent answers 204.
func (x *exchange) noContent() {
	x.status = fasthttp.StatusNoContent
	x.ctx.SetStatusCode(x.status)
}

// turnAway ends a request that is not let in, on the path of a module as that has errors.
func (x *exchange) turnAway(e *abi.Error) {
	if x.module != nil {
		x.openTranslation(x.module.Protocol, "")
	}
	x.fail(e)
}

// endpoint serves the paths that need a key.
func (x *exchange) endpoint() {
	if err := x.authenticate(); err != nil {
		x.ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
		x.turnAway(err)
		return
	}
	x.beginTrace()
	if !x.register() {
		x.ctx.SetConnectionClose() // the next request shall find another node
		x.turnAway(errDraining())
		return
	}
	if x.route.hasTranslator() && !x.openTranslation(x.protocol(), x.who.Account.ID) {
		x.fail(errNoModule())
		return
	}
	switch x.route {
	case routeMessages, routeChat, routeResponses:
		x.generate()
	case routeCount:
		x.countTokens()
	case routeResponsesCount:
		x.countInput()
	case routeModels:
		x.models()
	case routeModel:
		x.model()
	case routeModule:
		x.routed()
	}
}

// ready serves the probe of load balancers.
func (x *exchange) ready() {
	if why := x.s.unready(); why != "" {
		x.text(fasthttp.StatusServiceUnavailable, why)
		setRetryHeaders(&x.ctx.Response.Header, errDraining())
		return
	}
	x.text(fasthttp.StatusOK, "ready\n")
}

// load shows inference gateways what they choose by, without a key.
func (x *exchange) load() {
	var page bytes.Buffer
	x.s.deps.Load(&page)
	x.text(fasthttp.StatusOK, page.String())
	x.ctx.SetContentType(metricsType)
}

// unready says why the node should get no requests, nothing when it should.
func (s *Server) unready() string {
	switch {
	case s.leaves():
		return "draining\n"
	case s.notReady() != nil:
		return "not ready\n"
	}
	return ""
}

// notReady says why the node is not ready.
func (s *Server) notReady() error {
	if s.deps.Ready == nil {
		return nil
	}
	return s.deps.Ready()
}

// unreadable answers what fasthttp could not read as a request. Where its first
// line can be made out, the error has the form of its path.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	x := s.begin(ctx)
	defer x.end()
	x.route = routeUnreadable
	_, x.family = routeOf(x.conn.target())
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
