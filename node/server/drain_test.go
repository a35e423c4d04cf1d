package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"corenode/wasm/abi"
)

func TestDrain(t *testing.T) {
	goOn := make(chan struct{})
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-goOn
		s.out.Push(delta("done"))
		s.out.Push(end()...)
	})
	n := start(t, Config{}, backend)
	c := n.dial()
	if _, err := io.WriteString(c, request("POST", "/v1/messages", askSSE, withKey)); err != nil {
		t.Fatal(err)
	}
	<-backend.streams
	drained := make(chan error, 1)
	go func() { drained <- n.s.Drain(t.Context()) }()
	waitFor(t, "draining", n.s.Draining)
	for _, body := range []string{ask, askSSE} {
		r := n.post(body)
		checkIDs(t, r)
		if r.StatusCode != 503 || r.errorType(t) != "overloaded_error" || r.Header.Get("Retry-After") == "" || r.Header.Get("Retry-After-Ms") == "" {
			t.Errorf("%d %q %v", r.StatusCode, r.body, r.Header)
		}
	}
	if r := n.raw(request("GET", "/readyz", "")); r.StatusCode != 503 {
		t.Errorf("readyz says %d", r.StatusCode)
	}
	if r := n.raw(request("GET", "/health", "")); r.StatusCode != 503 {
		t.Errorf("health says %d", r.StatusCode)
	}
	if r := n.raw(request("GET", "/healthz", "")); r.StatusCode != 200 {
		t.Errorf("healthz says %d", r.StatusCode)
	}
	if r := n.raw(request("POST", "/v1/messages", ask)); r.StatusCode != 401 {
		t.Errorf("a stranger was told %d", r.StatusCode)
	}
	select {
	case err := <-drained:
		t.Fatalf("drained with a stream open: %v", err)
	default:
	}
	close(goOn)
	if r := read(t, bufio.NewReader(c), "POST"); !strings.Contains(r.body, "message_stop") {
		t.Errorf("the stream did not finish: %q", r.body)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", n.addr); err == nil {
		t.Error("the listener is open after the drain")
	}
}

func TestDrainDeadline(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-s.cancelled
		s.cancelledAs(abi.Usage{InputUncached: 3}, 1, 1, 0)
	})
	n := start(t, Config{}, backend)
	stream, plain := n.dial(), n.dial()
	var admitted []*fakeStream
	for c, body := range map[net.Conn]string{stream: askSSE, plain: ask} {
		if _, err := io.WriteString(c, request("POST", "/v1/messages", body, withKey)); err != nil {
			t.Fatal(err)
		}
		admitted = append(admitted, <-backend.streams)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := n.s.Drain(ctx); err != nil {
		t.Error(err)
	}
	r := read(t, bufio.NewReader(stream), "POST")
	if got := frames(t, r.body); got[len(got)-1] != "error" || !strings.Contains(r.body, "overloaded_error") || strings.Contains(r.body, "message_stop") {
		t.Errorf("%q", r.body)
	}
	if r := read(t, bufio.NewReader(plain), "POST"); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	for _, s := range admitted { // what got a 503 is sent again, and free
		if !s.withheld.Load() {
			t.Errorf("stream %t: it is not withheld", s.call.Request.Stream)
		}
	}
}

// TestLeave: a node that will drain says so to who asks whether it is ready, and serves.
func TestLeave(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	n.s.Leave()
	for path, want := range map[string]int{"/readyz": 503, "/health": 503, "/healthz": 200} {
		if r := n.raw(request("GET", path, "")); r.StatusCode != want {
			t.Errorf("%s says %d", path, r.StatusCode)
		}
	}
	if r := n.adminRaw(strings.Replace(request("GET", "/readyz", ""), "Host: node", "Host: localhost", 1)); r.StatusCode != 503 || r.body != "draining\n" {
		t.Errorf("the admin listener says %d %q", r.StatusCode, r.body)
	}
	var samples strings.Builder
	n.s.WriteSamples(&samples)
	if !strings.Contains(samples.String(), "\ncorenode_draining 1\n") {
		t.Error("corenode_draining is not 1")
	}
	if r := n.post(askSSE); r.StatusCode != 200 || r.Close || !strings.Contains(r.body, "message_stop") {
		t.Errorf("a stream gets %d %q", r.StatusCode, r.body)
	}
	if n.s.Draining() {
		t.Error("it drains")
	}
}

// TestDrainEndsConnectionsItRefuses: what a client sends next goes to another node, which it would not on the same connection.
func TestDrainEndsConnectionsItRefuses(t *testing.T) {
	goOn := make(chan struct{})
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-goOn
		s.out.Push(delta("done"))
		s.out.Push(end()...)
	})
	n := start(t, Config{}, backend)
	stream := n.dial()
	if _, err := io.WriteString(stream, request("POST", "/v1/messages", askSSE, withKey)); err != nil {
		t.Fatal(err)
	}
	<-backend.streams
	drained := make(chan error, 1)
	go func() { drained <- n.s.Drain(t.Context()) }()
	waitFor(t, "draining", n.s.Draining)
	for _, req := range []string{request("GET", "/v1/models", "", withKey), request("POST", "/v1/messages", ask, withKey)} {
		if r := n.raw(req); r.StatusCode != 503 || !r.Close {
			t.Errorf("%.20q: %d, the connection ends: %v", req, r.StatusCode, r.Close)
		}
	}
	close(goOn)
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// TestDrainDeadlineWhileReading: the deadline also ends requests whose body does
// not come, or comes byte by byte.
func TestDrainDeadlineWhileReading(t *testing.T) {
	n := start(t, Config{ReadTimeout: time.Hour, BodyTimeout: time.Hour}, newFakeBackend(say("x")))
	head := func(headers ...string) string {
		return request("POST", "/v1/messages", "", append(headers, withKey)...)
	}
	all := map[string]net.Conn{}
	for name, req := range map[string]string{
		"half":    head("Content-Length: 100") + "{",
		"chunks":  head("Transfer-Encoding: chunked") + "1\r\n{\r\n",
		"a lot":   head("Content-Length: 1000000") + strings.Repeat(" ", 2*progressStep),
		"trickle": head("Content-Length: 1000000") + "{",
	} {
		all[name] = n.dial()
		if _, err := io.WriteString(all[name], req); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for err := error(nil); err == nil; time.Sleep(time.Millisecond) { // ends with the connection
			_, err = io.WriteString(all["trickle"], " ")
		}
	}()
	waitFor(t, "all read their bodies", func() bool { return n.s.requests.count() == len(all) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.s.Drain(ctx); err != nil {
		t.Error(err)
	}
	for name, c := range all {
		if r := read(t, bufio.NewReader(c), "POST"); r.StatusCode != 503 || r.errorType(t) != "overloaded_error" || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %q", name, r.StatusCode, r.body)
		}
	}
}

// slowCatalog finds a model when it is told to go on.
type slowCatalog struct {
	fakeCatalog
	asked, goOn chan struct{}
}

func (c slowCatalog) Model(id string) (Model, bool) {
	c.asked <- struct{}{}
	<-c.goOn
	return c.fakeCatalog.Model(id)
}

// TestDrainDeadlineBeforePrepare: after the deadline no prompt is prepared.
func TestDrainDeadlineBeforePrepare(t *testing.T) {
	catalog := slowCatalog{asked: make(chan struct{}), goOn: make(chan struct{}), fakeCatalog: fakeCatalog{
		"core-1.1": fakeModel{id: "core-1.1", prepare: func() { t.Error("a prompt was prepared") }}}}
	n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) { d.Catalog = catalog })
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
		c := n.dial()
		if _, err := io.WriteString(c, request("POST", path, ask, withKey)); err != nil {
			t.Fatal(err)
		}
		<-catalog.asked
		defer func() {
			if r := read(t, bufio.NewReader(c), "POST"); r.StatusCode != 503 || r.errorType(t) != "overloaded_error" {
				t.Errorf("%s: %d %q", path, r.StatusCode, r.body)
			}
		}()
	}
	n.s.abortAll()
	close(catalog.goOn)
}

// Connections without a request do not hold up a drain: neither fresh ones, nor
// idle ones, nor one that stopped in the middle of its headers.
func TestDrainEndsIdleConnections(t *testing.T) {
	n := start(t, Config{ReadTimeout: time.Hour, IdleTimeout: time.Hour}, newFakeBackend(say("x")))
	idle, half, fresh := n.dial(), n.dial(), n.dial()
	if _, err := io.WriteString(idle, request("GET", "/healthz", "")); err != nil {
		t.Fatal(err)
	}
	read(t, bufio.NewReader(idle), "GET")
	if _, err := io.WriteString(half, "POST /v1/mess"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "all accepted", func() bool {
		n.s.conns.mu.Lock()
		defer n.s.conns.mu.Unlock()
		return len(n.s.conns.open) == 3
	})
	if err := n.s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	for _, c := range []net.Conn{idle, half, fresh} {
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("not closed in order: %v", err)
		}
	}
	if open := len(n.s.conns.open); open != 0 {
		t.Errorf("%d connections are counted as open", open)
	}
}

// TestDrainOfConnectionsAheadOfTime: one that a client opened and sent nothing on ends without an answer, which would be
// taken for that of the first request.
func TestDrainOfConnectionsAheadOfTime(t *testing.T) {
	n := start(t, Config{ReadTimeout: time.Hour}, newFakeBackend(nil))
	var fresh [8]net.Conn
	for i := range fresh {
		fresh[i] = n.dial()
	}
	waitFor(t, "all are served", func() bool { return n.s.public.GetOpenConnectionsCount() == int32(len(fresh)) })
	if err := n.s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	for _, c := range fresh {
		if got, err := io.ReadAll(c); err != nil || len(got) != 0 {
			t.Errorf("read %q, %v; want silence", got, err)
		}
	}
	n.checkUnasked("a drain")
}

// partedListener accepts connections whose end is seen: each says when it closes its half, and then waits for open.
type partedListener struct {
	net.Listener
	parted atomic.Int32
	open   chan struct{}
}

func (l *partedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return partedConn{c.(*net.TCPConn), l}, nil
}

type partedConn struct {
	*net.TCPConn
	l *partedListener
}

func (c partedConn) CloseWrite() error {
	c.l.parted.Add(1)
	<-c.l.open
	return c.TCPConn.CloseWrite()
}

// TestDrainEndsIdleConnectionsTogether: clients that do not close their idle connections are waited for all at once.
// On one processor fasthttp begins to close them before any of their goroutines has ended.
func TestDrainEndsIdleConnectionsTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	n := start(t, Config{IdleTimeout: time.Hour}, newFakeBackend(say("x")))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	parted := &partedListener{Listener: ln, open: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- n.s.Serve(parted) }()
	const idle = 50
	for range idle {
		c := n.dialTo(ln.Addr().String())
		if _, err := io.WriteString(c, request("GET", "/healthz", "")); err != nil {
			t.Fatal(err)
		}
		read(t, bufio.NewReader(c), "GET")
	}
	drained := make(chan error, 1)
	go func() { drained <- n.s.Drain(t.Context()) }()
	defer func() {
		close(parted.open)
		if err := errors.Join(<-drained, <-served); err != nil {
			t.Error(err)
		}
	}()
	waitFor(t, "all of them end at the same time", func() bool { return parted.parted.Load() == idle })
}

// lateConn is a connection whose server sets the deadline of its next request when it has been told to end already.
type lateConn struct {
	*net.TCPConn
	late func() // called once
}

func (c *lateConn) SetReadDeadline(end time.Time) error {
	err := c.TCPConn.SetReadDeadline(end)
	if late := c.late; late != nil {
		c.late = nil
		late()
	}
	return err
}

// connected is both ends of a TCP connection, of which the client's is closed when the test ends.
func connected(t *testing.T) (client, accepted net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	accepted, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return client, accepted
}

// TestDrainBesideAnAnswersEnd: a connection that a drain ends just after its answer is not waited for as long as an idle one
// may be: fasthttp sets that deadline after it has said that the connection is idle.
func TestDrainBesideAnAnswersEnd(t *testing.T) {
	_, accepted := connected(t)
	all := &connections{open: map[*conn]struct{}{}}
	late := &lateConn{TCPConn: accepted.(*net.TCPConn)}
	c := &conn{Conn: late, socket: -1, of: all}
	late.late = func() {
		if err := c.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
	}
	all.add(c, 1)
	c.finished.Store(true)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it is closed", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.open) == 0
	})
}

// What a client had begun to send when a drain ended its connection does not make
// the connection reset: whoever is reset cannot tell what became of the request.
func TestDrainBesideFirstBytes(t *testing.T) {
	client, raw := connected(t)
	if _, err := io.WriteString(client, "POST /v1/mess"); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Read(make([]byte, 4)); err != nil { // the rest has come too, and waits in the kernel
		t.Fatal(err)
	}
	cs := connections{open: map[*conn]struct{}{}}
	c := &conn{Conn: raw, of: &cs}
	cs.add(c, 1)
	if err := cs.finish(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 100)); n != 0 || err != io.EOF {
		t.Errorf("read %d bytes of a finished connection: %v", n, err)
	}
	closed := make(chan error)
	go func() { closed <- c.Close() }()
	if _, err := io.Copy(io.Discard, client); err != nil {
		t.Errorf("not closed in order: %v", err)
	}
	client.Close()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{BodyMax: 10, KeepAlive: -1, PreparesMax: -1}, Deps{})
	for _, want := range []string{"BodiesMax", "KeepAlive", "PreparesMax", "Backend", "Catalog", "Keys"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
}
