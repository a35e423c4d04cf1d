package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/engine/grammar"
	"corenode/wasm/abi"
)

// The table of kinds is the contract's: status and type per protocol.
func TestEveryKindHasAWire(t *testing.T) {
	want := map[string]string{
		"internal": "500 api_error 500 internal_error", "invalid_request": "400 invalid_request_error 400 invalid_request",
		"model_not_found": "404 not_found_error 400 model_not_found", "path_not_found": "404 not_found_error 404 not_found",
		"unauthenticated": "401 authentication_error 401 unauthorized", "insufficient_balance": "402 billing_error 402 insufficient_balance",
		"rate_limited": "429 rate_limit_error 429 rate_limited", "overloaded": "503 overloaded_error 503 overloaded",
		"too_large": "413 request_too_large 413 request_too_large", "method_not_allowed": "405 invalid_request_error 405 method_not_allowed",
		"unsupported_encoding": "415 invalid_request_error 415 unsupported_media_type",
		"read_timeout":         "408 invalid_request_error 408 request_timeout", "timeout": "504 timeout_error 504 timeout",
		"canceled": "499 api_error 499 canceled",
	}
	kinds := abi.Kinds()
	if len(kinds) != len(want) || len(statuses) != len(want) {
		t.Fatalf("%d kinds, %d rows, %d expected", len(kinds), len(statuses), len(want))
	}
	for _, k := range kinds {
		n := k.Names()
		got := fmt.Sprintf("%d %s %d %s", familyMessages.statusOf(k), n.Messages, familyChat.statusOf(k), n.Code)
		if _, ok := statuses[k]; !ok || got != want[k.String()] || n.Type == "" {
			t.Errorf("%s: %s", k, got)
		}
	}
	if familyMessages.statusOf(abi.Kind(9999)) != 500 {
		t.Error("an unknown kind is not ours")
	}
}

func TestErrorBodiesAreJSON(t *testing.T) {
	for _, msg := range []string{"plain", `quo"te`, "new\nline", "bad \xff utf-8", "<tag>", strings.Repeat("x", 10000)} {
		for f := range familyModels + 1 {
			b := f.appendError(nil, &abi.Error{Kind: abi.InvalidRequest, Msg: msg})
			var v struct{ Error struct{ Message string } }
			if err := json.Unmarshal(b, &v); err != nil || v.Error.Message != strings.ToValidUTF8(msg, "\uFFFD") {
				t.Errorf("family %d: %v: %q", f, err, b)
			}
		}
	}
}

func TestResetDuration(t *testing.T) {
	cases := map[time.Duration]string{
		0: "0s", -time.Second: "0s", 12 * time.Millisecond: "12ms", 1: "1ms", 999*time.Millisecond + 1: "1s",
		time.Second: "1s", 1001 * time.Millisecond: "2s", 6 * time.Minute: "6m0s",
	}
	for d, want := range cases {
		if got := resetDuration(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

func TestBucketNormal(t *testing.T) {
	now := time.Unix(1000, 0)
	cases := []struct{ in, want bucket }{
		{bucket{0, 0, time.Time{}}, bucket{noLimit, noLimit, now}},
		{bucket{10, -3, now.Add(time.Minute)}, bucket{10, 0, now.Add(time.Minute)}},
		{bucket{10, 4, now.Add(-time.Minute)}, bucket{10, 4, now}},
	}
	for _, c := range cases {
		if got := c.in.normal(now); got != c.want {
			t.Errorf("%v: %v", c.in, got)
		}
	}
	if got := roundUp(now.Add(1)); !got.Equal(now.Add(time.Second)) || !roundUp(now).Equal(now) {
		t.Errorf("a reset rounded to %v", got)
	}
}

func TestPathOf(t *testing.T) {
	cases := map[string]string{
		"/v1/models?x=/y": "/v1/models", "http://h/v1?q": "/v1", "https://h:1/a/b": "/a/b", "http://h": "", "*": "*", "": "", "?": "",
	}
	for target, want := range cases {
		if got := string(pathOf([]byte(target))); got != want {
			t.Errorf("%q: %q", target, got)
		}
	}
	for path, want := range map[string]family{"/v1/chat/completions": familyChat, "/v1/chats": familyMessages, "/v1/responses": familyChat, "/v1/responses/x": familyChat,
		"/v1/embeddings": familyChat, "/v1/v1/responses": familyChat, "//v1//responses": familyChat, "/completions": familyChat, "/v1/files/x": familyModels,
		"/v1/models/": familyModels, "/v1/v1/models": familyModels, "/v1/messages/batches": familyMessages, "/v1/": familyMessages, "/": familyMessages, "": familyMessages} {
		if familyOf([]byte(path)) != want {
			t.Errorf("%s is of family %d", path, familyOf([]byte(path)))
		}
	}
	for target, want := range map[string]string{"/v1/models/a%2Fb?x": "a/b", "/v1/models/a/b": "a/b", "/v1/models/%zz": "%zz"} {
		if got := modelID([]byte(target)); got != want {
			t.Errorf("%q: %q", target, got)
		}
	}
}

// Nothing that a client chooses freely reaches the log.
func TestLogHoldsNoSecrets(t *testing.T) {
	const planted = "PLANTED7"
	n := start(t, Config{HeaderMax: 4096}, newFakeBackend(say(planted)), func(d *Deps) {
		d.Catalog = fakeCatalog{"core-1.1": fakeModel{id: "core-1.1", prepare: func() {}}}
	})
	body := strings.Replace(ask, `"hi"`, `"`+planted+`"`, 1)
	tools := strings.Replace(body, `"messages"`, `"tools":[{"name":"`+planted+`","description":"`+planted+`","input_schema":{"type":"object"}}],"messages"`, 1)
	hostile := []string{
		request("POST", "/v1/messages", tools, withKey),
		request("POST", "/v1/messages", strings.Replace(tools, `"max_tokens"`, `"stream":true,"max_tokens"`, 1), withKey),
		request("POST", "/v1/messages?key="+planted, body, "Authorization: Bearer "+planted),
		request("POST", "/v1/messages", body, "X-Api-Key: "+planted),
		request("POST", "/v1/messages", body, "Authorization: "+planted),
		request("POST", "/v1/messages", body, withKey, "X-Session-Id: "+planted, planted+": "+planted),
		request("POST", "/v1/messages", strings.Replace(body, "core-1.1", planted, 1), withKey),
		request("POST", "/v1/messages", `{"`+planted+`":`, withKey),
		request("POST", "/v1/messages", strings.Replace(body, `:16`, `:"`+planted+`"`, 1), withKey),
		request("POST", "/v1/messages", planted, withKey, "Content-Encoding: gzip"),
		request("POST", "/v1/messages", planted, withKey, "Content-Encoding: "+planted),
		request("POST", "/v1/messages", planted, withKey, "Content-Type: "+planted),
		request("POST", "/v1/messages", "", withKey, "Transfer-Encoding: chunked") + planted + "\r\n",
		request("POST", "/v1/"+goodKey, body, withKey), request("POST", "/v1/x?key="+planted, body, withKey), request(planted, "/v1/messages", "", withKey),
		request("GET", "/v1/models/"+planted, "", withKey), request("GET", "/healthz", "", "X-Stainless-Retry-Count: "+planted),
		request("GET", "/healthz", "", planted+": "+strings.Repeat(planted, 1000)),
		planted + "\r\n\r\n", "GET / HTTP/1.1\r\n" + planted + "\r\n\r\n", "GET /%zz?" + planted + " HTTP/1.1\r\nHost: " + planted + "\r\n\r\n",
	}
	for _, req := range hostile {
		n.raw(req)
	}
	waitFor(t, "a line per request", func() bool { return strings.Count(n.log.String(), "\n") >= len(hostile) })
	text := n.log.String()
	for _, secret := range []string{planted, strings.ToLower(planted), goodKey, "hi"} {
		if secret != "hi" && strings.Contains(text, secret) {
			t.Errorf("the log holds %q: %s", secret, text)
		}
	}
	for line := range strings.Lines(text) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil || !strings.HasPrefix(fmt.Sprint(v["id"]), "req_") {
			t.Errorf("not a request's line: %q", line)
		}
	}
	if got := strings.Count(text, "\n"); got != len(hostile) {
		t.Errorf("%d lines for %d requests", got, len(hostile))
	}
}

func TestLogLine(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	r := n.post(askSSE, "X-Stainless-Retry-Count: 2")
	waitFor(t, "the line", func() bool { return strings.Contains(n.log.String(), "\n") })
	var v map[string]any
	if err := json.Unmarshal([]byte(n.log.String()), &v); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"id": r.Header.Get("X-Llm-Request-Id"), "route": "messages", "status": 200.0, "account": "acct_good", "key": "key_good",
		"model": "core-1.1", "stream": true, "reason": "finished", "input_tokens": 3.0, "cache_read_tokens": 1.0, "output_tokens": 2.0,
		"charge_nano": 42.0, "queue_ms": 1.0, "prefill_ms": 1.0, "decode_ms": 1.0, "retry": 2.0}
	for name, value := range want {
		if v[name] != value {
			t.Errorf("%s is %v, want %v", name, v[name], value)
		}
	}
	for _, name := range []string{"total_ms", "ttft_ms"} {
		if ms, ok := v[name].(float64); !ok || ms <= 0 {
			t.Errorf("%s is %v", name, v[name])
		}
	}
}

// TestLogLineOfAQueue: phases that a request did not reach are no zeros in its line.
func TestLogLineOfAQueue(t *testing.T) {
	x := &exchange{result: result{settled: account.Settled{Reason: "canceled", Queue: time.Second}}}
	for _, a := range x.appendSettled(nil) {
		if a.Key == "prefill_ms" || a.Key == "decode_ms" {
			t.Error(a)
		}
	}
}

// TestSilenceBetweenNodes: a node that works for another one says so before that takes it for stuck, however seldom clients are told.
func TestSilenceBetweenNodes(t *testing.T) {
	for _, c := range []struct {
		who        Identity
		said, want time.Duration
	}{
		{Identity{}, 5 * time.Minute, 5 * time.Minute},
		{Identity{Peer: account.ClusterPeer()}, 5 * time.Minute, nodeSilence},
		{Identity{Peer: account.KeyPeer("one")}, 5 * time.Minute, nodeSilence},
		{Identity{Peer: account.ClusterPeer()}, 3 * time.Second, 3 * time.Second},
	} {
		x := &exchange{s: &Server{cfg: Config{KeepAlive: c.said}}, who: &c.who}
		if got := x.keepAlive(); got != c.want {
			t.Errorf("%+v with %s: %s", c.who, c.said, got)
		}
	}
}

// TestForwardedIsCountedOnce: a request that another node forwards, its times and tokens, a refusal and its client's leaving are
// counted by that one. What this node adds is its queue, and a failure of its own. Prompts are counted as they came, whatever is billed.
func TestForwardedIsCountedOnce(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	m := n.s.metrics
	for i, who := range []Identity{{}, {Peer: account.ClusterPeer()}, {Peer: account.KeyPeer("one")}} {
		x := &exchange{s: n.s, resource: resource{route: routeMessages}, who: &who, inputTokens: 7,
			result: result{failed: true, kind: abi.Canceled, settled: account.Settled{Reason: "canceled",
				Usage: abi.Usage{InputUncached: 5, Output: 3}, Queue: time.Second, Prefill: time.Second, Decode: time.Second}}}
		x.firstToken(x.arrived.Add(time.Second))
		m.observe(x, time.Second)
		if in, out, left := m.prefillTokens.Get(), m.decodeTokens.Get(), m.left[phaseDecode].Get(); in != 5 || out != 3 || left != 1 {
			t.Errorf("%d: %d and %d tokens, %d left", i, in, out, left)
		}
		if count := m.outcome(x).Get(); count != 1 {
			t.Errorf("%d: counted %d times", i, count)
		}
		for kind, counts := range map[abi.Kind][2]uint64{abi.Overloaded: {1, 1}, abi.Internal: {uint64(1 + i), 1}} {
			x := &exchange{s: n.s, resource: resource{route: routeMessages}, who: &who, result: result{failed: true, kind: kind}}
			m.observe(x, time.Second)
			if count, refusals := m.outcome(x).Get(), m.refusals[kind].Get(); count != counts[0] || refusals != counts[1] {
				t.Errorf("%d: %s counted %d times, refused %d times, want %d", i, kind, count, refusals, counts)
			}
		}
	}
	var page strings.Builder
	m.set.WritePrometheus(&page)
	m.more.WritePrometheus(&page)
	for _, line := range []string{"corenode_request_seconds_count 3", "corenode_ttft_seconds_count 1", "corenode_prefill_seconds_count 1",
		"corenode_decode_seconds_count 1", `corenode_request_phase_seconds_count{phase="queue"} 1`, "corenode_request_input_tokens_sum 7",
		"corenode_request_output_tokens_count 1", "corenode_queue_seconds_count 3"} {
		if !strings.Contains(page.String(), line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// TestWhoseFault: a failure is counted by whose fault it is, this node's or that of a server elsewhere.
func TestWhoseFault(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	m := n.s.metrics
	for cause, want := range map[error][2]uint64{
		nil: {1, 0}, errors.New("x"): {1, 0}, fmt.Errorf("%w: x", engine.ErrElsewhere): {0, 1},
	} {
		node, server := m.internal[0].Get(), m.internal[1].Get()
		x := &exchange{s: n.s, resource: resource{route: routeMessages}, result: result{failed: true, kind: abi.Internal, cause: cause}}
		m.observe(x, time.Second)
		if got := [2]uint64{m.internal[0].Get() - node, m.internal[1].Get() - server}; got != want {
			t.Errorf("%v is counted %v times, want %v", cause, got, want)
		}
	}
}

// TestCountIsNoStream: a count of a body that asks for a stream streams nothing, and its line says so.
func TestCountIsNoStream(t *testing.T) {
	for body, status := range map[string]int{askSSE: 200, strings.Replace(askSSE, "core-1.1", "unknown", 1): 404} {
		n := start(t, Config{}, newFakeBackend(say("x")))
		if r := n.raw(request("POST", "/v1/messages/count_tokens", body, withKey)); r.StatusCode != status {
			t.Fatalf("%d %q", r.StatusCode, r.body)
		}
		waitFor(t, "the line", func() bool { return strings.Contains(n.log.String(), "\n") })
		if line := n.log.String(); strings.Contains(line, `"stream":true`) {
			t.Error(line)
		}
		if past := n.s.Past(PastQuery{Limit: 1}); len(past) != 1 || past[0].Stream {
			t.Errorf("%+v", past)
		}
	}
}

// TestLongCauseIsCut: the cause of an internal error has room for a stack, and makes no line of any length.
func TestLongCauseIsCut(t *testing.T) {
	cause := errors.New("a" + strings.Repeat("é", 1<<20))
	n := startTranslated(t, Config{}, newFakeBackend(say("x")), &fakeTranslators{failResponse: func() error {
		return &abi.Error{Kind: abi.Internal, Msg: "internal error", Err: cause}
	}})
	if r := n.raw(request("POST", "/v1/chat/completions", asChat, bearerKey)); r.StatusCode != 500 {
		t.Fatalf("%d %q", r.StatusCode, r.body)
	}
	waitFor(t, "the line", func() bool { return strings.Contains(n.log.String(), "\n") })
	if line := n.log.String(); len(line) > 5<<10 || len(line) < 4<<10 || !strings.Contains(line, `éé..."`) || strings.ContainsRune(line, '\uFFFD') {
		t.Errorf("%d bytes: %.300s", len(line), line)
	}
}

// TestIgnoredKeywordsAreLogged: a request with keywords that cannot be enforced is
// answered, and a line with its id says which; one without them has no such line.
func TestIgnoredKeywordsAreLogged(t *testing.T) {
	for value, want := range map[string]string{
		`{"type":"string","format":"email","multipleOf":2}`: `"id":%q,"keywords":["format","multipleOf"]`,
		`{"type":"string","maxLength":2}`:                   "",
	} {
		g, err := grammar.Compile(grammar.Form{Text: json.RawMessage(`{"properties":{"mail":` + value + `}}`)})
		if err != nil {
			t.Fatal(err)
		}
		n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) {
			d.Catalog = fakeCatalog{"core-1.1": fakeModel{id: "core-1.1", form: g}}
		})
		r := n.post(ask)
		if want != "" {
			want = fmt.Sprintf(want, r.Header.Get("X-Llm-Request-Id"))
		}
		line := "keywords of a schema are not enforced"
		if text := n.log.String(); r.StatusCode != 200 || strings.Contains(text, line) != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%s: %d, log %s; want %s", value, r.StatusCode, text, want)
		}
	}
}

// statusLine matches anywhere: a response follows the last without a line's
// end. No body of ours can hold one, since JSON escapes line ends.
var statusLine = regexp.MustCompile(`HTTP/1\.[01] [1-5][0-9][0-9] [A-Z][A-Za-z -]*\r\n`)

// FuzzRequest sends arbitrary bytes as an HTTP request. Whatever they are, the
// server answers with well-formed responses that carry an id, or closes after
// the client did, and nothing panics or leaks. It takes no request that net/http
// does not read there: a proxy in front would have sent another one.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		request("POST", "/v1/messages", ask, withKey), request("POST", "/v1/messages", askSSE, withKey),
		request("GET", "/v1/models", "", withKey), request("HEAD", "/healthz", ""), request("OPTIONS", "/v1/messages", ""),
		request("POST", "/v1/messages", "", withKey, "Transfer-Encoding: chunked") + chunked(ask[:9], ask[9:]),
		request("POST", "/v1/messages", "", withKey, "Expect: 100-continue", "Content-Length: 5") + "12345",
		request("POST", "/v1/messages", ask, withKey, "Content-Encoding: zstd"),
		request("POST", "/v1/messages", ask, withKey, "Transfer-Encoding: chunked"),
		request("POST", "/v1/messages", "", withKey, "Transfer-Encoding : chunked") + chunked(ask) + request("GET", "/healthz", ""),
		request("POST", "/v1/messages", "", withKey, "Transfer-Encoding: \vchunked", "Content-Length: +4") + "0\r\n\r\n",
		request("POST", "/v1/messages", "", withKey, "Transfer-Encoding: chunked") + strings.Replace(chunked(ask, ask), "\r\n", ";a\n", 1),
		"GET / HTTP/1.0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00", "", "\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	n := start(f, Config{BodyMax: 1 << 16, ReadTimeout: time.Second, HeaderMax: 4096, WatchEvery: 5 * time.Millisecond},
		newFakeBackend(say("x")))
	f.Fuzz(func(t *testing.T, req []byte) {
		c := n.dialT(t)
		defer c.Close()
		if _, err := c.Write(req); err != nil {
			return // closed on us already
		}
		if err := c.CloseWrite(); err != nil {
			return
		}
		all, err := io.ReadAll(c)
		if isTimeout(err) {
			t.Fatalf("never closed after %q: %q", req, all)
		}
		if err != nil {
			return // a reset: the server had bytes that it did not want
		}
		responses := len(statusLine.FindAll(all, -1)) - bytes.Count(all, []byte(" 100 Continue\r\n"))
		if ids := bytes.Count(all, []byte("\r\nX-Llm-Request-Id: req_")); ids != responses {
			t.Errorf("%d responses, %d ids: %q -> %q", responses, ids, req, all)
		}
		if len(all) > 0 && !bytes.HasPrefix(all, []byte("HTTP/1.")) {
			t.Errorf("%q -> %q", req, all)
		}
		if good := bytes.Count(all, []byte("HTTP/1.1 200 OK\r\n")); good > taken(req) {
			t.Errorf("%d requests were taken, net/http reads %d: %q -> %q", good, taken(req), req, all)
		}
		if n.s.metrics.panics.Get() != 0 {
			t.Fatalf("panic on %q", req)
		}
	})
}

// taken is how many whole requests net/http reads of these bytes. Blank lines in front of one mean nothing.
func taken(b []byte) (n int) {
	r := bufio.NewReader(bytes.NewReader(b))
	for {
		for c, err := r.Peek(1); err == nil && (c[0] == '\r' || c[0] == '\n'); c, err = r.Peek(1) {
			_, _ = r.Discard(1) // it is there
		}
		q, err := http.ReadRequest(r)
		if err != nil {
			return n
		}
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return n
		}
		n++
	}
}

// FuzzHeaders checks that what is decided before the body agrees with what the
// handler decides after it.
func FuzzHeaders(f *testing.F) {
	f.Add("POST", "/v1/messages", "X-Api-Key", goodKey, "gzip")
	f.Add("GET", "http://h/v1/models/x?y", "Authorization", "Bearer "+goodKey, "")
	s, err := New(bounded(Config{}), Deps{Backend: newFakeBackend(nil), Catalog: fakeCatalog{}, Keys: testKeys(), Secret: []byte("s")})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, method, target, name, value, encoding string) {
		var h fasthttp.RequestHeader
		h.SetMethod(method)
		h.SetRequestURI(target)
		h.Set(name, value)
		h.Set("Content-Encoding", encoding)
		h.SetContentLength(10)
		if s.headerReceived(&h); h.Peek(skippedHeader) != nil {
			return
		}
		if h.ContentLength() != 10 {
			return // the fuzzer set the length itself
		}
		r := s.resourceOf(&h)
		if _, err := s.identify(&h, &r, time.Now()); err != nil || !r.readsBody() {
			t.Errorf("a body is read for %q %q with %q", method, target, name)
		}
	})
}
