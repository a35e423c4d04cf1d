package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	vm "github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"corenode/engine"
	exposition "corenode/node/metrics"
	"corenode/node/operators"
	"corenode/wasm/abi"
)

// The admin listener is for operators on the node's own machine. Three things
// keep others out: the address it listens on, the bearer token, and the Host
// check, without which a web page could reach it under a name of its own. It
// sends no CORS headers. Only /metrics and the probes need no token: they hold
// nothing of any account.

const (
	adminBodyMax = 16 << 20 // a module in base64; the API has its own bounds below it
	profileMax   = time.Minute
	// adminWriteMax is how long writing an answer may take; of one that the console streams, a piece of it.
	adminWriteMax = 2 * time.Minute
)

// newAdmin configures fasthttp for the admin listener.
func (s *Server) newAdmin() *fasthttp.Server {
	admin := s.newListening(s.handleAdmin)
	admin.ErrorHandler, admin.HeaderReceived = s.unreadableAdmin, s.adminHeaderReceived
	admin.MaxRequestBodySize, admin.WriteTimeout = adminBodyMax, adminWriteMax
	return admin
}

// known says whether a request is of somebody who may use the listener, by a token or signed in at the console.
func (s *Server) known(h *fasthttp.RequestHeader) bool {
	_, known := s.operatorOf(h)
	return known || s.deps.Console != nil && s.deps.Console.SignedIn(string(h.Host()), string(h.Peek(fasthttp.HeaderCookie)))
}

// adminHeaderReceived keeps the bodies of callers without the token small:
// fasthttp takes memory for all of what was announced before any of it has come.
// A body of the others has as long as one of the API, and not as long as headers.
func (s *Server) adminHeaderReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	spellExpect(h)
	if s.known(h) {
		return fasthttp.RequestConfig{ReadTimeout: s.cfg.BodyTimeout}
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: unreadMax}
}

func (s *Server) unreadableAdmin(ctx *fasthttp.RequestCtx, err error) {
	defer s.recoverAdmin(ctx)
	setAdminCommon(ctx)
	kind, msg := abi.InvalidRequest, "the request is not readable"
	switch {
	case err == fasthttp.ErrBodyTooLarge && !s.known(&ctx.Request.Header):
		lingerAfter(ctx, adminBodyMax) // a browser sends all of a form before it reads
		// A form of a session that ended is the console's to answer, without what was not read.
		ctx.Request.ResetBody()
		if !s.addressed(ctx) || !s.consoleAdmin(ctx, string(pathOf(ctx.RequestURI()))) {
			adminUnauthenticated(ctx)
		}
		return
	case err == fasthttp.ErrBodyTooLarge:
		lingerAfter(ctx, unreadBodies*adminBodyMax)
		kind, msg = abi.TooLarge, fmt.Sprintf("the body exceeds %d bytes", adminBodyMax)
	case isTimeout(err):
		kind = abi.ReadTimeout
	}
	if !s.unreadForbidden(ctx, kind) {
		adminError(ctx, &abi.Error{Kind: kind, Msg: msg})
	}
}

// unreadForbidden tells of a request whose body was not read, and refuses it where the caller may not make it.
func (s *Server) unreadForbidden(ctx *fasthttp.RequestCtx, kind abi.Kind) bool {
	who, known := s.operatorOf(&ctx.Request.Header)
	if !known || !s.addressed(ctx) {
		return false
	}
	path := string(pathOf(ctx.RequestURI()))
	if s.forbidden(ctx, path, who) {
		return true
	}
	if path == "/drain" && ctx.IsPost() {
		s.Audit(who, fasthttp.MethodPost, path, familyMessages.statusOf(kind))
		return false
	}
	if s.deps.Admin == nil {
		return false
	}
	err := s.deps.Admin.Refuse(operators.With(context.Background(), who), string(ctx.Method()), path, familyMessages.statusOf(kind))
	if err != nil {
		refuseForbidden(ctx, err.Error())
	}
	return err != nil
}

// lingerAfter lets the connection of a request stay after its answer, for at most unread bytes of its body.
func lingerAfter(ctx *fasthttp.RequestCtx, unread int64) {
	if c := connOf(ctx.Conn()); c != nil {
		c.linger.Store(unread)
	}
}

func adminUnauthenticated(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
	adminError(ctx, unauthenticated("missing or wrong admin token: send Authorization: Bearer with the text of admin.token "+
		"in the data folder, or with an operator's token"))
}

func setAdminCommon(ctx *fasthttp.RequestCtx) { setCommon(&ctx.Response.Header, engine.NewID("req_")) }

func adminError(ctx *fasthttp.RequestCtx, e *abi.Error) {
	kind := e.Kind.String()
	if e.Kind == abi.PathNotFound {
		kind = "not_found"
	}
	refuseAdmin(ctx, familyMessages.statusOf(e.Kind), kind, e.Message())
}

// refuseAdmin writes an error of a kind that is the admin listener's alone, or has a name of its own there.
func refuseAdmin(ctx *fasthttp.RequestCtx, status int, kind, message string) {
	ctx.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyRaw(adminErrorBody(kind, message))
}

func refuseForbidden(ctx *fasthttp.RequestCtx, message string) {
	refuseAdmin(ctx, fasthttp.StatusForbidden, "forbidden", message)
}

// adminErrorBody is an error as the admin API writes its own, and as its document says of all.
func adminErrorBody(kind, message string) []byte {
	return append(abi.AppendEscaped([]byte(`{"error":{"kind":"`+kind+`","message":"`), message), `"}}`...)
}

// handleAdmin checks who asks before anything else.
func (s *Server) handleAdmin(ctx *fasthttp.RequestCtx) {
	defer s.recoverAdmin(ctx)
	setAdminCommon(ctx)
	if err := misframed(&ctx.Request.Header); err != nil {
		ctx.SetConnectionClose()
		adminError(ctx, err)
		return
	}
	if !s.addressed(ctx) {
		adminError(ctx, &abi.Error{Kind: abi.PathNotFound, Msg: "this listener does not answer to that Host"})
		return
	}
	path := string(pathOf(ctx.RequestURI()))
	if s.openAdmin(ctx, path) || s.consoleAdmin(ctx, path) {
		return
	}
	who, ok := s.operatorOf(&ctx.Request.Header)
	if !ok {
		adminUnauthenticated(ctx)
		return
	}
	s.closedAdmin(ctx, path, who)
}

func (s *Server) recoverAdmin(ctx *fasthttp.RequestCtx) {
	if r := recover(); r != nil {
		s.metrics.panics.Inc()
		s.log.Error("panic", "route", "admin", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		adminError(ctx, &abi.Error{Kind: abi.Internal, Msg: "internal error"})
	}
}

// hostOf is the Host of a request without its port.
func hostOf(ctx *fasthttp.RequestCtx) string {
	host := string(ctx.Request.Header.Host())
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// addressed says whether the request's Host is a name of this listener.
func (s *Server) addressed(ctx *fasthttp.RequestCtx) bool {
	return hostAllowed(ctx) || s.certified(ctx)
}

// hostAllowed accepts loopback names and the address the connection reached.
func hostAllowed(ctx *fasthttp.RequestCtx) bool {
	host := strings.ToLower(strings.Trim(hostOf(ctx), "[]"))
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && (ip.IsLoopback() || ip.Equal(ctx.LocalIP()))
}

// certified accepts the names of the certificate: a browser that got here by one of them has seen that it is ours.
func (s *Server) certified(ctx *fasthttp.RequestCtx) bool {
	return ctx.IsTLS() && s.cfg.AdminCertificate != nil && s.cfg.AdminCertificate.Leaf().VerifyHostname(hostOf(ctx)) == nil
}

// operatorOf says whose token a request has.
func (s *Server) operatorOf(h *fasthttp.RequestHeader) (operators.Operator, bool) {
	values := h.PeekAll(fasthttp.HeaderAuthorization)
	if len(values) != 1 {
		return operators.Operator{}, false
	}
	secret, refusal := bearer(values[0])
	if refusal != nil {
		return operators.Operator{}, false
	}
	return operators.Find(*s.operators.Load(), secret)
}

// Operator says whose token it is.
func (s *Server) Operator(token string) (operators.Operator, bool) {
	return operators.Find(*s.operators.Load(), []byte(token))
}

// OperatorNamed is the operator of a name as it is now: one who is not in the list any more may do nothing.
func (s *Server) OperatorNamed(name string) operators.Operator {
	for _, o := range *s.operators.Load() {
		if o.Name == name {
			return o
		}
	}
	return operators.Operator{Name: name}
}

// SetOperators says who may use the admin listener from now on: whoever has the node's own token, where that is not empty, and
// those that are named.
func (s *Server) SetOperators(token string, named []operators.Operator) {
	all := slices.Clone(named)
	if token != "" {
		all = append(all, operators.Operator{Name: operators.Admin, Role: operators.Owner, Hash: sha256.Sum256([]byte(token))})
	}
	s.operators.Store(&all)
}

// openAdmin answers what needs no token.
func (s *Server) openAdmin(ctx *fasthttp.RequestCtx, path string) bool {
	if path != "/metrics" && path != "/healthz" && path != "/readyz" {
		return false
	}
	if !ctx.IsGet() && !ctx.IsHead() {
		ctx.Response.Header.Set("Allow", "GET, HEAD")
		adminError(ctx, &abi.Error{Kind: abi.MethodNotAllowed, Msg: "this path allows GET, HEAD"})
		return true
	}
	ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
	switch path {
	case "/metrics":
		ctx.Response.Header.SetContentType(metricsType)
		s.WriteMetrics(ctx.Response.BodyWriter())
	case "/healthz":
		ctx.SetBodyString("ok\n")
	default:
		s.adminReady(ctx)
	}
	return true
}

// consoleAdmin answers the operators' pages, which ask for a token themselves. What a browser
// and the node say to each other is not encrypted, so it stays on this machine.
func (s *Server) consoleAdmin(ctx *fasthttp.RequestCtx, path string) bool {
	switch {
	case s.console == nil:
		return false
	case path == "/":
		ctx.Redirect("/console/", fasthttp.StatusSeeOther)
		return true
	case path != "/console" && !strings.HasPrefix(path, "/console/"):
		return false
	case !ctx.IsTLS() && !(ctx.LocalIP().IsLoopback() && ctx.RemoteIP().IsLoopback()):
		adminError(ctx, &abi.Error{Kind: abi.PathNotFound, Msg: "without TLS the console answers on the node's own machine only"})
		return true
	}
	if _, err := url.ParseRequestURI(string(ctx.RequestURI())); err != nil { // the adapter would answer with a 500
		adminError(ctx, &abi.Error{Kind: abi.InvalidRequest, Msg: "the target of the request is no URL"})
		return true
	}
	s.console(ctx)
	return true
}

// answerConsole hands a request to the console. The connection is taken first: when the client of a streamed
// answer leaves, ctx serves others before the console sees it. Until an answer begins its client is watched.
func (s *Server) answerConsole(ctx *fasthttp.RequestCtx) {
	c := ctx.Conn()
	caller, left := context.WithCancel(s.calls)
	seen := s.watcher.add(descriptor(c), left)
	defer s.watcher.remove(seen)
	ctx.Response.Header.Del(fasthttp.HeaderCacheControl) // the console says itself what may be kept
	fasthttpadaptor.NewFastHTTPHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer left()
		s.deps.Console.ServeHTTP(moving{w, c}, r.WithContext(caller))
	}))(ctx)
}

// moving moves the write deadline with each piece of an answer: fasthttp sets one for all of it.
type moving struct {
	http.ResponseWriter
	conn net.Conn
}

// Write gives the client time for what was written before, too: little of that is still on its way.
func (m moving) Write(p []byte) (int, error) {
	_ = m.conn.SetWriteDeadline(time.Now().Add(adminWriteMax)) // fails only on a closed connection: so will the write
	return m.ResponseWriter.Write(p)
}

// Flush begins to send.
func (m moving) Flush() { m.ResponseWriter.(http.Flusher).Flush() }

func (s *Server) adminReady(ctx *fasthttp.RequestCtx) {
	if why := s.unready(); why != "" {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		ctx.SetBodyString(why)
		if err := s.notReady(); err != nil { // operators are told what it is
			ctx.SetBodyString(why + err.Error() + "\n")
		}
		return
	}
	text := "ready\n"
	if s.deps.Notes != nil {
		for _, note := range s.deps.Notes() {
			text += note + "\n"
		}
	}
	ctx.SetBodyString(text)
}

// WriteMetrics writes all series in the text format of Prometheus: the node's
// own, and those of the process and the Go runtime.
func (s *Server) WriteMetrics(w io.Writer) {
	if s.deps.Translators != nil {
		s.metrics.foresee(s.deps.Translators.Routers())
	}
	var raw bytes.Buffer
	s.metrics.more.WritePrometheus(&raw)
	s.writeCharted(&raw)
	vm.WriteProcessMetrics(&raw)
	vm.WriteFDMetrics(&raw)
	if s.deps.Metrics != nil {
		s.deps.Metrics(&raw)
	}
	exposition.Write(w, raw.Bytes())
}

// WriteSamples writes those of which the console draws something, and others, as they come, one a line in any order.
func (s *Server) WriteSamples(w io.Writer) {
	s.writeCharted(w)
	writeProcess(w)
}

func (s *Server) writeCharted(w io.Writer) {
	s.metrics.set.WritePrometheus(w)
	if s.deps.Charted != nil {
		s.deps.Charted(w)
	}
}

// pathRole is the role that one of the listener's own paths asks for.
func pathRole(path string) operators.Role {
	switch {
	case strings.HasPrefix(path, "/debug/pprof/"):
		return operators.Owner
	case path == "/drain":
		return operators.Manager
	}
	return operators.Viewer
}

// forbidden refuses one of the listener's own paths to a role that is too low for it.
func (s *Server) forbidden(ctx *fasthttp.RequestCtx, path string, who operators.Operator) bool {
	need := pathRole(path)
	if who.Role >= need {
		return false
	}
	if path == "/drain" && ctx.IsPost() { // what else was sent as the method changes nothing, and the audit keeps it for ever
		s.Audit(who, fasthttp.MethodPost, path, fasthttp.StatusForbidden)
	}
	refuseForbidden(ctx, fmt.Sprintf("%s has the role %s, this needs %s", who.Name, who.Role, need))
	return true
}

// closedAdmin answers what needs a token. The API knows the roles of its verbs.
func (s *Server) closedAdmin(ctx *fasthttp.RequestCtx, path string, who operators.Operator) {
	switch {
	case s.forbidden(ctx, path, who):
	case path == "/drain":
		s.adminDrain(ctx, who)
	case path == "/debug/state" && s.deps.DebugState != nil:
		s.adminState(ctx)
	case strings.HasPrefix(path, "/debug/pprof/"):
		s.adminProfile(ctx, strings.TrimPrefix(path, "/debug/pprof/"))
	case s.deps.Admin != nil:
		query := bytes.Clone(ctx.QueryArgs().QueryString())
		caller, done := s.callerOf(ctx)
		defer done()
		caller = operators.With(caller, who)
		status, contentType, answer := s.deps.Admin.Handle(caller, string(ctx.Method()), path, query, bytes.Clone(ctx.PostBody()))
		ctx.SetStatusCode(status)
		ctx.Response.Header.SetContentType(contentType)
		ctx.Response.SetBodyRaw(answer)
	default:
		adminError(ctx, &abi.Error{Kind: abi.PathNotFound, Msg: "no such path"})
	}
}

// callerOf is a context that ends when the client of an admin call leaves, or the server closes. done
// is called when the call is answered.
func (s *Server) callerOf(ctx *fasthttp.RequestCtx) (caller context.Context, done func()) {
	caller, cancel := context.WithCancel(s.calls)
	seen := s.watcher.add(descriptor(ctx.Conn()), cancel)
	return caller, func() {
		s.watcher.remove(seen)
		cancel()
	}
}

// adminDrain begins the shutdown and answers before it is done.
func (s *Server) adminDrain(ctx *fasthttp.RequestCtx, who operators.Operator) {
	if !ctx.IsPost() {
		ctx.Response.Header.Set("Allow", "POST")
		adminError(ctx, &abi.Error{Kind: abi.MethodNotAllowed, Msg: "this path allows POST"})
		return
	}
	s.Leave()
	if s.deps.StartDrain != nil {
		s.deps.StartDrain()
	}
	s.Audit(who, "POST", "/drain", fasthttp.StatusAccepted)
	ctx.SetStatusCode(fasthttp.StatusAccepted)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyString(fmt.Sprintf(`{"draining":true,"requests":%d}`, s.requests.count()))
}

// Audit keeps a call in the log, as the admin API does its own, and in the audit.
func (s *Server) Audit(who operators.Operator, method, path string, status int) {
	s.log.Info("admin", "operator", who.Name, "method", method, "path", path, "status", status)
	if s.deps.Audit != nil {
		s.deps.Audit(who, method, path, status)
	}
}

func (s *Server) adminState(ctx *fasthttp.RequestCtx) {
	b, err := json.MarshalIndent(s.deps.DebugState(), "", "  ")
	if err != nil {
		adminError(ctx, &abi.Error{Kind: abi.Internal, Msg: "the state does not marshal"})
		return
	}
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyRaw(b)
}

var profiling atomic.Bool

// adminProfile writes one profile: "profile" measures CPU for ?seconds=, others
// are the runtime's by name, as text with ?debug=1.
func (s *Server) adminProfile(ctx *fasthttp.RequestCtx, name string) {
	ctx.Response.Header.SetContentType("application/octet-stream")
	if name == "profile" {
		s.cpuProfile(ctx)
		return
	}
	p := pprof.Lookup(name)
	if p == nil {
		adminError(ctx, &abi.Error{Kind: abi.PathNotFound, Msg: "no such profile"})
		return
	}
	level := ctx.QueryArgs().GetUintOrZero("debug")
	if level > 0 {
		ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
	}
	if err := p.WriteTo(ctx.Response.BodyWriter(), level); err != nil {
		adminError(ctx, &abi.Error{Kind: abi.Internal, Msg: "the profile was not written"})
	}
}

// cpuProfile measures until the time is over, the caller has left or the node ends: it is the only one meanwhile.
func (s *Server) cpuProfile(ctx *fasthttp.RequestCtx) {
	length := profileMax / 2
	if n, err := strconv.Atoi(string(ctx.QueryArgs().Peek("seconds"))); err == nil && n > 0 {
		length = min(time.Duration(n)*time.Second, profileMax)
	}
	if !profiling.CompareAndSwap(false, true) {
		adminError(ctx, &abi.Error{Kind: abi.Overloaded, Msg: "a profile is being taken", RetryAfter: length})
		return
	}
	defer profiling.Store(false)
	if err := pprof.StartCPUProfile(ctx.Response.BodyWriter()); err != nil {
		adminError(ctx, &abi.Error{Kind: abi.Overloaded, Msg: "a profile is being taken", RetryAfter: length})
		return
	}
	defer pprof.StopCPUProfile()
	caller, done := s.callerOf(ctx)
	defer done()
	select {
	case <-time.After(length):
	case <-caller.Done():
	case <-ctx.Done():
	}
}
