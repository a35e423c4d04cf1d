package client

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestTargets(t *testing.T) {
	cases := []struct {
		in   string
		want Target
	}{
		{"http://127.0.0.1:8080", Target{false, "127.0.0.1:8080", "127.0.0.1", "127.0.0.1:8080", ""}},
		{"https://example.org", Target{true, "example.org", "example.org", "example.org:443", ""}},
		{"http://example.org/", Target{false, "example.org", "example.org", "example.org:80", ""}},
		{"http://[::1]:8080/base/v1/", Target{false, "[::1]:8080", "::1", "[::1]:8080", "/base"}},
		{"http://[::1]", Target{false, "[::1]", "::1", "[::1]:80", ""}},
	}
	for _, c := range cases {
		if got, err := ParseTarget(c.in); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{"", "127.0.0.1:8080", "ftp://x", "http://", "http://u:p@x", "http://x?a=b", "http://%zz"} {
		if got, err := ParseTarget(in); err == nil {
			t.Errorf("%q became %+v", in, got)
		}
	}
}

func TestWaits(t *testing.T) {
	for in, want := range map[string]time.Duration{"3": 3 * time.Second, "0.5": time.Second / 2, "-1": -1, "soon": -1, "": -1, "Thu, 01 Jan 1970 00:00:00 GMT": 0} {
		if got := parseSeconds([]byte(in)); got != want {
			t.Errorf("Retry-After %q: %v, want %v", in, got, want)
		}
	}
	for in, want := range map[string]time.Duration{
		"queue;dur=12.5": 12500 * time.Microsecond, `prefill;dur=3, queue;desc="x";dur=2`: 2 * time.Millisecond,
		"queue": -1, "queues;dur=1": -1, "queue;dur=x": -1, "": -1,
	} {
		if got := serverTiming([]byte(in), "queue"); got != want {
			t.Errorf("Server-Timing %q: %v, want %v", in, got, want)
		}
	}
}

// dial connects to a server.
func dial(t *testing.T, address string, o Options) (*Pool, *Conn) {
	target, err := ParseTarget(address)
	if err != nil {
		t.Fatal(err)
	}
	o.Connect = 10 * time.Second
	p := NewPool(target, o)
	t.Cleanup(p.Close)
	c, used, err := p.Get(t.Context())
	if err != nil || used {
		t.Fatalf("get: used %v, error %v", used, err)
	}
	return p, c
}

func later() time.Time { return time.Now().Add(time.Minute) }

// body reads a reply to its end.
func body(c *Conn) (head Head, whole string, err error) {
	if head, err = c.ReadHead(); err != nil {
		return head, "", err
	}
	for {
		piece, err := c.Piece()
		if errors.Is(err, io.EOF) {
			return head, whole, nil
		}
		if err != nil {
			return head, whole, err
		}
		if len(piece) == 0 {
			return head, whole, errors.New("an empty piece")
		}
		whole += string(piece)
	}
}

// The oracle is the server of Go's library.
func TestExchangesOnOneConnection(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	replies := map[string]http.HandlerFunc{
		"/length": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "short") },
		"/big":    func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, big) },
		"/none":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"/chunks": func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				io.WriteString(w, "piece ")
				w.(http.Flusher).Flush()
			}
		},
		"/early": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			io.WriteString(w, "late")
		},
		"/busy": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Server-Timing", "queue;dur=3")
			http.Error(w, "slow down", http.StatusTooManyRequests)
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || string(b) != "{}" || r.Header.Get("X-Api-Key") != "k" || r.Header.Get("X-Session-Id") != "s" {
			http.Error(w, "not what was sent", http.StatusBadRequest)
			return
		}
		replies[r.URL.Path](w, r)
	}))
	defer server.Close()
	p, c := dial(t, server.URL, Options{})
	for path, want := range map[string]string{"/length": "short", "/big": big, "/none": "", "/chunks": "piece piece piece ", "/early": "late", "/busy": "slow down\n"} {
		if err := c.Send(p.target.Head(path, true, "x-api-key: k\r\n"), "X-Session-Id: s\r\n", []byte("{}"), later()); err != nil {
			t.Fatal(err)
		}
		head, got, err := body(c)
		if err != nil || got != want {
			t.Fatalf("%s: %d bytes %.50q, error %v, head %+v", path, len(got), got, err, head)
		}
		if path == "/busy" && (head.Status != 429 || head.RetryAfter != 7*time.Second || head.Queue != 3*time.Millisecond ||
			!strings.HasPrefix(head.ContentType, "text/plain")) {
			t.Errorf("%s: %+v", path, head)
		}
		p.Put(c)
		again, used, err := p.Get(t.Context())
		if err != nil || !used || again != c {
			t.Fatalf("%s: the connection was not kept: %v", path, err)
		}
	}
	if p.Opened() != 1 {
		t.Errorf("%d connections", p.Opened())
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "safe") }))
	server.TLS = &tls.Config{}
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()
	p, c := dial(t, server.URL, Options{Insecure: true})
	if err := c.Send(p.target.Head("/", false, ""), "", []byte("{}"), later()); err != nil {
		t.Fatal(err)
	}
	if _, got, err := body(c); err != nil || got != "safe" {
		t.Errorf("%q, %v", got, err)
	}
}

// raw is a connection whose server says what it is told, and closes.
func raw(t *testing.T, reply string) *Conn {
	ours, theirs := net.Pipe()
	go func() {
		io.WriteString(theirs, reply)
		theirs.Close()
	}()
	t.Cleanup(func() { ours.Close() })
	return &Conn{conn: ours, Reader: NewReader(bufio.NewReaderSize(ours, readBuffer))}
}

func TestRawReplies(t *testing.T) {
	cases := []struct {
		name, in, body string
		reusable       bool
		fails          string // the kind of error
	}{
		{"length", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "hello", true, ""},
		{"chunks and trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nX: y\r\n\r\n", "abc0123456789", true, ""},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\nhello", "hello", false, ""},
		{"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", "x", false, ""},
		{"old", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", false, ""},
		{"lone line ends", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", "x", true, ""},
		{"more than asked for", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy", "x", false, ""},
		{"cut body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "hello", false, "EOF"},
		{"cut chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", "abc", false, "EOF"},
		{"cut between chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "abc", false, "EOF"},
		{"cut head", "HTTP/1.1 200 OK\r\nContent", "", false, "EOF"},
		{"long chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", "abc", false, "HTTP"},
		{"bad length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "", false, "HTTP"},
		{"bad chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n", "", false, "HTTP"},
		{"not HTTP", "hello\r\n", "", false, "HTTP"},
		{"no status", "HTTP/1.1 abc\r\n\r\n", "", false, "HTTP"},
		{"endless headers", "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", headersMax+1), "", false, "HTTP"},
		{"endless line", "HTTP/1.1 200 OK\r\na: " + strings.Repeat("b", readBuffer) + "\r\n", "", false, "HTTP"},
		{"nothing", "", "", false, "EOF"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			conn := raw(t, c.in)
			_, got, err := body(conn)
			kind := ""
			switch {
			case errors.Is(err, ErrNotHTTP):
				kind = "HTTP"
			case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
				kind = "EOF"
			case err != nil:
				kind = fmt.Sprint(err)
			}
			if kind != c.fails || got != c.body || err == nil && conn.reusable() != c.reusable {
				t.Errorf("body %q, error %v, reusable %v", got, err, conn.reusable())
			}
		})
	}
}

func TestPoolThatIsClosed(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	p, c := dial(t, server.URL, Options{})
	p.Close()
	if err := c.Answered(); err == nil {
		t.Error("a connection outlived its pool")
	}
	if _, _, err := p.Get(t.Context()); err == nil {
		t.Error("a closed pool gave a connection")
	}
	if u, _ := url.Parse(server.URL); u.Host != p.target.Host {
		t.Errorf("host %q", p.target.Host)
	}
}

func FuzzReply(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := &Conn{Reader: NewReader(bufio.NewReaderSize(strings.NewReader(string(in)), readBuffer))}
		if head, got, err := body(c); err == nil && (len(got) > len(in) || head.Status < 200) {
			t.Errorf("%+v, %d bytes of %d", head, len(got), len(in))
		}
	})
}
