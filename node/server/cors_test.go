package server

import (
	"net/http"
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

const (
	page    = "https://chat.example"
	withAsk = "Access-Control-Request-Method: POST"
)

// checkCORS compares what an answer tells a browser: the page that may read it,
// nothing for "", and never that credentials count.
func checkCORS(t *testing.T, what string, h http.Header, origin string) {
	t.Helper()
	if got := h.Get("Access-Control-Allow-Origin"); got != origin || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%s: the origin %q is allowed, want %q", what, got, origin)
	}
	exposed := strings.ToLower(h.Get("Access-Control-Expose-Headers"))
	for _, name := range []string{"x-llm-request-id", "request-id", "retry-after", "x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-reset"} {
		if has := strings.Contains(", "+exposed+",", ", "+name+","); has != (origin != "") {
			t.Errorf("%s: %s is exposed: %v", what, name, has)
		}
	}
}

// TestCORS: pages of the origins of the configuration may read every answer, errors
// and streams too, all others none.
func TestCORS(t *testing.T) {
	failing := newFakeBackend(say("x"))
	failing.refuse = &abi.Error{Kind: abi.Overloaded, Msg: "full"}
	for _, c := range []struct {
		origins []string
		from    string
		want    string
	}{
		{nil, page, ""},
		{[]string{"http://localhost:3000", page}, page, page},
		{[]string{page}, "https://chat.example.evil", ""},
		{[]string{page}, "http://chat.example", ""},
		{[]string{page}, "null", ""},
		{[]string{page}, "", ""},
		{[]string{"*"}, page, "*"},
		{[]string{"*"}, "", "*"},
	} {
		n := start(t, Config{CORSOrigins: c.origins}, newFakeBackend(say("x")))
		busy := start(t, Config{CORSOrigins: c.origins}, failing)
		origin := []string{}
		if c.from != "" {
			origin = append(origin, "Origin: "+c.from)
		}
		send := func(n *node, status int, method, path, body string, headers ...string) {
			t.Helper()
			r := n.raw(request(method, path, body, append(headers, origin...)...))
			if r.StatusCode != status {
				t.Errorf("%s %s: status %d, want %d", method, path, r.StatusCode, status)
			}
			checkCORS(t, method+" "+path, r.Header, c.want)
			if vary := r.Header.Get("Vary"); (vary == "Origin") != (len(c.origins) > 0 && c.want != "*") {
				t.Errorf("%s %s: Vary is %q", method, path, vary)
			}
		}
		send(n, 200, "POST", "/v1/messages", ask, withKey)
		send(n, 200, "POST", "/v1/messages", askSSE, withKey)
		send(n, 200, "GET", "/v1/models", "", withKey)
		send(n, 200, "GET", "/healthz", "")
		send(n, 401, "POST", "/v1/messages", ask)
		send(n, 400, "POST", "/v1/messages", "{", withKey)
		send(n, 404, "POST", "/v1/x", "{}", withKey)
		send(n, 405, "GET", "/v1/messages", "", withKey)
		send(busy, 503, "POST", "/v1/messages", ask, withKey)
		send(busy, 503, "POST", "/v1/messages", askSSE, withKey)
	}
}

// TestPreflight: a browser hears which method and headers a page may send, and
// nothing when its page is not of the configuration.
func TestPreflight(t *testing.T) {
	const names = "authorization,content-type,x-api-key,x-session-id,anthropic-version,anthropic-beta,anthropic-dangerous-direct-browser-access,x-stainless-lang"
	n := start(t, Config{CORSOrigins: []string{page}}, newFakeBackend(say("x")))
	for _, c := range []struct {
		name, path          string
		headers             []string
		origin, allow, want string // the origin, methods and headers that are granted
	}{
		{"messages", "/v1/messages", []string{"Origin: " + page, withAsk, "Access-Control-Request-Headers: " + names}, page, "POST, OPTIONS", names},
		{"models", "/v1/models", []string{"Origin: " + page, "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: authorization"}, page, "GET, HEAD, OPTIONS", "authorization"},
		{"without headers", "/v1/messages", []string{"Origin: " + page, withAsk}, page, "POST, OPTIONS", ""},
		{"no names of headers", "/v1/messages", []string{"Origin: " + page, withAsk, "Access-Control-Request-Headers: a\tb"}, page, "POST, OPTIONS", ""},
		{"too many", "/v1/messages", []string{"Origin: " + page, withAsk, "Access-Control-Request-Headers: " + strings.Repeat("a,", 2049)}, page, "POST, OPTIONS", ""},
		{"no preflight", "/v1/messages", []string{"Origin: " + page}, page, "", ""},
		{"a path of nobody", "/v1/v1/messages", []string{"Origin: " + page, withAsk, "Access-Control-Request-Headers: " + names}, page, "POST", names},
		{"a path of nobody, another method", "/v1/x", []string{"Origin: " + page, "Access-Control-Request-Method: PUT"}, page, "PUT", ""},
		{"another page", "/v1/messages", []string{"Origin: https://evil.example", withAsk, "Access-Control-Request-Headers: x-api-key"}, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := n.raw(request("OPTIONS", c.path, "", c.headers...))
			h := r.Header
			checkCORS(t, c.name, h, c.origin)
			if r.StatusCode != 204 || h.Get("Access-Control-Allow-Methods") != c.allow || h.Get("Access-Control-Allow-Headers") != c.want ||
				(h.Get("Access-Control-Max-Age") != "") != (c.allow != "") {
				t.Errorf("status %d, %v; want methods %q and headers %q", r.StatusCode, h, c.allow, c.want)
			}
		})
	}
	for what, headers := range map[string][]string{
		"no preflight":  {"Origin: " + page},
		"no method":     {"Origin: " + page, "Access-Control-Request-Method: A, B"},
		"another page":  {"Origin: https://evil.example", withAsk},
		"without pages": {withAsk},
	} {
		if r := n.raw(request("OPTIONS", "/v1/v1/messages", "", headers...)); r.StatusCode != 404 || r.Header.Get("Access-Control-Allow-Methods") != "" {
			t.Errorf("%s of a path of nobody: %d %v", what, r.StatusCode, r.Header)
		}
	}
}

// TestOptionsAreNoRequests: what only asks for what a path allows is counted as that, whose path it ever is, and takes no
// part in how long requests take.
func TestOptionsAreNoRequests(t *testing.T) {
	n := startModule(t, Config{CORSOrigins: []string{"*"}}, newFakeBackend(say("x")), newModule(t, guest.FramingSSE))
	for _, path := range []string{"/v1/messages", "/v1/models", verse, "/v1/v1/messages"} {
		if r := n.raw(request("OPTIONS", path, "", "Origin: "+page, withAsk)); r.StatusCode != 204 {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	n.post(ask)
	var text string
	waitFor(t, "all five counted", func() bool {
		var b strings.Builder
		n.s.WriteMetrics(&b)
		text = b.String()
		return strings.Contains(text, `corenode_requests_total{route="options",status="204",kind="ok"} 4`) &&
			strings.Contains(text, `corenode_requests_total{route="messages",status="200",kind="ok"} 1`)
	})
	answered := 0
	for line := range strings.Lines(text) {
		answers := strings.HasPrefix(line, "corenode_requests_total") && strings.Contains(line, `status="200"`)
		if answers && !strings.HasSuffix(line, " 0\n") {
			answered++
		}
	}
	if answered != 1 || !strings.Contains(text, "corenode_request_seconds_count 1\n") {
		t.Errorf("%d series of answers, want that of messages alone:\n%s", answered, text)
	}
}

// TestAdminHasNoCORS: the admin listener answers no page, whatever the public one does.
func TestAdminHasNoCORS(t *testing.T) {
	n := start(t, Config{CORSOrigins: []string{"*"}}, newFakeBackend(say("x")))
	for _, method := range []string{"GET", "OPTIONS"} {
		for _, path := range []string{"/healthz", "/metrics", "/admin/v1/status"} {
			r := n.adminRaw(strings.Replace(request(method, path, "", "Origin: "+page, withAsk), "Host: node", "Host: localhost", 1))
			for name := range r.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s has %s", method, path, name)
				}
			}
		}
	}
}
