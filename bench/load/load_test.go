package load

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestReadReply(t *testing.T) {
	cases := []struct {
		name, in string
		want     reply
		body     string
		fails    bool
	}{
		{"length", "HTTP/1.1 200 OK\r\nX: y\r\ncontent-length: 5\r\n\r\nhello", reply{status: 200, chunks: 1}, "hello", false},
		{"empty body", "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", reply{status: 204, chunks: 1}, "", false},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", reply{status: 200, chunks: 2}, "abc0123456789", false},
		{"close", "HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", reply{status: 503, chunks: 1, close: true}, "x", false},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n", reply{}, "", true},
		{"cut body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", reply{}, "", true},
		{"cut chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", reply{}, "", true},
		{"no end of chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", reply{}, "", true},
		{"huge length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", reply{}, "", true},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", reply{}, "", true},
		{"bad chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n", reply{}, "", true},
		{"not HTTP", "hello\r\n", reply{}, "", true},
		{"no status", "HTTP/1.1 abc\r\n\r\n", reply{}, "", true},
		{"endless headers", "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", 257), reply{}, "", true},
		{"nothing", "", reply{}, "", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := readReply(bufio.NewReader(strings.NewReader(c.in)), nil, nil)
			if (err != nil) != c.fails {
				t.Fatalf("error %v, want one: %v", err, c.fails)
			}
			if c.fails {
				return
			}
			if string(got.body) != c.body || got.status != c.want.status || got.chunks != c.want.chunks || got.close != c.want.close {
				t.Errorf("got %+v with body %q, want %+v with %q", got, got.body, c.want, c.body)
			}
		})
	}
}

func TestCountEvents(t *testing.T) {
	cases := []struct {
		in   string
		want sseCount
	}{
		{"event: message_start\ndata: {}\n\nevent: content_block_delta\ndata: {}\n\nevent: message_stop\ndata: {}\n\n", sseCount{3, 1, true}},
		{"event: content_block_delta\ndata: \"event: content_block_delta\"\n\n", sseCount{1, 1, false}},
		{"event: message_stop\ndata: {}\n\nevent: error\ndata: {}\n\n", sseCount{2, 0, false}},
		{": waiting\n\nevent: a\n\n", sseCount{1, 0, false}},
		{"event: event: x\n\n", sseCount{1, 0, false}},
		{"event: ", sseCount{1, 0, false}},
		{"", sseCount{}},
	}
	for _, c := range cases {
		if got := countEvents([]byte(c.in)); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.in, got, c.want)
		}
	}
}

func TestOutputTokens(t *testing.T) {
	for in, want := range map[string]int{
		`{"output_tokens":1},{"output_tokens":256}`: 256, `{"output_tokens":`: 0, `{"output_tokens":x}`: 0, ``: 0,
	} {
		if got := outputTokens([]byte(in)); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}

// serve is a server of Go's library: another implementation of HTTP.
func serve(t *testing.T, handler http.HandlerFunc) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: handler}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	return ln.Addr().String()
}

func run(t *testing.T, addr string, stream bool) (Result, error) {
	c, err := Open(t.Context(), addr, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := []byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	return c.Run(t.Context(), Request{req, stream}, 30*time.Millisecond)
}

func TestRunCountsWhatTheServerSent(t *testing.T) {
	const flushes = 5
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err != nil || string(b) != "{}" {
			http.Error(w, "not what was sent", 400)
			return
		}
		for range flushes {
			io.WriteString(w, "event: content_block_delta\ndata: {}\n\n")
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, "event: message_delta\ndata: {\"output_tokens\":5}\n\nevent: message_stop\ndata: {}\n\n")
	})
	r, err := run(t, addr, true)
	if err != nil || r.Replies < 3 { // each client sends at least one
		t.Fatalf("%d replies, error %v", r.Replies, err)
	}
	if r.Events != 7*r.Replies || r.Deltas != flushes*r.Replies || r.Tokens != 5*r.Replies || r.Chunks != (flushes+1)*r.Replies {
		t.Errorf("result %+v", r)
	}
	if r.Latency.TotalCount() != r.Replies || r.First.TotalCount() != r.Replies || r.Latency.Max() < r.First.Min() {
		t.Errorf("%d latencies, %d first bytes of %d replies", r.Latency.TotalCount(), r.First.TotalCount(), r.Replies)
	}
}

func TestRunEndsWithTheFirstWrongReply(t *testing.T) {
	cases := map[string]struct {
		handler http.HandlerFunc
		stream  bool
		want    string
	}{
		"status":          {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "slow down", http.StatusTooManyRequests) }, false, "429"},
		"cut stream":      {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "event: error\ndata: {}\n\n") }, true, "message_stop"},
		"closed each one": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }, false, "closes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := run(t, serve(t, c.handler), c.stream); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	c, err := Open(t.Context(), addr, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := c.Run(ctx, Request{Bytes: req}, time.Hour); err == nil {
		t.Error("a run without a reply succeeded")
	}
}

func FuzzReadReply(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := readReply(bufio.NewReader(bytes.NewReader(in)), nil, nil)
		if err == nil && (len(got.body) > len(in) || got.status < 100) {
			t.Errorf("%+v of %d bytes", got, len(in))
		}
		c := countEvents(in)
		if c.events != bytes.Count(append([]byte("\n"), in...), []byte("\nevent: ")) || c.deltas > c.events {
			t.Errorf("%+v", c)
		}
		_ = outputTokens(in)
	})
}

func TestAskTimesTheFirstOutput(t *testing.T) {
	const pause = 20 * time.Millisecond
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":64,\"output_tokens\":1}}}\n\n")
		w.(http.Flusher).Flush()
		for _, piece := range []string{"a", "b"} {
			time.Sleep(pause)
			io.WriteString(w, "event: content_block_delta\ndata: {\"delta\":{\"type\":\"text_delta\",\"text\":\""+piece+"\"}}\n\n")
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, "event: message_delta\ndata: {\"usage\":{\"output_tokens\":2}}\n\nevent: message_stop\ndata: {}\n\n")
	})
	a, err := Ask(t.Context(), addr, []byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"))
	if err != nil {
		t.Fatal(err)
	}
	if a.Text != "ab" || a.Input != 7 || a.Cached != 64 || a.Output != 2 {
		t.Errorf("%+v", a)
	}
	// What the server waits before it is a lower bound; there are no upper ones.
	if a.First < pause || a.Decode() < 0 || a.Whole != a.First+a.Decode() {
		t.Errorf("first after %v, decode %v, whole %v", a.First, a.Decode(), a.Whole)
	}
}

func TestAskRefusesWhatIsNoAnswer(t *testing.T) {
	cases := map[string]string{
		"message_stop": "event: content_block_delta\ndata: {}\n\nevent: error\ndata: {}\n\n",
		"no output":    "event: message_start\ndata: {}\n\nevent: message_stop\ndata: {}\n\n",
		"event":        "event: content_block_delta\ndata: {\n\nevent: message_stop\ndata: {}\n\n",
	}
	for want, body := range cases {
		addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush() // chunks
			io.WriteString(w, body)
		})
		_, err := Ask(t.Context(), addr, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", 529) })
	if _, err := Post(t.Context(), addr, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err == nil || !strings.Contains(err.Error(), "529") {
		t.Errorf("error %v, want one with 529", err)
	}
}
