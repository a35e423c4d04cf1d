package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// checkIDs holds for every response whatsoever.
func checkIDs(t *testing.T, r reply) {
	t.Helper()
	id := r.Header.Get("X-Llm-Request-Id")
	if !strings.HasPrefix(id, "req_") || r.Header.Get("Request-Id") != id || r.Header.Get("X-Request-Id") != id {
		t.Errorf("ids: %q, %q, %q", id, r.Header.Get("Request-Id"), r.Header.Get("X-Request-Id"))
	}
}

// TestRoutes is one long table: each row is a sentence of the contract.
func TestRoutes(t *testing.T) {
	n := start(t, Config{HeaderMax: 4096, BodyMax: 1 << 20, BodiesMax: 4 << 20}, newFakeBackend(say("hello")))
	bearer := "Authorization: Bearer " + goodKey
	cases := []struct {
		name, request string
		status        int
		wantType      string // of the messages envelope, "" = none expected
		contains      string // in the body
	}{
		{"message", request("POST", "/v1/messages", ask, withKey, withJSON), 200, "", `"text":"hello"`},
		{"bearer", request("POST", "/v1/messages", ask, bearer, withJSON), 200, "", `"type":"message"`},
		{"bearer in lower case", request("POST", "/v1/messages", ask, "authorization: bearer "+goodKey), 200, "", ""},
		{"no content type", request("POST", "/v1/messages", ask, withKey), 200, "", ""},
		{"charset", request("POST", "/v1/messages", ask, withKey, "Content-Type: application/json; charset=utf-8"), 200, "", ""},
		{"query is ignored", request("POST", "/v1/messages?beta=true", ask, withKey), 200, "", ""},
		{"absolute target", request("POST", "http://node/v1/messages", ask, withKey), 200, "", ""},
		{"version headers pass", request("POST", "/v1/messages", ask, withKey, "anthropic-version: nonsense", "anthropic-beta: x,y"), 200, "", ""},
		{"wrong content type", request("POST", "/v1/messages", ask, withKey, "Content-Type: text/plain"), 415, "invalid_request_error", "application/json"},
		{"count", request("POST", "/v1/messages/count_tokens", ask, withKey), 200, "", `{"input_tokens":2}`},
		{"count without max_tokens", request("POST", "/v1/messages/count_tokens", `{"model":"core-1.1","messages":[{"role":"user","content":"abc"}]}`, withKey), 200, "", `{"input_tokens":3}`},
		{"count does not care about the cap", request("POST", "/v1/messages/count_tokens", `{"model":"core-1.1","max_tokens":99999,"messages":[{"role":"user","content":"abc"}]}`, withKey), 200, "", ""},
		{"models", request("GET", "/v1/models", "", withKey), 200, "", `"object":"list"`},
		{"models by bearer", request("GET", "/v1/models", "", bearer), 200, "", `"has_more":false`},
		{"model", request("GET", "/v1/models/core-1.1", "", withKey), 200, "", `"context_length":262144`},
		{"model escaped", request("GET", "/v1/models/core%2D1.1", "", withKey), 200, "", `"id":"core-1.1"`},
		{"no such model", request("GET", "/v1/models/gpt", "", withKey), 404, "not_found_error", `"code":"model_not_found"`},
		{"health", request("GET", "/healthz", ""), 200, "", "ok"},
		{"ready", request("GET", "/readyz", ""), 200, "", "ready"},
		{"ready, as load tools ask", request("GET", "/health", ""), 200, "", "ready"},
		{"unknown below messages", request("GET", "/v1/messages/batches", "", withKey), 404, "not_found_error", ""},
		{"unknown below messages, no key", request("POST", "/v1/messages/batches", "{}"), 404, "not_found_error", ""},
		{"doubled v1", request("POST", "/v1/v1/messages", ask, withKey), 404, "not_found_error", ""},
		{"doubled slash", request("POST", "//v1/messages", ask, withKey), 404, "not_found_error", "a slash too many"},
		{"dots", request("POST", "/v1/x/../messages", ask, withKey), 404, "not_found_error", ""},
		{"root", request("GET", "/", ""), 404, "not_found_error", ""},
		{"/v1 twice", request("POST", "/v1/v1/messages", ask, withKey), 404, "not_found_error", "it has /v1 twice"},
		{"no /v1", request("POST", "/chat/completions", "{}", bearer), 404, "", `{"error":{"message":"no such path: it lacks /v1;`},
		{"a base URL with a slash at its end", request("POST", "/v1//chat/completions", "{}", bearer), 404, "", "a slash too many"},
		{"a slash at the end", request("POST", "/v1/messages/", "{}", withKey), 404, "not_found_error", "a slash too many"},
		{"slashes, and no /v1", request("POST", "//chat/completions", "{}", bearer), 404, "", `{"error":{"message":"no such path: it lacks /v1;`},
		{"an endpoint for a base URL", request("POST", "/v1/messages/v1/messages", ask, withKey), 404, "not_found_error",
			"this client's base URL is without /v1/messages"},
		{"an endpoint for a base URL, and /v1", request("GET", "/v1/messages/models", "", withKey), 404, "not_found_error",
			"this client's base URL is without /messages"},
		{"below an endpoint", request("POST", "/v1/messages/x", "{}", withKey), 404, "not_found_error", `"no such path"`},
		{"batches of messages", request("POST", "/v1/messages/batches", "{}", withKey), 404, "not_found_error", "has no batches"},
		{"batches", request("POST", "/v1/batches", "{}", bearer), 404, "", `{"error":{"message":"no such path: this service has no batches`},
		{"a conversation", request("GET", "/v1/conversations/conv_1/items", "", bearer), 404, "", `{"error":{"message":"no such path: this service keeps no conv`},
		{"a thread", request("POST", "/v1/threads", "{}", bearer), 404, "", `{"error":{"message":"no such path: this service keeps no conv`},
		{"files, of either protocol", request("POST", "/v1/files", "{}", bearer), 404, "not_found_error", `"code":"not_found"`},
		{"skills, of either protocol", request("GET", "/v1/skills?beta=true", "", withKey), 404, "not_found_error", "keeps no skills"},
		{"pictures", request("POST", "/v1/images/generations", "{}", bearer), 404, "", `{"error":{"message":"no such path: this service is for text`},
		{"embeddings", request("POST", "/v1/embeddings", "{}", bearer), 404, "", `{"error":{"message":"no such path: this service makes no embeddings`},
		{"embeddings, no /v1", request("POST", "/embeddings", "{}", bearer), 404, "", "this service makes no embeddings"},
		{"files, /v1 twice", request("GET", "/v1/v1/files/file_1", "", bearer), 404, "not_found_error", "keeps no files"},
		{"responses, /v1 thrice", request("POST", "/v1/v1/v1/responses", "{}", bearer), 404, "", "it has /v1 twice"},
		{"no /v1, of a module", request("POST", "/completions", "{}", bearer), 404, "", `"no such path"`},
		{"no files", request("GET", "/v1/filesystem", "", bearer), 404, "not_found_error", `"no such path"`},
		{"a kept response", request("GET", "/v1/responses/resp_1", "", bearer), 404, "", "keeps no responses"},
		{"a summary", request("POST", "/v1/responses/compact", "{}", bearer), 404, "", "a compaction_trigger as the last item"},
		{"neither", request("POST", "/v1/v1/pictures", "{}", bearer), 404, "not_found_error", `"no such path"`},
		{"chat is not there yet", request("POST", "/v1/chat/completions", "{}", bearer), 404, "", `"code":"not_found"`},
		{"responses are not there yet", request("POST", "/v1/responses", "{}", bearer), 404, "", `{"error":{"message":`},
		{"wrong method", request("GET", "/v1/messages", "", withKey), 405, "invalid_request_error", ""},
		{"wrong method with body", request("PUT", "/v1/messages", ask, withKey), 405, "invalid_request_error", ""},
		{"wrong method on models", request("DELETE", "/v1/models", "", withKey), 405, "invalid_request_error", ""},
		{"invented method", request("BREW", "/v1/messages", "", withKey), 405, "invalid_request_error", ""},
		{"no key", request("POST", "/v1/messages", ask), 401, "authentication_error", "x-api-key"},
		{"no key, models", request("GET", "/v1/models", ""), 401, "authentication_error", `"code":"unauthorized"`},
		{"wrong key", request("POST", "/v1/messages", ask, "X-Api-Key: nope"), 401, "authentication_error", ""},
		{"wrong key before unknown model", request("POST", "/v1/messages", strings.Replace(ask, "core-1.1", "gpt", 1), "X-Api-Key: nope"), 401, "authentication_error", ""},
		{"revoked", request("POST", "/v1/messages", ask, "X-Api-Key: sk-revoked"), 401, "authentication_error", ""},
		{"expired", request("POST", "/v1/messages", ask, "X-Api-Key: sk-expired"), 401, "authentication_error", ""},
		{"disabled account", request("POST", "/v1/messages", ask, "X-Api-Key: sk-disabled"), 401, "authentication_error", ""},
		{"authorization wins even when wrong", request("POST", "/v1/messages", ask, withKey, "Authorization: Bearer nope"), 401, "authentication_error", ""},
		{"authorization wins when right", request("POST", "/v1/messages", ask, "X-Api-Key: nope", bearer), 200, "", ""},
		{"authorization of another scheme", request("POST", "/v1/messages", ask, withKey, "Authorization: Basic abc"), 401, "authentication_error", ""},
		{"two authorizations", request("POST", "/v1/messages", ask, bearer, bearer), 401, "authentication_error", "more than once"},
		{"two api keys", request("POST", "/v1/messages", ask, withKey, withKey), 401, "authentication_error", "more than once"},
		{"unknown model", request("POST", "/v1/messages", strings.Replace(ask, "core-1.1", "gpt", 1), withKey), 404, "not_found_error", "gpt"},
		{"model not allowed", request("POST", "/v1/messages", ask, "X-Api-Key: "+otherKey), 404, "not_found_error", ""},
		{"model not allowed, listed", request("GET", "/v1/models/core-1.1", "", "X-Api-Key: "+otherKey), 404, "not_found_error", ""},
		{"empty body", request("POST", "/v1/messages", "", withKey), 400, "invalid_request_error", ""},
		{"not JSON", request("POST", "/v1/messages", "{", withKey), 400, "invalid_request_error", ""},
		{"an array", request("POST", "/v1/messages", "[]", withKey), 400, "invalid_request_error", ""},
		{"no max_tokens", request("POST", "/v1/messages", `{"model":"core-1.1","messages":[{"role":"user","content":"a"}]}`, withKey), 400, "invalid_request_error", "max_tokens"},
		{"over the plain cap", request("POST", "/v1/messages", strings.Replace(ask, ":16", ":32769", 1), withKey), 400, "invalid_request_error", "32768"},
		{"at the plain cap", request("POST", "/v1/messages", strings.Replace(ask, ":16", ":32768", 1), withKey), 200, "", ""},
		{"over the cap, streaming", request("POST", "/v1/messages", strings.Replace(askSSE, ":16", ":32769", 1), withKey), 200, "", "message_stop"},
		{"prepare refuses", request("POST", "/v1/messages", strings.Replace(ask, "hi", strings.Repeat("a", 2000), 1), withKey), 400, "invalid_request_error", "messages: prompt is too long"},
		{"huge header", request("GET", "/healthz", "", "X-Junk: "+strings.Repeat("j", 8192)), 431, "request_too_large", "4096"},
		{"not HTTP", "hello there\r\n\r\n", 400, "invalid_request_error", ""},
		{"h2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "invalid_request_error", ""},
		{"no host", "GET /healthz HTTP/1.1\r\n\r\n", 400, "invalid_request_error", ""},
		{"two lengths", "POST /v1/messages HTTP/1.1\r\nHost: n\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400, "invalid_request_error", ""},
		{"negative length", "POST /v1/messages HTTP/1.1\r\nHost: n\r\nContent-Length: -1\r\n\r\n{}", 400, "invalid_request_error", ""},
		{"length and chunks", "POST /v1/messages HTTP/1.1\r\nHost: n\r\n" + withKey + "\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "invalid_request_error", "both"},
		{"broken chunk", "POST /v1/messages HTTP/1.1\r\nHost: n\r\n" + withKey + "\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400, "invalid_request_error", ""},
		{"announced too large", "POST /v1/messages HTTP/1.1\r\nHost: n\r\n" + withKey + "\r\nContent-Length: 1048577\r\n\r\n", 413, "request_too_large", "1048576"},
		{"body without a key is not waited for", "POST /v1/messages HTTP/1.1\r\nHost: n\r\nContent-Length: 100\r\n\r\n", 401, "authentication_error", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n.t = t
			r := n.raw(c.request)
			checkIDs(t, r)
			if r.StatusCode != c.status || !strings.Contains(r.body, c.contains) {
				t.Fatalf("status %d, want %d with %q: %q", r.StatusCode, c.status, c.contains, r.body)
			}
			if c.wantType != "" && r.errorType(t) != c.wantType {
				t.Errorf("error type of %q, want %s", r.body, c.wantType)
			}
			if c.status == 401 && (r.Header.Get("Www-Authenticate") != "Bearer" || r.Header.Get("X-Should-Retry") != "false") {
				t.Errorf("headers of a refused key: %v", r.Header)
			}
		})
	}
	n.t = t
	if len(cases) < 50 {
		t.Fatal("the table shrank")
	}
}

func TestAllowAndHead(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	cases := []struct {
		method, path string
		status       int
		allow        string
	}{
		{"OPTIONS", "/v1/messages", 204, "POST, OPTIONS"},
		{"OPTIONS", "/v1/models", 204, "GET, HEAD, OPTIONS"},
		{"GET", "/v1/messages", 405, "POST, OPTIONS"},
		{"HEAD", "/v1/messages", 405, "POST, OPTIONS"},
		{"POST", "/v1/models", 405, "GET, HEAD, OPTIONS"},
		{"POST", "/healthz", 405, "GET, HEAD, OPTIONS"},
		{"HEAD", "/v1/models", 200, ""},
		{"HEAD", "/healthz", 200, ""},
		{"HEAD", "/v1/nothing", 404, ""},
	}
	for _, c := range cases {
		r := n.raw(request(c.method, c.path, "", withKey))
		checkIDs(t, r)
		if r.StatusCode != c.status || r.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q", c.method, c.path, r.StatusCode, r.Header.Get("Allow"))
		}
		if r.body != "" && c.method != "GET" && c.method != "POST" {
			t.Errorf("%s %s has a body: %q", c.method, c.path, r.body)
		}
	}
	if n.backend.calls.Load() != 0 {
		t.Error("HEAD began a generation")
	}
}

func TestAdmissionRefusals(t *testing.T) {
	cases := []struct {
		err       *abi.Error
		status    int
		kind      string
		after, ms string
		retry     string
	}{
		{&abi.Error{Kind: abi.InsufficientBalance, Msg: "no money"}, 402, "billing_error", "", "", "false"},
		{&abi.Error{Kind: abi.Unauthenticated, Msg: "this account is disabled"}, 401, "authentication_error", "", "", "false"},
		{&abi.Error{Kind: abi.RateLimited, Msg: "slow", RetryAfter: 1500 * time.Millisecond}, 429, "rate_limit_error", "2", "1500", ""},
		{&abi.Error{Kind: abi.RateLimited, Msg: "slow"}, 429, "rate_limit_error", "1", "1000", ""},
		{&abi.Error{Kind: abi.Overloaded, Msg: "full", RetryAfter: 300 * time.Microsecond}, 503, "overloaded_error", "1", "1", ""},
		{&abi.Error{Kind: abi.Overloaded, Msg: "cancelled", Err: account.ErrOperator}, 503, "overloaded_error", "1", "1000", "false"},
		{&abi.Error{Kind: abi.Internal, Msg: "internal error"}, 500, "api_error", "", "", ""},
	}
	backend := newFakeBackend(say("x"))
	n := start(t, Config{}, backend)
	for _, body := range []string{ask, askSSE} {
		for _, c := range cases {
			backend.refuse = c.err
			r := n.post(body)
			checkIDs(t, r)
			h := r.Header
			if r.StatusCode != c.status || r.errorType(t) != c.kind || h.Get("Retry-After") != c.after ||
				h.Get("Retry-After-Ms") != c.ms || h.Get("X-Should-Retry") != c.retry {
				t.Errorf("%v: %d %q %v", c.err, r.StatusCode, r.body, h)
			}
			if h.Get("Anthropic-Ratelimit-Tokens-Remaining") != "900" {
				t.Errorf("%v: no rate-limit headers: %v", c.err, h)
			}
		}
	}
}

// TestDetailsOfARefusal: what programs read stands beside the message, in the messages envelope and nowhere else.
func TestDetailsOfARefusal(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	const want = `{"type":"error","error":{"type":"invalid_request_error",` +
		`"message":"thread: this service keeps no conversations; send all messages with each request, and no thread",` +
		`"details":{"error_code":"thread_unsupported_request","unsupported":["thread"]}}}`
	for _, more := range []string{`"thread":{"type":"create"},`, `"stream":true,"thread":{"type":"continue","previous_message_id":"msg_1"},`} {
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			r := n.raw(request("POST", path, strings.Replace(ask, "{", "{"+more, 1), withKey))
			if r.StatusCode != 400 || r.body != want {
				t.Errorf("%s with %s: %d %s", path, more, r.StatusCode, r.body)
			}
		}
	}
	e := &abi.Error{Kind: abi.InvalidRequest, Msg: "no", Err: messages.Details(`{"error_code":"some"}`)}
	if got := string(familyChat.appendError(nil, e)); strings.Contains(got, "some") {
		t.Errorf("the chat form has them too: %s", got)
	}
}

func TestUnclassifiedErrorShowsNothing(t *testing.T) {
	backend := newFakeBackend(say("x"))
	backend.refuse = errors.New("dial /var/secret/socket: refused")
	n := start(t, Config{}, backend)
	r := n.post(ask)
	if r.StatusCode != 500 || strings.Contains(r.body, "secret") || r.errorType(t) != "api_error" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}

func TestPermitEndpoints(t *testing.T) {
	backend := newFakeBackend(say("x"))
	n := start(t, Config{}, backend)
	backend.noEntry = &abi.Error{Kind: abi.RateLimited, Msg: "tokens are spent", RetryAfter: time.Second}
	for _, req := range []string{
		request("POST", "/v1/messages/count_tokens", ask, withKey),
		request("GET", "/v1/models", "", withKey),
		request("GET", "/v1/models/core-1.1", "", withKey),
	} {
		r := n.raw(req)
		if r.StatusCode != 429 || r.Header.Get("Retry-After") != "1" {
			t.Errorf("%q: %d %v", req[:30], r.StatusCode, r.Header)
		}
	}
	if backend.calls.Load() != 0 {
		t.Error("an endpoint that generates nothing began a generation")
	}
}

// checkRates holds for every answer to a valid key: all headers of its family, and none of the other one.
func checkRates(t *testing.T, what string, h http.Header, messages bool) {
	t.Helper()
	for _, name := range rateHeaderNames() {
		got := h.Get(name)
		if of := strings.HasPrefix(name, "Anthropic-"); of != messages {
			if got != "" {
				t.Errorf("%s has a header of the other family: %s: %s", what, name, got)
			}
			continue
		}
		var err error
		switch {
		case !strings.Contains(name, "Reset"):
			_, err = strconv.ParseInt(got, 10, 64)
		case messages:
			var reset time.Time
			if reset, err = time.Parse(time.RFC3339, got); err == nil && reset.Before(time.Now().Add(-time.Minute)) {
				err = errors.New("long past")
			}
		default:
			_, err = time.ParseDuration(got)
		}
		if err != nil {
			t.Errorf("%s: %s is %q: %v", what, name, got, err)
		}
	}
}

func TestRateLimitHeaders(t *testing.T) {
	if len(rateHeaderNames()) != 12+6 {
		t.Fatalf("the headers are %q", rateHeaderNames())
	}
	cfg := Config{BodyMax: 4096, BodiesMax: 1 << 20}
	n := startTranslated(t, cfg, newFakeBackend(say("x")), &fakeTranslators{})
	draining := startTranslated(t, cfg, newFakeBackend(say("x")), &fakeTranslators{})
	draining.s.draining.Store(true)
	late := startTranslated(t, Config{RequestTimeout: time.Millisecond}, newFakeBackend(func(s *fakeStream) {
		<-s.cancelled
		s.cancelledAs(abi.Usage{}, 0, 0, 0)
	}), &fakeTranslators{})
	broken := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) {
		d.Catalog = fakeCatalog{"core-1.1": fakeModel{id: "core-1.1", prepare: func() { panic("a bug") }}}
	})
	old := func(request string) string { return strings.Replace(request, "HTTP/1.1", "HTTP/1.0", 1) }
	large := strings.Repeat(" ", 4097)
	post := func(body string, headers ...string) string {
		return request("POST", "/v1/messages", body, append(headers, withKey)...)
	}
	chat := func(body string, headers ...string) string {
		return request("POST", "/v1/chat/completions", body, append(headers, bearerKey)...)
	}
	for _, c := range []struct {
		name     string
		n        *node
		request  string
		status   int
		messages bool
	}{
		{"answer", n, post(ask), 200, true},
		{"stream", n, post(askSSE), 200, true},
		{"stream of HTTP/1.0", n, old(post(askSSE)), 200, true},
		{"no request", n, post("{"), 400, true},
		{"count", n, request("POST", "/v1/messages/count_tokens", ask, withKey), 200, true},
		{"method", n, request("GET", "/v1/messages", "", withKey), 405, true},
		{"path", n, request("GET", "/v1/messages/none", "", withKey), 404, true},
		{"large body", n, post(large), 413, true},
		{"content type", n, post(ask, "Content-Type: text/plain"), 415, true},
		{"late", late, post(ask), 504, true},
		{"panic", broken, post(ask), 500, true},
		{"drain", draining, post(askSSE), 503, true},
		{"models", n, request("GET", "/v1/models", "", withKey), 200, false},
		{"model", n, request("GET", "/v1/models/none", "", withKey), 404, false},
		{"chat", n, chat(asChat), 200, false},
		{"chat stream", n, chat(asChatSSE), 200, false},
		{"chat stream of HTTP/1.0", n, old(chat(asChatSSE)), 200, false},
		{"chat, no request", n, chat("{"), 400, false},
		{"chat, large body", n, chat(large), 413, false},
		{"chat, content type", n, chat(asChat, "Content-Type: text/plain"), 415, false},
		{"chat, late", late, chat(asChat), 504, false},
		{"chat, panic", n, chat(`{"model":"core-1.1","text":"panic"}`), 500, false},
		{"chat, drain", draining, chat(asChatSSE), 503, false},
	} {
		r := c.n.raw(c.request)
		checkIDs(t, r)
		checkRates(t, c.name, r.Header, c.messages)
		if r.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.name, r.StatusCode, c.status, r.body)
		}
	}
	if h := n.raw(request("POST", "/v1/messages", ask)).Header; h.Get("Anthropic-Ratelimit-Tokens-Limit") != "" {
		t.Error("a stranger was told limits")
	}
}

// TestCachesKeepNothing: a cache in front that knows nothing of x-api-key, as Varnish, would give what one account may see
// to whoever asks next, and say for minutes that a node is ready.
func TestCachesKeepNothing(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) {
		d.Console = fakeConsole{func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "no-store") }}
	})
	for _, path := range []string{"/v1/models", "/v1/models/core-1.1", "/v1/models/none", "/none", "/healthz", "/readyz", "/metrics", "/console/"} {
		for _, r := range []reply{n.raw(request("GET", path, "", withKey)), n.adminRaw("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")} {
			if got := r.Header.Values("Cache-Control"); len(got) != 1 || got[0] != "no-store" {
				t.Errorf("%s: %d with Cache-Control %q", path, r.StatusCode, got)
			}
		}
	}
}

func TestModelsListsWhatTheKeyMayUse(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	for key, want := range map[string][]string{goodKey: {"core-1.1", "core-1.1-mini"}, otherKey: {"core-1.1-mini"}} {
		r := n.raw(request("GET", "/v1/models", "", "X-Api-Key: "+key))
		var page struct {
			Object  string
			HasMore *bool  `json:"has_more"`
			FirstID string `json:"first_id"`
			LastID  string `json:"last_id"`
			Data    []struct {
				ID, Object, Type  string
				OwnedBy           string `json:"owned_by"`
				DisplayName       string `json:"display_name"`
				Created           int64
				CreatedAt         time.Time `json:"created_at"`
				ContextLength     int       `json:"context_length"`
				MaxCompletionToks int       `json:"max_completion_tokens"`
				MaxInputTokens    int       `json:"max_input_tokens"`
				MaxTokens         int       `json:"max_tokens"`
				Lifecycle         string
			}
		}
		if err := json.Unmarshal([]byte(r.body), &page); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range page.Data {
			ids = append(ids, m.ID)
			if m.Object != "model" || m.Type != "model" || m.OwnedBy == "" || m.DisplayName == "" || m.Created != 1_700_000_000 ||
				m.CreatedAt.Unix() != m.Created || m.ContextLength != 262144 || m.MaxCompletionToks != 131072 ||
				m.MaxInputTokens != m.ContextLength || m.MaxTokens != m.MaxCompletionToks || m.Lifecycle != "active" {
				t.Errorf("entry %+v", m)
			}
		}
		if fmt.Sprint(ids) != fmt.Sprint(want) || page.Object != "list" || page.HasMore == nil || *page.HasMore ||
			page.FirstID != want[0] || page.LastID != want[len(want)-1] {
			t.Errorf("%s: %s", key, r.body)
		}
		for _, member := range []string{"capabilities", "line", "deprecated_at", "retires_at"} {
			if strings.Count(r.body, `"`+member+`":null`) != len(want) {
				t.Errorf("%s: no %s in %s", key, member, r.body)
			}
		}
	}
}

func TestKeepAliveConnection(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("a", "b")))
	tr := &http.Transport{MaxConnsPerHost: 1}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	for i := range 20 { // alternating so that each kind follows each
		body, want := ask, `"text":"ab"`
		if i%3 == 1 {
			body, want = askSSE, "message_stop"
		} else if i%3 == 2 {
			body, want = "{", "invalid_request_error"
		}
		req, _ := http.NewRequest("POST", "http://"+n.addr+"/v1/messages", strings.NewReader(body))
		req.Header.Set("X-Api-Key", goodKey)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1<<16)
		total := 0
		for {
			k, err := resp.Body.Read(b[total:])
			total += k
			if err != nil {
				break
			}
		}
		resp.Body.Close()
		if !strings.Contains(string(b[:total]), want) {
			t.Errorf("%d: %q", i, b[:total])
		}
	}
}

func TestPanicIsA500(t *testing.T) {
	backend := newFakeBackend(say("x"))
	n := start(t, Config{}, backend, func(d *Deps) {
		d.Catalog = fakeCatalog{"core-1.1": fakeModel{id: "core-1.1", prepare: func() { panic("a bug") }}}
	})
	for range 3 {
		r := n.post(ask)
		checkIDs(t, r)
		if r.StatusCode != 500 || r.errorType(t) != "api_error" || strings.Contains(r.body, "bug") {
			t.Errorf("%d %q", r.StatusCode, r.body)
		}
	}
	if got := n.s.metrics.panics.Get(); got != 3 {
		t.Errorf("%d panics counted", got)
	}
	if n.s.gate.node != 0 || len(n.s.gate.accounts) != 0 {
		t.Error("a panic kept its place in the gate")
	}
}

// TestTooManyConnections: one over the limit is told so, as pages may read that may read everything,
// or closed without a byte while refusalsMax are being told; who fits is answered all the same.
func TestTooManyConnections(t *testing.T) {
	n := start(t, Config{ConnectionsMax: 1}, newFakeBackend(say("x")))
	const probe = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
	first := n.dial()
	for _, of := range []net.Conn{first, n.dialTo(n.admin)} {
		if _, err := io.WriteString(of, probe); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the first connections accepted", func() bool {
		return n.s.public.GetOpenConnectionsCount() > 0 && n.s.admin.GetOpenConnectionsCount() > 0
	})
	n.s.conns.mu.Lock()
	told := n.s.conns.listeners[0].refusing
	n.s.conns.mu.Unlock()
	for range refusalsMax {
		told <- struct{}{} // the place of one that is being told
	}
	if got, err := io.ReadAll(n.dial()); len(got) > 0 || isTimeout(err) { // a reset is an end, too
		t.Errorf("beside %d that are being told, one gets %q, %v", refusalsMax, got, err)
	}
	for range refusalsMax {
		<-told
	}
	for _, c := range []struct {
		origins []string
		want    string // the origin that may read it
	}{{nil, ""}, {[]string{page}, ""}, {[]string{"*"}, "*"}} {
		n.s.SetCORS(c.origins)
		asked := probe + "Origin: " + page + "\r\n\r\n"
		public, admin := n.raw(asked), n.adminRaw(asked)
		checkCORS(t, "one too many", public.Header, c.want)
		checkCORS(t, "one too many of the admin side", admin.Header, "")
		checkIDs(t, public)
		if kind := public.errorType(t); kind != "overloaded_error" {
			t.Errorf("of the type %s", kind)
		}
		checkAdminError(t, "overloaded", admin)
		for _, r := range []reply{public, admin} {
			if r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" {
				t.Errorf("%d %q %v", r.StatusCode, r.body, r.Header)
			}
		}
	}
	if _, err := io.WriteString(first, "\r\n"); err != nil {
		t.Fatal(err)
	}
	if r := read(t, bufio.NewReader(first), "GET"); r.StatusCode != 200 {
		t.Errorf("the one that fits: %d %q", r.StatusCode, r.body)
	}
}

func TestHTTP10(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("one", "two")))
	for _, body := range []string{ask, askSSE} {
		req := strings.Replace(request("POST", "/v1/messages", body, withKey), "HTTP/1.1", "HTTP/1.0", 1)
		r := n.raw(req)
		checkIDs(t, r)
		if r.StatusCode != 200 || len(r.TransferEncoding) != 0 || !strings.Contains(r.body, "two") || strings.Contains(r.body, "\r\n") {
			t.Errorf("%d %v %q", r.StatusCode, r.TransferEncoding, r.body)
		}
	}
}

// TestProbesAreNoRefusals: a node that is not ready is asked again and again,
// which says nothing of its size.
func TestProbesAreNoRefusals(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) {
		d.Ready = func() error { return errors.New("a model is down") }
	})
	if r := n.raw(request("GET", "/readyz", "")); r.StatusCode != 503 {
		t.Errorf("readyz says %d", r.StatusCode)
	}
	var text strings.Builder
	n.s.WriteMetrics(&text)
	for _, line := range []string{
		`corenode_refusals_total{kind="overloaded"} 0`,
		`corenode_requests_total{route="readyz",status="503",kind="overloaded"} 1`,
	} {
		if !strings.Contains(text.String(), line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}
