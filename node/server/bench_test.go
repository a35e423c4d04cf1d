//go:build unix

package server

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/wasm/abi"
)

// instantBackend answers in the call that admits, so that what is measured is
// the front end alone.
type instantBackend struct {
	fakeBackend
	events []abi.Event
}

type instantStream struct {
	out  *engine.Output
	held chan error
}

func (b *instantBackend) Generate(account.Call) (Stream, account.Limits, error) {
	s := instantStream{engine.NewOutput(64), make(chan error, 1)}
	s.held <- nil
	s.out.Push(b.events...)
	return s, b.limits, nil
}

func (s instantStream) Output() *engine.Output { return s.out }
func (s instantStream) Held() <-chan error     { return s.held }
func (s instantStream) Cancel()                {}

func (s instantStream) Shown()                    {}
func (s instantStream) Stopped() *abi.Error       { return nil }
func (s instantStream) Withhold() <-chan struct{} { return closedUnless(nil) }
func (s instantStream) Done() <-chan struct{}     { return closedUnless(nil) }
func (s instantStream) Settle() <-chan struct{}   { return closedUnless(nil) }
func (s instantStream) Outcome() (account.Settled, error) {
	return account.Settled{Charge: 1, Usage: abi.Usage{InputUncached: 3, Output: 2}, Reason: account.Finished}, nil
}

func benchNode(b *testing.B, backend Backend) string {
	s, err := New(bounded(Config{}), Deps{Backend: backend, Keys: testKeys(), Secret: []byte("s"),
		Catalog: fakeCatalog{"core-1.1": fakeModel{id: "core-1.1"}}})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
		<-done
	})
	return ln.Addr().String()
}

// cpu is the process's CPU time, client and server together.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPlain is one non-streaming request over a kept connection. The CPU
// includes a minimal client's.
func BenchmarkPlain(b *testing.B) {
	events := append(append(begin(), delta("hello")), end()...)
	addr := benchNode(b, &instantBackend{events: events})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	body := strings.Replace(ask, `"hi"`, `"`+strings.Repeat("a", 230)+`"`, 1)
	req := []byte(request("POST", "/v1/messages", body, withKey, withJSON))
	buf := make([]byte, 8192)
	begun := cpu(b)
	for b.Loop() {
		if _, err := c.Write(req); err != nil {
			b.Fatal(err)
		}
		n, err := c.Read(buf)
		if err != nil || !bytes.Contains(buf[:n], []byte("200 OK")) {
			b.Fatal(err, string(buf[:n]))
		}
	}
	b.ReportMetric(float64((cpu(b)-begun).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// BenchmarkStreamedEvent is one event of many slow streams: each event wakes
// its writer, is encoded, and leaves in a write of its own.
func BenchmarkStreamedEvent(b *testing.B) {
	const streams = 32
	backend := newFakeBackend(func(s *fakeStream) { <-s.cancelled })
	addr := benchNode(b, backend)
	var readers sync.WaitGroup
	defer readers.Wait()
	var outs []*fakeStream
	for range streams {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.WriteString(c, request("POST", "/v1/messages", askSSE, withKey)); err != nil {
			b.Fatal(err)
		}
		s := <-backend.streams
		s.out.Push(begin()...)
		outs = append(outs, s)
		r := bufio.NewReaderSize(c, 64<<10)
		if _, err := r.Peek(1); err != nil {
			b.Fatal(err)
		}
		readers.Go(func() { _, _ = io.Copy(io.Discard, r) }) // ends with the connection
		defer c.Close()                                      // before Wait, which was deferred first
	}
	event := delta(" token")
	begun := cpu(b)
	i := 0
	for b.Loop() {
		s := outs[i%streams]
		for !s.out.Room() {
			time.Sleep(time.Microsecond)
		}
		s.out.Push(event)
		if i++; i%streams == 0 {
			time.Sleep(200 * time.Microsecond) // the pace of a batch: no coalescing
		}
	}
	b.ReportMetric(float64((cpu(b)-begun).Nanoseconds())/float64(b.N), "cpu-ns/event")
}

// BenchmarkIdleStream reports the memory of one open stream that waits: heap
// and stacks of the server, with a client that holds nothing but its socket.
func BenchmarkIdleStream(b *testing.B) {
	const streams = 500
	backend := newFakeBackend(nil)
	addr := benchNode(b, &idleBackend{backend})
	req := request("POST", "/v1/messages", askSSE, withKey)
	before := memory()
	for range streams {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, req); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		b.ReportMetric(float64(memory()-before)/streams, "B/stream")
	}
}

func memory() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// idleBackend admits streams that say nothing and cost no goroutine.
type idleBackend struct {
	*fakeBackend
}

func (b *idleBackend) Generate(account.Call) (Stream, account.Limits, error) {
	s := instantStream{engine.NewOutput(64), make(chan error, 1)}
	s.held <- nil
	return s, b.limits, nil
}
