package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// TestTranslatedRoutes is the contract's table for the other protocols: on both
// paths the same, whichever layer answers.
func TestTranslatedRoutes(t *testing.T) {
	f := &fakeTranslators{}
	n := startTranslated(t, Config{HeaderMax: 4096, BodyMax: 1 << 20, BodiesMax: 4 << 20}, newFakeBackend(say("hel", "lo")), f)
	head := func(path, lines string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: n\r\n" + lines + "\r\n\r\n"
	}
	for path, protocol := range translatedPaths {
		post := func(body string, headers ...string) string { return request("POST", path, body, headers...) }
		cases := []struct {
			name, request string
			status        int
			code          string // of the error, "" = none expected
			translated    bool   // the translator wrote it
			contains      string
		}{
			{"plain", post(asChat, bearerKey, withJSON), 200, "", true, `"text":"hello"`},
			{"query is ignored", request("POST", path+"?x=1", asChat, bearerKey), 200, "", true, `"model":"core-1.1"`},
			{"other vendors' headers pass", post(asChat, bearerKey, "OpenAI-Organization: o", "OpenAI-Beta: x", "OpenAI-Project: p"), 200, "", true, ""},
			{"both keys", post(asChat, bearerKey, "X-Api-Key: nope"), 200, "", true, ""},
			{"at the plain cap", post(`{"model":"core-1.1","text":"a","max":32768}`, bearerKey), 200, "", true, ""},
			{"over the plain cap", post(`{"model":"core-1.1","text":"a","max":32769}`, bearerKey), 400, "invalid_request", true, "32768"},
			{"over the cap, streaming", post(`{"model":"core-1.1","text":"a","max":32769,"stream":true}`, bearerKey), 200, "", true, "[DONE]"},
			{"no key", post(asChat), 401, "unauthorized", false, "Bearer"},
			{"only x-api-key", post(asChat, withKey), 401, "unauthorized", false, "Bearer"},
			{"wrong key", post(asChat, "Authorization: Bearer nope", withKey), 401, "unauthorized", false, "invalid API key"},
			{"another scheme", post(asChat, "Authorization: Basic abc"), 401, "unauthorized", false, ""},
			{"two authorizations", post(asChat, bearerKey, bearerKey), 401, "unauthorized", false, "more than once"},
			{"body without a key is not waited for", head(path, "Content-Length: 100"), 401, "unauthorized", false, ""},
			{"wrong method", request("GET", path, "", bearerKey), 405, "method_not_allowed", false, "POST, OPTIONS"},
			{"wrong method with body", request("PUT", path, asChat, bearerKey), 405, "method_not_allowed", false, ""},
			{"below the path", request("GET", path+"/abc", "", bearerKey), 404, "not_found", false, ""},
			{"trailing slash", request("POST", path+"/", asChat, bearerKey), 404, "not_found", false, ""},
			{"old completions", request("POST", "/v1/completions", asChat, bearerKey), 404, "not_found", false, ""},
			{"empty body", post("", bearerKey), 400, "invalid_request", true, ""},
			{"refused by the translator", post("{", bearerKey), 400, "invalid_request", true, `"param":"body"`},
			{"native body that does not parse", post(`{"model":"core-1.1","text":"garbage"}`, bearerKey), 400, "invalid_request", true, ""},
			{"translator fails", post(`{"model":"core-1.1","text":"fault"}`, bearerKey), 500, "internal_error", true, ""},
			{"translator panics", post(`{"model":"core-1.1","text":"panic"}`, bearerKey), 500, "internal_error", false, "internal error"},
			{"unknown model", post(strings.Replace(asChat, "core-1.1", "gpt", 1), bearerKey), 400, "model_not_found", true, "gpt"},
			{"model not allowed", post(asChat, "Authorization: Bearer "+otherKey), 400, "model_not_found", true, ""},
			{"prepare refuses a stream", post(strings.Replace(asChatSSE, "hi", strings.Repeat("a", 2000), 1), bearerKey), 400, "invalid_request", true, "prompt is too long"},
			{"wrong content type", post(asChat, bearerKey, "Content-Type: text/plain"), 415, "unsupported_media_type", true, "application/json"},
			{"wrong encoding", post(asChat, bearerKey, "Content-Encoding: br"), 415, "unsupported_media_type", true, ""},
			{"announced too large", head(path, bearerKey+"\r\nContent-Length: 1048577"), 413, "request_too_large", true, "1048576"},
			{"broken chunk", head(path, bearerKey+"\r\nTransfer-Encoding: chunked") + "zz\r\n\r\n", 400, "invalid_request", true, ""},
			{"length and chunks", head(path, bearerKey+"\r\nContent-Length: 4\r\nTransfer-Encoding: chunked") + "0\r\n\r\n", 400, "invalid_request", false, "both"},
			{"two lengths", head(path, bearerKey+"\r\nContent-Length: 2\r\nContent-Length: 2") + "{}", 400, "invalid_request", false, ""},
			{"huge header", post(asChat, bearerKey, "X-Junk: "+strings.Repeat("j", 8192)), 431, "request_too_large", false, "4096"},
		}
		for _, c := range cases {
			t.Run(protocol+"/"+c.name, func(t *testing.T) {
				n.t = t
				r := n.raw(c.request)
				checkIDs(t, r)
				if r.StatusCode != c.status || !strings.Contains(r.body, c.contains) {
					t.Fatalf("status %d, want %d with %q: %q", r.StatusCode, c.status, c.contains, r.body)
				}
				if c.code == "" {
					return
				}
				e := r.chatError(t)
				if e.Error.Code != c.code || (e.By == "translator") != c.translated || c.translated && e.Status != c.status {
					t.Errorf("%q, want code %s, from the translator: %t", r.body, c.code, c.translated)
				}
				if ct := r.Header.Get("Content-Type"); ct != "application/json" {
					t.Errorf("content type %q", ct)
				}
				if c.status == 401 && r.Header.Get("Www-Authenticate") != "Bearer" {
					t.Errorf("WWW-Authenticate is %q", r.Header.Get("Www-Authenticate"))
				}
			})
		}
	}
	n.t = t
}

func TestTranslatedAllow(t *testing.T) {
	n := startTranslated(t, Config{}, newFakeBackend(say("x")), &fakeTranslators{})
	for path := range translatedPaths {
		for method, status := range map[string]int{"OPTIONS": 204, "HEAD": 405, "GET": 405, "DELETE": 405} {
			r := n.raw(request(method, path, "", bearerKey))
			checkIDs(t, r)
			if r.StatusCode != status || r.Header.Get("Allow") != "POST, OPTIONS" {
				t.Errorf("%s %s: %d, Allow %q", method, path, r.StatusCode, r.Header.Get("Allow"))
			}
		}
	}
}

// TestNoWebSocket: Codex tries a WebSocket before it posts, and only this status makes it post at once.
func TestNoWebSocket(t *testing.T) {
	n := startTranslated(t, Config{}, newFakeBackend(say("x")), &fakeTranslators{})
	const socket = "Upgrade: h2c, WebSocket"
	for _, c := range []struct {
		method, path, upgrade string
		status                int
	}{
		{"GET", "/v1/responses", socket, 426},
		{"GET", "/v1/responses?model=core-1.1", socket, 426},
		{"GET", "/v1/responses", "Upgrade: h2c", 405},
		{"GET", "/v1/chat/completions", socket, 405},
		{"PUT", "/v1/responses", socket, 405},
	} {
		r := n.raw(request(c.method, c.path, "", bearerKey, "Connection: Upgrade", c.upgrade, "Sec-WebSocket-Version: 13"))
		checkIDs(t, r)
		if e := r.chatError(t); r.StatusCode != c.status || e.Error.Code != "method_not_allowed" {
			t.Errorf("%s %s, %s: %d %q", c.method, c.path, c.upgrade, r.StatusCode, r.body)
		}
		refused := r.Header.Get("Upgrade") == "HTTP/1.1" && r.Header.Get("Connection") == "Upgrade"
		if refused != (c.status == 426) {
			t.Errorf("%s %s, %s: headers %v", c.method, c.path, c.upgrade, r.Header)
		}
	}
	waitFor(t, "counted", func() bool {
		var b strings.Builder
		n.s.metrics.set.WritePrometheus(&b)
		text := b.String()
		return strings.Contains(text, `corenode_requests_total{route="responses",status="426",kind="method_not_allowed"} 2`) &&
			strings.Contains(text, `corenode_requests_total{route="responses",status="405",kind="method_not_allowed"} 2`)
	})
}

// Without translators the paths do not exist, and say so in their own form.
func TestNoTranslators(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	for path := range translatedPaths {
		for _, method := range []string{"POST", "GET", "OPTIONS"} {
			r := n.raw(request(method, path, asChat, bearerKey))
			if e := r.chatError(t); r.StatusCode != 404 || e.Error.Code != "not_found" {
				t.Errorf("%s %s: %d %q", method, path, r.StatusCode, r.body)
			}
		}
	}
}

func TestTranslatedStream(t *testing.T) {
	for path, protocol := range translatedPaths {
		f := &fakeTranslators{}
		n := startTranslated(t, Config{}, newFakeBackend(say("hel", "lo")), f)
		r := n.raw(request("POST", path, asChatSSE, bearerKey, "X-Session-Id: thread-7"))
		checkIDs(t, r)
		if r.StatusCode != 200 || r.cut != nil || !strings.HasSuffix(r.body, "data: {\"usage\":2}\n\ndata: [DONE]\n\n") ||
			strings.Count(r.body, "data: ") != 5 || strings.Contains(r.body, "event: ") {
			t.Errorf("%d %v %q", r.StatusCode, r.cut, r.body)
		}
		if ct := r.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") || r.Header.Get("X-Ratelimit-Limit-Tokens") != "1000" {
			t.Errorf("headers %v", r.Header)
		}
		s, tr := <-n.backend.streams, f.last.Load()
		if s.call.Protocol != protocol || s.call.SessionID != "thread-7" || s.call.Request.MaxTokens != 0 ||
			s.settles.Load() != 1 || s.cancels.Load() != 0 {
			t.Errorf("%+v: settled %d, cancelled %d", s.call, s.settles.Load(), s.cancels.Load())
		}
		facts := tr.facts
		if "req_"+facts.ID != r.Header.Get("X-Llm-Request-Id") || facts.Model != "core-1.1" || !facts.Stream ||
			time.Since(time.Unix(facts.Created, 0)) > time.Minute || tr.protocol != protocol || tr.account != "acct_good" {
			t.Errorf("%+v of %s for %s", facts, tr.protocol, tr.account)
		}
		if !strings.Contains(r.body, `"id":"`+facts.ID+`","model":"core-1.1"`) {
			t.Errorf("the facts do not show: %q", r.body)
		}
	}
}

// The last frames leave only when the charge is durable.
func TestTranslatedEndWaitsForSettle(t *testing.T) {
	settle := make(chan struct{})
	backend := newFakeBackend(func(s *fakeStream) {
		say("text")(s)
		<-settle // Settle waits for the script
	})
	n := startTranslated(t, Config{KeepAlive: 5 * time.Millisecond}, backend, &fakeTranslators{})
	c := n.dial()
	if _, err := io.WriteString(c, request("POST", "/v1/chat/completions", asChatSSE, bearerKey)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for line := ""; !strings.Contains(line, `"text":"text"`); {
		var err error
		if line, err = r.ReadString('\n'); err != nil || strings.Contains(line, "[DONE]") {
			t.Fatalf("%q %v", line, err)
		}
	}
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if early, _ := io.ReadAll(r); strings.Contains(string(early), "[DONE]") || strings.Contains(string(early), "usage") {
		t.Errorf("the end left before the charge was durable: %q", early)
	}
	close(settle)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for line := ""; !strings.HasPrefix(line, "data: [DONE]"); {
		var err error
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

// Silence is broken by the same comment before and after the first event.
func TestTranslatedKeepAlives(t *testing.T) {
	first, finish := make(chan struct{}), make(chan struct{})
	backend := newFakeBackend(func(s *fakeStream) {
		<-first
		s.out.Push(begin()...)
		<-finish
		s.out.Push(end()...)
	})
	n := startTranslated(t, Config{KeepAlive: 5 * time.Millisecond}, backend, &fakeTranslators{})
	c := n.dial()
	if _, err := io.WriteString(c, request("POST", "/v1/responses", asChatSSE, bearerKey)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	until := func(what string, times int) {
		for times > 0 {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, "event:") || strings.HasPrefix(line, ":") && line != ": ping\n" {
				t.Errorf("%q", line)
			}
			if strings.HasPrefix(line, what) {
				times--
			}
		}
	}
	until(": ping", 3)
	close(first)
	until("data: ", 1)
	until(": ping", 3)
	close(finish)
	until("data: [DONE]", 1)
}

// Who measures the time to the first token takes a chat's first chunk for it, which has a role and no more: it leaves with
// the token. Of a response the client is told when the model has it.
func TestChatBeginsWithItsFirstToken(t *testing.T) {
	for path := range translatedPaths {
		begun, token := make(chan struct{}), make(chan struct{})
		n := startTranslated(t, Config{KeepAlive: 5 * time.Millisecond}, newFakeBackend(func(s *fakeStream) {
			s.out.Push(begin()...)
			close(begun)
			<-token
			s.out.Push(append([]abi.Event{delta("hel")}, end()...)...)
		}), &fakeTranslators{})
		c := n.dial()
		if _, err := io.WriteString(c, request("POST", path, asChatSSE, bearerKey)); err != nil {
			t.Fatal(err)
		}
		r, read := bufio.NewReader(c), ""
		until := func(what string) {
			for line := ""; !strings.HasPrefix(line, what); read += line {
				var err error
				if line, err = r.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-begun
		if path == "/v1/responses" {
			until("data: ")
		}
		for range 10 {
			until(": ping")
		}
		if strings.Contains(read, "data: ") != (path == "/v1/responses") {
			t.Errorf("%s before its first token: %q", path, read)
		}
		close(token)
		until("data: [DONE]")
		start := fmt.Sprintf(`"kind":%d,`, abi.EventStart)
		if strings.Count(read, start) != 1 || strings.Index(read, start) > strings.Index(read, `"text":"hel"`) {
			t.Errorf("%s: %q", path, read)
		}
	}
}

// Every kind of refusal has its status, its code and its headers, and comes as
// a body even where a stream was asked for.
func TestTranslatedRefusals(t *testing.T) {
	backend := newFakeBackend(say("x"))
	n := startTranslated(t, Config{}, backend, &fakeTranslators{})
	for path := range translatedPaths {
		for _, body := range []string{asChat, asChatSSE} {
			for _, k := range abi.Kinds() {
				backend.refuse = &abi.Error{Kind: k, Msg: "no", RetryAfter: 1500 * time.Millisecond}
				r := n.raw(request("POST", path, body, bearerKey))
				checkIDs(t, r)
				if r.StatusCode != familyChat.statusOf(k) {
					t.Errorf("%s: status %d", k, r.StatusCode)
				}
				h := r.Header
				if h.Get("X-Ratelimit-Remaining-Tokens") != "900" || h.Get("Anthropic-Ratelimit-Tokens-Remaining") != "" {
					t.Errorf("%s: rate-limit headers %v", k, h)
				}
				retry := k == abi.RateLimited || k == abi.Overloaded
				if (h.Get("Retry-After") == "2") != retry || (h.Get("Retry-After-Ms") == "1500") != retry ||
					(h.Get("X-Should-Retry") == "false") != (k == abi.InsufficientBalance || k == abi.Unauthenticated) {
					t.Errorf("%s: %v", k, h)
				}
				if k == abi.Timeout {
					if !strings.Contains(r.body, "<html>") {
						t.Errorf("a gateway's 504 is %q", r.body)
					}
				} else if e := r.chatError(t); e.Error.Code != k.Names().Code || e.Error.Type != k.Names().Type ||
					e.Status != r.StatusCode || e.Error.Param != nil {
					t.Errorf("%s: %q", k, r.body)
				}
			}
		}
	}
}

// A stream that breaks, for whatever reason, ends with an error, without [DONE]
// and without bytes of another protocol, and is settled once.
func TestTranslatedStreamBreaks(t *testing.T) {
	onText := func(do func() error) func([]abi.Event) error {
		return func(group []abi.Event) error {
			for _, e := range group {
				if e.Text == "bad" {
					return do()
				}
			}
			return nil
		}
	}
	onEnd := func(group []abi.Event) error {
		if group[len(group)-1].Kind == abi.EventEnd {
			return &abi.Error{Kind: abi.Internal, Msg: "internal error"}
		}
		return nil
	}
	internal := func() error { return &abi.Error{Kind: abi.Internal, Msg: "internal error"} }
	cases := map[string]struct {
		script     func(*fakeStream)
		fail       func([]abi.Event) error
		settle     error
		code       string
		translated bool
	}{
		"engine fails": {func(s *fakeStream) {
			s.out.Push(begin()...)
			s.out.Push(delta("half"), abi.Event{Kind: abi.EventError, Err: &abi.Error{Kind: abi.Overloaded, Msg: "out of pages"}})
			s.settled = account.Settled{Reason: account.Failed}
		}, nil, nil, "overloaded", true},
		"ledger fails":           {say("x"), nil, &abi.Error{Kind: abi.Overloaded, Msg: "no ledger"}, "overloaded", true},
		"translator fails":       {say("good", "bad", "more"), onText(internal), nil, "internal_error", true},
		"translator says little": {say("bad"), onText(func() error { return io.ErrUnexpectedEOF }), nil, "internal_error", true},
		"translator fails late":  {say("good"), onEnd, nil, "internal_error", true},
		"translator panics":      {say("good", "bad", "more"), onText(func() error { panic("a bug") }), nil, "internal_error", false},
	}
	for name, c := range cases {
		for path := range translatedPaths {
			backend := newFakeBackend(c.script)
			backend.settle = c.settle
			n := startTranslated(t, Config{}, backend, &fakeTranslators{failEvents: c.fail})
			r := n.raw(request("POST", path, asChatSSE, bearerKey))
			e := r.chatError(t)
			if r.StatusCode != 200 || r.cut != nil || e.Error.Code != c.code || (e.By == "translator") != c.translated {
				t.Errorf("%s: %d %v %q", name, r.StatusCode, r.cut, r.body)
			}
			if strings.Contains(r.body, "[DONE]") || strings.Contains(r.body, "event:") || strings.Contains(r.body, "EOF") {
				t.Errorf("%s: %q", name, r.body)
			}
			if s := <-backend.streams; s.settles.Load() != 1 {
				t.Errorf("%s: settled %d times", name, s.settles.Load())
			}
		}
	}
}

// What goes wrong with an answer that does not stream is a body with a status,
// and one that cannot be written is settled as failed.
func TestTranslatedPlainBreaks(t *testing.T) {
	cases := map[string]struct {
		fail       func() error
		settle     error
		status     int
		translated bool
	}{
		"translator fails":  {func() error { return &abi.Error{Kind: abi.Internal, Msg: "internal error"} }, nil, 500, true},
		"translator panics": {func() error { panic("a bug") }, nil, 500, false},
		"ledger fails":      {nil, &abi.Error{Kind: abi.Overloaded, Msg: "no ledger"}, 503, true},
	}
	for name, c := range cases {
		backend := newFakeBackend(say("x"))
		backend.settle = c.settle
		n := startTranslated(t, Config{}, backend, &fakeTranslators{failResponse: c.fail})
		r := n.raw(request("POST", "/v1/chat/completions", asChat, bearerKey))
		if e := r.chatError(t); r.StatusCode != c.status || (e.By == "translator") != c.translated || strings.Contains(r.body, "half") {
			t.Errorf("%s: %d %q", name, r.StatusCode, r.body)
		}
		s := <-backend.streams
		if s.settles.Load() != 1 || !s.withheld.Load() {
			t.Errorf("%s: settled %d times, withheld %t", name, s.settles.Load(), s.withheld.Load())
		}
	}
}

func TestTranslatedTimeout(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-s.cancelled
		s.cancelledAs(abi.Usage{InputUncached: 3}, 1, 1, 0)
	})
	n := startTranslated(t, Config{RequestTimeout: 40 * time.Millisecond}, backend, &fakeTranslators{})
	r := n.raw(request("POST", "/v1/responses", asChat, bearerKey))
	checkIDs(t, r)
	if r.StatusCode != 504 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") || !strings.Contains(r.body, "<html>") {
		t.Errorf("%d %v %q", r.StatusCode, r.Header, r.body)
	}
}

func TestTranslatedDisconnect(t *testing.T) {
	for _, body := range []string{asChat, asChatSSE} {
		for _, phase := range []int{phaseQueue, phaseDecode} {
			reached := make(chan struct{}, 1)
			backend := newFakeBackend(inPhase(phase, reached))
			f := &fakeTranslators{}
			n := startTranslated(t, Config{WatchEvery: 10 * time.Millisecond}, backend, f)
			c := n.dial()
			if _, err := io.WriteString(c, request("POST", "/v1/chat/completions", body, bearerKey)); err != nil {
				t.Fatal(err)
			}
			s := <-backend.streams
			<-reached
			c.Close()
			waitFor(t, "settled", func() bool { return s.settles.Load() == 1 })
			waitFor(t, "logged", func() bool {
				return strings.Contains(n.log.String(), `"route":"chat_completions","status":499`)
			})
			waitFor(t, "the translation is closed", func() bool { return f.closed.Load() == 1 })
		}
	}
}

func TestTranslatedDrain(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-s.cancelled
		s.cancelledAs(abi.Usage{InputUncached: 3}, 1, 1, 0)
	})
	n := startTranslated(t, Config{}, backend, &fakeTranslators{})
	stream, plain := n.dial(), n.dial()
	for c, body := range map[net.Conn]string{stream: asChatSSE, plain: asChat} {
		if _, err := io.WriteString(c, request("POST", "/v1/chat/completions", body, bearerKey)); err != nil {
			t.Fatal(err)
		}
		<-backend.streams
	}
	ctx, cancel := context.WithCancel(t.Context())
	drained := make(chan error, 1)
	go func() { drained <- n.s.Drain(ctx) }()
	waitFor(t, "draining", n.s.Draining)
	r := n.raw(request("POST", "/v1/responses", asChat, bearerKey))
	if e := r.chatError(t); r.StatusCode != 503 || e.Error.Code != "overloaded" || r.Header.Get("Retry-After") == "" {
		t.Errorf("new work: %d %q", r.StatusCode, r.body)
	}
	cancel()
	r = read(t, bufio.NewReader(stream), "POST")
	if e := r.chatError(t); e.Error.Code != "overloaded" || strings.Contains(r.body, "[DONE]") {
		t.Errorf("stream: %q", r.body)
	}
	r = read(t, bufio.NewReader(plain), "POST")
	if e := r.chatError(t); r.StatusCode != 503 || e.Error.Code != "overloaded" || r.Header.Get("Retry-After") == "" {
		t.Errorf("plain: %d %q", r.StatusCode, r.body)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// What the translator wrote counts against the node's budget too.
func TestTranslatedBodyCounts(t *testing.T) {
	backend := newFakeBackend(say("x"))
	n := startTranslated(t, Config{BodyMax: 1 << 10, BodiesMax: 1 << 10}, backend, &fakeTranslators{})
	body := `{"model":"core-1.1","text":"` + strings.Repeat("a", 800) + `"}`
	r := n.raw(request("POST", "/v1/chat/completions", body, bearerKey))
	if e := r.chatError(t); r.StatusCode != 503 || e.Error.Code != "overloaded" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}

func TestTranslatedHTTP10(t *testing.T) {
	n := startTranslated(t, Config{}, newFakeBackend(say("one", "two")), &fakeTranslators{})
	r := n.raw(strings.Replace(request("POST", "/v1/chat/completions", asChatSSE, bearerKey), "HTTP/1.1", "HTTP/1.0", 1))
	if r.StatusCode != 200 || len(r.TransferEncoding) != 0 || !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}

// The new endpoints count in the metrics as messages does, with their own status.
func TestTranslatedMetrics(t *testing.T) {
	n := startTranslated(t, Config{}, newFakeBackend(say("x")), &fakeTranslators{})
	n.raw(request("POST", "/v1/chat/completions", asChatSSE, bearerKey))
	n.raw(request("POST", "/v1/responses", strings.Replace(asChat, "core-1.1", "gpt", 1), bearerKey))
	waitFor(t, "counted", func() bool {
		var b strings.Builder
		n.s.metrics.set.WritePrometheus(&b)
		text := b.String()
		return strings.Contains(text, `corenode_requests_total{route="chat_completions",status="200",kind="ok"} 1`) &&
			strings.Contains(text, `corenode_requests_total{route="responses",status="400",kind="model_not_found"} 1`) &&
			strings.Contains(text, "corenode_ttft_seconds_count 1\n")
	})
}

// The form of an unreadable request's error follows its path on every request
// of a connection, and however slowly it comes.
func TestUnreadableFollowsItsPath(t *testing.T) {
	n := startTranslated(t, Config{}, newFakeBackend(say("x")), &fakeTranslators{})
	bad := "POST /v1/chat/completions HTTP/1.1\r\nHost: n\r\nContent-Length: -1\r\n\r\n"
	c := n.dial()
	r := bufio.NewReader(c)
	for _, good := range []string{request("POST", "/v1/messages", ask, withKey), request("POST", "/v1/responses", asChat, bearerKey)} {
		if _, err := io.WriteString(c, good); err != nil {
			t.Fatal(err)
		}
		if got := read(t, r, "POST"); got.StatusCode != 200 {
			t.Fatalf("%d %q", got.StatusCode, got.body)
		}
	}
	for i := range len(bad) {
		if _, err := io.WriteString(c, bad[i:i+1]); err != nil {
			t.Fatal(err)
		}
		if i%16 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	got := read(t, r, "POST")
	if e := got.chatError(t); got.StatusCode != 400 || e.Error.Code != "invalid_request" {
		t.Errorf("%d %q", got.StatusCode, got.body)
	}
	if got := n.raw(strings.Replace(bad, "/chat/completions", "/messages", 1)); got.errorType(t) != "invalid_request_error" {
		t.Errorf("%q", got.body)
	}
}
