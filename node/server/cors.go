package server

import (
	"bytes"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// cors lets pages of some origins call the public listener from a browser
// (https://fetch.spec.whatwg.org/#http-cors-protocol). It never allows
// credentials: who calls is told by a key that the page sends, by no cookie, so
// a page that knows no key learns no more than a stranger.
type cors struct {
	any     bool
	origins []string // as browsers send them
	exposed string   // headers that a page may read
}

// preflightSeconds is how long a browser remembers what a preflight said: the
// most that some of them do.
const preflightSeconds = "7200"

// requestHeadersMax is the most bytes of the names of headers that a preflight
// is granted.
const requestHeadersMax = 4096

// SetCORS says which origins' pages may call the public listener, from now on.
func (s *Server) SetCORS(origins []string) {
	c := newCORS(origins)
	s.cors.Store(&c)
}

func newCORS(origins []string) cors {
	exposed := []string{"Retry-After", "Retry-After-Ms", "X-Should-Retry"}
	for _, name := range requestIDHeaders {
		exposed = append(exposed, string(name))
	}
	return cors{any: slices.Contains(origins, "*"), origins: origins, exposed: strings.Join(append(exposed, rateHeaderNames()...), ", ")}
}

// setCORS tells a browser whether the page that asks may read the answer,
// whatever the answer is. Without origins nothing is said.
func (x *exchange) setCORS() {
	c := x.s.cors.Load()
	if len(c.origins) == 0 {
		return
	}
	h := &x.ctx.Response.Header
	origin := x.ctx.Request.Header.Peek(fasthttp.HeaderOrigin)
	switch {
	case c.any:
		h.Set(fasthttp.HeaderAccessControlAllowOrigin, "*")
	default:
		h.Set(fasthttp.HeaderVary, fasthttp.HeaderOrigin) // also where there is none: caches must not mix them
		if !slices.Contains(c.origins, string(origin)) {
			return
		}
		h.SetBytesV(fasthttp.HeaderAccessControlAllowOrigin, origin)
	}
	h.Set(fasthttp.HeaderAccessControlExposeHeaders, c.exposed)
}

// preflight adds to the answer of an OPTIONS request what a browser asks before
// it sends the request of a page. Whatever headers the page wants to send are
// granted: SDKs send dozens of their own, others with each release, and the node
// ignores those that it does not know. It is false where no page asks, or one that may not.
func (x *exchange) preflight(allow string) bool {
	h := &x.ctx.Response.Header
	r := &x.ctx.Request.Header
	if len(h.Peek(fasthttp.HeaderAccessControlAllowOrigin)) == 0 || len(r.Peek(fasthttp.HeaderAccessControlRequestMethod)) == 0 {
		return false
	}
	h.Set(fasthttp.HeaderAccessControlAllowMethods, allow)
	h.Set(fasthttp.HeaderAccessControlMaxAge, preflightSeconds)
	h.Add(fasthttp.HeaderVary, fasthttp.HeaderAccessControlRequestHeaders)
	if names := r.Peek(fasthttp.HeaderAccessControlRequestHeaders); len(names) > 0 && len(names) <= requestHeadersMax &&
		headerNames(names) {
		h.SetBytesV(fasthttp.HeaderAccessControlAllowHeaders, names)
	}
	return true
}

// preflightOfUnknown answers a page that asks whether it may send a request to a path that nobody has. It may: only
// the answer to that says what is wrong with the path.
func (x *exchange) preflightOfUnknown() bool {
	method := x.ctx.Request.Header.Peek(fasthttp.HeaderAccessControlRequestMethod)
	if !x.ctx.IsOptions() || slices.ContainsFunc(method, func(b byte) bool { return !tokenByte[b] }) || !x.preflight(string(method)) {
		return false
	}
	x.noContent()
	return true
}

// headerNames says whether s is a list of what can be a header's name.
func headerNames(s []byte) bool {
	const others = "!#$%&'*+-.^_`|~, "
	return bytes.IndexFunc(s, func(c rune) bool {
		return c > 0x7f || !isLetter(byte(c)) && !isDigit(byte(c)) && strings.IndexByte(others, byte(c)) < 0
	}) < 0
}
