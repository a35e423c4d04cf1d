package trace

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// listening gives each connection to a port of its own to serve, with its number from 1 on, until the test ends.
func listening(t *testing.T, serve func(c net.Conn, n int64)) (address string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for n := int64(1); ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c, n)
		}
	}()
	return ln.Addr().String()
}

// TestAKeptConnectionIsClosed: a collector, or a proxy before it, closes a connection when the next batch is on its way there.
func TestAKeptConnectionIsClosed(t *testing.T) {
	var second atomic.Int64
	address := listening(t, func(c net.Conn, n int64) {
		defer c.Close()
		in := bufio.NewReader(c)
		for i := 1; ; i++ {
			q, err := http.ReadRequest(in)
			if err != nil || n == 1 && i > 1 {
				return
			}
			_, _ = io.Copy(io.Discard, q.Body)
			if n == 2 {
				second.Add(1)
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	tracer := New(Config{Endpoint: "http://" + address, Timeout: time.Minute, Delay: time.Millisecond}, Node{},
		slog.New(slog.DiscardHandler))
	for n := range int64(2) {
		tracer.Take(full())
		sent(t, tracer, n+1)
	}
	_ = tracer.Close() // nothing waits
	if tracer.counts.Failed.Load() != 0 || second.Load() != 1 {
		t.Errorf("%d failed, %d came on the second connection", tracer.counts.Failed.Load(), second.Load())
	}
}

// TestAConnectionIsDead: of a connection of HTTP/2 that nothing comes on any more it is found out before the batch on it is given up.
func TestAConnectionIsDead(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for an answer to a ping")
	}
	var taken, dead atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		if q.ProtoMajor == 2 {
			taken.Add(1)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	address := listening(t, func(c net.Conn, n int64) {
		to, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			return
		}
		pass := func(to, from net.Conn) {
			defer to.Close()
			defer from.Close()
			for buf := make([]byte, 16<<10); ; {
				got, err := from.Read(buf)
				if err != nil {
					return
				}
				if n > dead.Load() {
					_, _ = to.Write(buf[:got])
				}
			}
		}
		go pass(c, to)
		pass(to, c)
	})
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	tracer := New(Config{Endpoint: "https://" + address, Timeout: 9 * time.Second, Delay: time.Millisecond,
		TLS: &tls.Config{RootCAs: roots}}, Node{}, slog.New(slog.DiscardHandler))
	for n := range int64(3) {
		tracer.Take(full())
		sent(t, tracer, n+1)
		dead.Store(1) // the first connection
	}
	_ = tracer.Close() // nothing waits
	if tracer.counts.Failed.Load() != 0 || taken.Load() != 3 {
		t.Errorf("%d failed, %d came over HTTP/2", tracer.counts.Failed.Load(), taken.Load())
	}
}

// broken is no answer, among those of a collector.
const broken = "broken"

type roundTrip func() (*http.Response, error)

func (f roundTrip) RoundTrip(*http.Request) (*http.Response, error) { return f() }

// TestACollectorIsAskedAgain: once for each batch, when it says so, and nothing is asked of it before.
func TestACollectorIsAskedAgain(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name    string
		answers []string // a status and what is in Retry-After, of the first requests
		waits   []time.Duration
		failed  int64 // of two batches
	}{
		{"no answer", []string{broken}, []time.Duration{second, 0}, 0},
		{"it does not say when", []string{"503 "}, []time.Duration{second, 0}, 0},
		{"in seconds", []string{"429 30"}, []time.Duration{30 * second, 0}, 0},
		{"a date", []string{"503 Sat, 01 Jan 2000 00:00:40 GMT"}, []time.Duration{40 * second, 0}, 0},
		{"a date that was", []string{"503 Fri, 31 Dec 1999 00:00:00 GMT"}, []time.Duration{second, 0}, 0},
		{"too long", []string{"504 86400"}, []time.Duration{retryMax, 0}, 0},
		{"more than fits", []string{"502 99999999999999999999"}, []time.Duration{retryMax, 0}, 0},
		{"nonsense", []string{"503 -9"}, []time.Duration{second, 0}, 0},
		{"it says so twice", []string{"503 30", "503 20"}, []time.Duration{30 * second, 20 * second}, 1},
		{"no answer twice", []string{broken, broken, broken}, []time.Duration{second, second, second}, 1},
		{"never", []string{"400 30"}, []time.Duration{0}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { askedAgain(t, c.answers, c.waits, c.failed) })
		})
	}
}

func askedAgain(t *testing.T, answers []string, want []time.Duration, failed int64) {
	var at []time.Time
	tracer := New(Config{Endpoint: "http://collector", Timeout: time.Minute, Delay: time.Hour}, Node{}, slog.New(slog.DiscardHandler))
	tracer.client.Transport = roundTrip(func() (*http.Response, error) {
		answer := "200 "
		if len(at) < len(answers) {
			answer = answers[len(at)]
		}
		at = append(at, time.Now())
		if answer == broken {
			return nil, errors.New(broken)
		}
		status, after, _ := strings.Cut(answer, " ")
		code, _ := strconv.Atoi(status)
		return &http.Response{StatusCode: code, Header: http.Header{"Retry-After": {after}}, Body: http.NoBody}, nil
	})
	for range 2 * batchMax {
		tracer.Take(full())
	}
	time.Sleep(30 * time.Minute)
	synctest.Wait()
	_ = tracer.Close() // nothing waits
	var waits []time.Duration
	for i := range at[1:] {
		waits = append(waits, at[i+1].Sub(at[i]))
	}
	if !slices.Equal(waits, want) || tracer.counts.Failed.Load() != failed*batchMax {
		t.Errorf("asked after %v, want %v; %d failed, want %d batches", waits, want, tracer.counts.Failed.Load(), failed)
	}
}

// TestACollectorIsAskedAgainAtTheEnd: a tracer that is closed asks once more within the time that it has, before as after the wait for
// that began, and what waits goes on its way then.
func TestACollectorIsAskedAgainAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		answer string // to the second request
		closed bool   // while it is asked for, else a moment after it
	}{
		{broken, true}, {broken, false}, {"503 30", true}, {"503 30", false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{Endpoint: "http://collector", Timeout: time.Minute, Delay: time.Hour}
				tracer := New(cfg, Node{}, slog.New(slog.DiscardHandler))
				asked, refused := 0, make(chan struct{})
				tracer.client.Transport = roundTrip(func() (*http.Response, error) {
					if err := tracer.asking.Err(); err != nil {
						return nil, err
					}
					if asked++; asked != 2 {
						return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
					}
					close(refused)
					if c.closed {
						<-tracer.stop
						time.Sleep(time.Millisecond)
					}
					if c.answer == broken {
						return nil, errors.New(broken)
					}
					return &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"30"}}, Body: http.NoBody}, nil
				})
				for range 4 * batchMax {
					tracer.Take(full())
				}
				<-refused
				synctest.Wait()
				_ = tracer.Close() // which the collector decides on
				if sent := tracer.counts.Sent.Load(); sent != 4*batchMax || asked != 5 {
					t.Errorf("%d traces were sent of %d, in %d requests", sent, 4*batchMax, asked)
				}
			})
		})
	}
}
