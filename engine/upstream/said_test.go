package upstream

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// framesOf are events of the messages protocol, each a name and its data.
func framesOf(events ...string) string {
	var b strings.Builder
	for i := 0; i < len(events); i += 2 {
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", events[i], events[i+1])
	}
	return b.String()
}

// TestLogHasNoTextOfServers: what a server says, who may quote a prompt, and what its calls are named are in no line of
// the log, and in no cause of an error, which becomes part of one. What went wrong is; and operators who ask for a
// replica's last failure see what it said, cut.
func TestLogHasNoTextOfServers(t *testing.T) {
	const mark, name = "tell of the secret plan", "secret_plan"
	begun := framesOf("message_start", `{"type":"message_start","message":{"id":"m"}}`,
		"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`)
	block := func(kind, name string) string {
		return begun + framesOf("content_block_start", fmt.Sprintf(
			`{"type":"content_block_start","index":1,"content_block":{"type":"%s","name":"%s","input":{"a":1}}}`, kind, name),
			"content_block_stop", `{"type":"content_block_stop","index":1}`)
	}
	message := `{"error":{"message":"` + mark + `"}}`
	failure := framesOf("error", `{"type":"error","error":{"type":"api_error","message":"`+mark+`"}}`)
	delta := framesOf("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"`+mark+`"}}`)
	for form, c := range map[string]struct {
		status         int
		answer, logged string // what is logged of it, or the error's cause
		shown          bool   // operators see what it said
	}{
		"a failure":       {500, message, "answered 500", true},
		"a refusal":       {401, message, "refuses this node; look at its key, its model name and its URL", true},
		"a full one":      {429, message, "a server of the model is full", true},
		"no stream":       {200, message, "answered 200 without a stream", true},
		"an event":        {200, begun + failure, "answered 500", true},
		"a block":         {200, block(mark, ""), "has the type", false},
		"a long word":     {200, block(strings.Repeat("a", 1<<20), ""), "(1048576 bytes)", false},
		"a known word":    {200, block("image", ""), `"image"`, false},
		"a delta":         {200, begun + delta, "within a", false},
		"an event's name": {200, begun + framesOf(mark, `{`), "is no JSON", false},
		"a head":          {0, "HTTP/1.1 200 OK\r\n" + mark + "\r\n\r\n", "cannot be read", true},
		"a call":          {200, block("tool_use", name), "no tool of the request", false},
		"another call":    {200, block("tool_use", "secret_tool"), "tools.0", false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method != http.MethodPost:
			case c.status == 0:
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					panic(err)
				}
				io.WriteString(conn, c.answer)
				conn.Close()
			default:
				w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream"}[strings.HasPrefix(c.answer, "event:")])
				w.WriteHeader(c.status)
				io.WriteString(w, c.answer)
			}
		}))
		var log *bytes.Buffer
		m := open(t, wire.Messages, func(o *Options) { log = logged(o); o.URLs, o.Counter = []string{server.URL}, counter{} })
		waitFor(t, "the server to be ready", m.anyReady)
		got := newLoop(t, m).ask("a", `{"model":"far","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"x"}],`+
			`"tools":[{"name":"secret_tool","input_schema":{"type":"object","required":["b"]}}]}`)
		err := cmp.Or(got.refused, got.result.Err)
		if err == nil {
			t.Fatalf("%s: %+v", form, got)
		}
		lines := log.String()
		if err.Kind == abi.Internal {
			lines += " cause=" + err.Err.Error()
		}
		if len(lines) > 4096 || strings.Contains(lines, "secret") || !strings.Contains(strings.ReplaceAll(lines, `\"`, `"`), c.logged) {
			t.Errorf("%s: want %s and nothing secret in\n%s", form, c.logged, lines)
		}
		if reason := replicaOf(m, server.URL).Reason; len(reason) > 1024 || strings.Contains(reason, mark) != c.shown {
			t.Errorf("%s: operators see %q", form, reason)
		}
		m.Close()
		server.Close()
	}
}

// TestFullIsToldOnceAMinute: a server that refuses each request as one too many does not fill the log, nor is it forgotten.
func TestFullIsToldOnceAMinute(t *testing.T) {
	var log *bytes.Buffer
	m := open(t, wire.VLLM, func(o *Options) { log = logged(o) }, start(t, wire.VLLM, plainAnswer))
	r, o, now := m.urls()[0], &outcome{err: errors.New("it answered 429")}, time.Now()
	for _, c := range []struct {
		after time.Duration
		lines int
	}{{0, 1}, {time.Second, 1}, {59 * time.Second, 1}, {60 * time.Second, 2}, {61 * time.Second, 2}} {
		m.full(r, o, now.Add(c.after))
		if n := strings.Count(log.String(), "a server of the model is full"); n != c.lines {
			t.Errorf("after %v: %d lines, want %d", c.after, n, c.lines)
		}
	}
	if n := m.counts.Full.Load(); n != 5 {
		t.Errorf("%d are counted", n)
	}
}

// TestRefusalIsToldOnceAMinute: a server that refuses the node does so for each request, and the log says it once.
func TestRefusalIsToldOnceAMinute(t *testing.T) {
	var log *bytes.Buffer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer server.Close()
	m := open(t, wire.Messages, func(o *Options) { log = logged(o); o.URLs, o.Counter = []string{server.URL}, counter{} })
	waitFor(t, "the server to be ready", m.anyReady)
	loop, want := newLoop(t, m), []string{"the model's server refuses this node", "answered 403"}
	for range 10 {
		if got := loop.ask("a", fmt.Sprintf(helloBody, "")); got.refused == nil && got.result.Err == nil {
			t.Fatalf("%+v", got)
		}
	}
	for _, text := range want {
		if n := strings.Count(log.String(), text); n != 1 {
			t.Errorf("%q is in %d lines of\n%s", text, n, log)
		}
	}
	r, o := m.urls()[0], &outcome{err: errors.New("it answered 403")}
	for i, after := range []time.Duration{2 * time.Minute, 2*time.Minute + 59*time.Second, 3 * time.Minute} {
		m.refusedBy(r, o, time.Now().Add(after))
		if n, lines := strings.Count(log.String(), want[0]), []int{2, 2, 3}[i]; n != lines {
			t.Errorf("after %v: %d lines, want %d", after, n, lines)
		}
	}
}
