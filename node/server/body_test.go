package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

func gzipped(t testing.TB, s []byte) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstded(t testing.TB, s []byte, opts ...zstd.EOption) string {
	w, err := zstd.NewWriter(nil, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return string(w.EncodeAll(s, nil))
}

func chunked(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	return b.String() + "0\r\n\r\n"
}

// padded is a good body of exactly n bytes.
func padded(n int) string {
	const head, tail = `{"ignored":"`, `",` // + ask without its brace
	return head + strings.Repeat("p", n-len(head)-len(tail)-len(ask)+1) + tail + ask[1:]
}

func TestBodies(t *testing.T) {
	const limit = 256 << 10
	n := start(t, Config{BodyMax: limit, BodiesMax: 64 << 20}, newFakeBackend(say("x")))
	bomb := make([]byte, 8<<20)
	wide := bytes.Repeat([]byte(ask+strings.Repeat(" ", 100)), 200<<10)
	cases := []struct {
		name, encoding, body string
		status               int
	}{
		{"gzip", "gzip", gzipped(t, []byte(ask)), 200},
		{"x-gzip", "X-GZIP", gzipped(t, []byte(ask)), 200},
		{"zstd", "zstd", zstded(t, []byte(ask)), 200},
		{"identity", "identity", ask, 200},
		{"deflate", "deflate", ask, 415},
		{"brotli", "br", ask, 415},
		{"two at once", "gzip, zstd", ask, 415},
		{"gzip that is not", "gzip", ask, 400},
		{"zstd that is not", "zstd", ask, 400},
		{"gzip cut short", "gzip", gzipped(t, []byte(ask))[:40], 400},
		{"zstd cut short", "zstd", zstded(t, []byte(padded(4000)))[:30], 400},
		{"gzip with a wrong sum", "gzip", func() string { b := []byte(gzipped(t, []byte(ask))); b[len(b)-5] ^= 1; return string(b) }(), 400},
		{"gzip of nothing", "gzip", gzipped(t, nil), 400},
		{"gzip bomb", "gzip", gzipped(t, bomb), 413},
		{"zstd bomb", "zstd", zstded(t, bomb), 413},
		{"zstd window over the cap", "zstd", zstded(t, wide[:20<<20], zstd.WithWindowSize(16<<20), zstd.WithSingleSegment(false)), 413},
		{"exactly the limit", "", padded(limit), 200},
		{"one byte over", "", padded(limit + 1), 413},
		{"gzip of exactly the limit", "gzip", gzipped(t, []byte(padded(limit))), 200},
		{"gzip of one byte over", "gzip", gzipped(t, []byte(padded(limit+1))), 413},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n.t = t
			headers := []string{withKey}
			if c.encoding != "" {
				headers = append(headers, "Content-Encoding: "+c.encoding)
			}
			for _, frame := range []string{"length", "chunks"} {
				req := request("POST", "/v1/messages", c.body, headers...)
				if frame == "chunks" {
					half := len(c.body) / 2
					req = request("POST", "/v1/messages", "", append(headers, "Transfer-Encoding: chunked")...) + chunked(c.body[:half], c.body[half:])
				}
				r := n.raw(req)
				checkIDs(t, r)
				if r.StatusCode != c.status {
					t.Errorf("%s: %d, want %d: %.300q", frame, r.StatusCode, c.status, r.body)
				}
				if r.StatusCode >= 400 {
					r.errorType(t)
				}
			}
		})
	}
	n.t = t
}

// A client that announces a body and asks before it sends is refused without sending it.
func TestExpectContinue(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	head := func(headers ...string) string {
		return request("POST", "/v1/messages", "", append(headers, fmt.Sprintf("Content-Length: %d", len(ask)), "Expect: 100-continue")...)
	}
	if r := n.raw(head("X-Api-Key: nope")); r.StatusCode != 401 {
		t.Errorf("a wrong key got %d", r.StatusCode)
	}
	if r := n.raw(request("POST", "/v1/messages", "", withKey, "Content-Length: 99999999999", "Expect: 100-continue")); r.StatusCode != 413 {
		t.Errorf("a huge body got %d", r.StatusCode)
	}
	for _, expect := range []string{"100-continue", "100-Continue"} { // whose case does not matter (RFC 9110, section 10.1.1)
		if r := n.adminRaw(request("POST", "/", "", "Content-Length: 5", "Expect: "+expect)); r.StatusCode != 100 {
			t.Errorf("%s at the admin listener: %d", expect, r.StatusCode)
		}
		c := n.dial()
		if _, err := io.WriteString(c, strings.Replace(head(withKey), "100-continue", expect, 1)); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
			t.Fatalf("%s: %q, %v", expect, line, err)
		}
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, ask); err != nil {
			t.Fatal(err)
		}
		if got := read(t, r, "POST"); got.StatusCode != 200 {
			t.Errorf("%s: %d %q", expect, got.StatusCode, got.body)
		}
	}
}

func TestBodyArrivesLate(t *testing.T) {
	n := start(t, Config{ReadTimeout: 2 * time.Second}, newFakeBackend(say("x")))
	late := map[string]net.Conn{}
	for name, req := range map[string]string{
		"headers":      "POST /v1/messages HTTP/1.1\r\nHost: n\r\nX-A",
		"no body":      request("POST", "/v1/messages", "", withKey, "Content-Length: 100"),
		"half a body":  request("POST", "/v1/messages", "", withKey, "Content-Length: 100") + "{",
		"half a chunk": request("POST", "/v1/messages", "", withKey, "Transfer-Encoding: chunked") + "40\r\n{",
	} {
		late[name] = n.dial()
		if _, err := io.WriteString(late[name], req); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range late {
		r := read(t, bufio.NewReader(c), "POST")
		checkIDs(t, r)
		if r.StatusCode != 408 || r.errorType(t) != "invalid_request_error" || !r.Close {
			t.Errorf("%s: %d %q", name, r.StatusCode, r.body)
		}
	}
}

func TestBodyCutShort(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	c := n.dial()
	if _, err := io.WriteString(c, request("POST", "/v1/messages", "", withKey, "Content-Length: 100")+"{"); err != nil {
		t.Fatal(err)
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if r := read(t, bufio.NewReader(c), "POST"); r.StatusCode != 400 {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}

// TestLeavingInABody: who leaves while its body is on its way is one that left, and no request that was wrong.
func TestLeavingInABody(t *testing.T) {
	for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		for _, reset := range []bool{false, true} {
			n := start(t, Config{}, newFakeBackend(say("x")))
			c := n.dialT(t)
			if _, err := io.WriteString(c, request("POST", "/v1/messages", "", withKey, framing)+"5\r\n{\"a\":\r\n"); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "its body is read", func() bool { return n.s.requests.count() == 1 })
			if reset {
				if err := c.SetLinger(0); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			m := n.s.metrics
			left := m.requests[routeMessages][abi.Canceled]
			waitFor(t, "it has ended", func() bool { return left.Get()+m.requests[routeMessages][abi.InvalidRequest].Get() > 0 })
			if left.Get() != 1 || m.left[phaseQueue].Get() != 1 || m.refusals[abi.InvalidRequest].Get() != 0 {
				t.Errorf("%s, reset %t: counted as left %d times, as wrong %d times", framing, reset, left.Get(),
					m.requests[routeMessages][abi.InvalidRequest].Get())
			}
		}
	}
}

// The whole answer reaches a stranger that goes on sending a body nobody reads.
func TestStrangersBodyIsCut(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	c := n.dial()
	go func() { // fails once the server has had enough
		_, _ = io.WriteString(c, request("POST", "/v1/messages", "", "Content-Length: 10000000")+strings.Repeat("x", 10_000_000))
	}()
	r := read(t, bufio.NewReader(c), "POST")
	if r.StatusCode != 401 || r.cut != nil || !r.Close {
		t.Errorf("%d %q %v", r.StatusCode, r.body, r.cut)
	}
}

// A client that reads only when it has sent everything learns that it was too much.
func TestTooLargeIsTold(t *testing.T) {
	n := start(t, Config{BodyMax: 30 << 20}, newFakeBackend(say("x"))) // the server reads on for seconds that grow with it
	c := n.dial()
	if _, err := io.WriteString(c, request("POST", "/v1/messages", strings.Repeat("x", 31<<20), withKey)); err != nil {
		t.Fatal(err)
	}
	if r := read(t, bufio.NewReader(c), "POST"); r.StatusCode != 413 || r.cut != nil {
		t.Errorf("%d %q %v", r.StatusCode, r.body, r.cut)
	}
}

// A request that was refused with its body unread must not leave that body
// behind as the next request.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	inner := request("GET", "/v1/models", "", withKey)
	for name, outer := range map[string]string{
		"stranger":        request("POST", "/v1/messages", inner),
		"wrong method":    request("PUT", "/v1/messages", inner, withKey),
		"unknown path":    request("POST", "/v1/none", inner, withKey),
		"GET with a body": request("GET", "/healthz", inner),
	} {
		c := n.dial()
		if _, err := io.WriteString(c, outer); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(c)
		if err != nil || bytes.Count(all, []byte("HTTP/1.1 ")) != 1 {
			t.Errorf("%s: %v %q", name, err, all)
		}
	}
}

func TestPipelining(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("one")))
	c := n.dial()
	one := request("POST", "/v1/messages", ask, withKey)
	stream := request("POST", "/v1/messages", askSSE, withKey)
	if _, err := io.WriteString(c, one+stream+one); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for i, want := range []string{`"text":"one"`, "message_stop", `"text":"one"`} {
		if got := read(t, r, "POST"); got.StatusCode != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%d: %d %q", i, got.StatusCode, got.body)
		}
	}
}

// TestPipeliningDoesNotHoldBack: an answer is sent when it is there, and not with that of the request behind it.
func TestPipeliningDoesNotHoldBack(t *testing.T) {
	for kind, body := range map[string]string{"plain": ask, "stream": askSSE} {
		t.Run(kind, func(t *testing.T) {
			received := make(chan struct{})
			prepares := 0 // by the connection's goroutine
			n := start(t, Config{}, newFakeBackend(say("one")), func(d *Deps) {
				d.Catalog = fakeCatalog{"core-1.1": fakeModel{id: "core-1.1", prepare: func() {
					if prepares++; prepares == 2 {
						<-received
					}
				}}}
			})
			c := n.dial()
			if _, err := io.WriteString(c, strings.Repeat(request("POST", "/v1/messages", body, withKey), 2)); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(c)
			first, err := tryRead(r, "POST")
			close(received)
			if err != nil || first.cut != nil || first.StatusCode != 200 {
				t.Fatalf("%q, %v, %v", first.body, first.cut, err)
			}
			if second := read(t, r, "POST"); second.StatusCode != 200 || second.cut != nil {
				t.Errorf("%d %q %v", second.StatusCode, second.body, second.cut)
			}
		})
	}
}

// The node-wide budget refuses a body that fits the limit but not the memory
// that others hold.
func TestBodyBudget(t *testing.T) {
	n := start(t, Config{BodyMax: 1 << 20, BodiesMax: 3 << 19}, newFakeBackend(say("x")))
	first := n.dial()
	if _, err := io.WriteString(first, request("POST", "/v1/messages", "", withKey, "Content-Length: 1000000")+strings.Repeat("x", 900_000)); err != nil {
		t.Fatal(err)
	}
	// The last memory that the body moves to, with the byte for its end: while it
	// moves, it could still be the one that is refused.
	waitFor(t, "the budget is held", func() bool { return n.s.bodies.used() == 1_000_001 })
	r := n.post(padded(600 << 10))
	if r.StatusCode != 503 || r.errorType(t) != "overloaded_error" || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	if r := n.post(ask, "Content-Encoding: zstd"); r.StatusCode != 503 {
		t.Errorf("a zstd window came from nowhere: %d", r.StatusCode)
	}
	first.Close()
	waitFor(t, "the budget is free again", func() bool { return n.s.bodies.used() == 0 })
	if r := n.post(padded(600 << 10)); r.StatusCode != 200 {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}

func TestGateBoundsPreparing(t *testing.T) {
	block, inside := make(chan struct{}), make(chan struct{}, 16)
	backend := newFakeBackend(say("x"))
	n := start(t, Config{PreparesMax: 2}, backend, func(d *Deps) {
		d.Catalog = fakeCatalog{"core-1.1": fakeModel{id: "core-1.1", prepare: func() { inside <- struct{}{}; <-block }},
			"core-1.1-mini": fakeModel{id: "core-1.1-mini", prepare: func() { inside <- struct{}{}; <-block }}}
	})
	mini := strings.Replace(ask, "core-1.1", "core-1.1-mini", 1)
	held := n.dial()
	if _, err := io.WriteString(held, request("POST", "/v1/messages", mini, "X-Api-Key: "+otherKey)); err != nil {
		t.Fatal(err)
	}
	<-inside
	if r := n.raw(request("POST", "/v1/messages", mini, "X-Api-Key: "+otherKey)); r.StatusCode != 429 || r.Header.Get("Retry-After") != "1" {
		t.Errorf("over the account's bound: %d %q", r.StatusCode, r.body)
	}
	second := n.dial()
	if _, err := io.WriteString(second, request("POST", "/v1/messages", ask, withKey)); err != nil {
		t.Fatal(err)
	}
	<-inside
	if r := n.post(ask); r.StatusCode != 503 || r.errorType(t) != "overloaded_error" {
		t.Errorf("over the node's bound: %d %q", r.StatusCode, r.body)
	}
	if used := n.s.bodies.used(); used < int64(len(mini)+len(ask)) {
		t.Errorf("%d bytes count while bodies of %d and %d are prepared", used, len(mini), len(ask))
	}
	close(block)
	for _, c := range []io.Reader{held, second} {
		if r := read(t, bufio.NewReader(c), "POST"); r.StatusCode != 200 {
			t.Errorf("%d %q", r.StatusCode, r.body)
		}
	}
	if n.s.gate.node != 0 || len(n.s.gate.accounts) != 0 {
		t.Error("the gate is not empty")
	}
}

// TestGateIsFullBehindAWait: who gave its place back to wait gets none while others have all of them.
func TestGateIsFullBehindAWait(t *testing.T) {
	g := gate{nodeMax: 1, accounts: map[string]int{}}
	if err := g.enter("waits", 1); err != nil {
		t.Fatal(err)
	}
	g.rest()
	if err := g.enter("works", 1); err != nil {
		t.Fatal(err)
	}
	if err := g.resume(); err == nil || err.Kind != abi.Overloaded {
		t.Errorf("beside the one that works: %v", err)
	}
	g.leave("works", false)
	if err := g.resume(); err != nil {
		t.Error(err)
	}
	if g.leave("waits", false); g.node != 0 || len(g.accounts) != 0 {
		t.Errorf("%d places are taken, by %v", g.node, g.accounts)
	}
}

// askingModel has servers elsewhere count what it prepares.
type askingModel struct {
	fakeModel
	wait func(*messages.Request) // what fails in it is no count
}

func (askingModel) Asks() bool { return true }

func (m askingModel) Prepare(account string, q *messages.Request) (*engine.Request, error) {
	if m.wait(q); q.Context.Err() != nil {
		return nil, &abi.Error{Kind: abi.Overloaded, Msg: "no server counts"}
	}
	return m.fakeModel.Prepare(account, q)
}

func (m askingModel) Count(q *messages.Request) (int, error) {
	m.wait(q)
	return m.fakeModel.Count(q)
}

// TestGateIsForWork: what waits for servers elsewhere, or for an account's permit, has no place among what takes processors.
func TestGateIsForWork(t *testing.T) {
	var waiting sync.WaitGroup
	block := make(chan struct{})
	wait := func() { waiting.Done(); <-block }
	backend := newFakeBackend(say("x"))
	n := start(t, Config{PreparesMax: 1}, backend, func(d *Deps) {
		d.Catalog = fakeCatalog{"core-1.1": askingModel{fakeModel{id: "core-1.1"}, func(*messages.Request) { wait() }},
			"core-1.1-mini": fakeModel{id: "core-1.1-mini"}}
	})
	mini := strings.Replace(ask, "core-1.1", "core-1.1-mini", 1)
	var all []io.Reader
	begin := func(path, body string) {
		c := n.dial()
		waiting.Add(1)
		all = append(all, c)
		if _, err := io.WriteString(c, request("POST", path, body, withKey)); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
	}
	begin("/v1/messages", ask)
	begin("/v1/messages/count_tokens", ask)
	backend.entering = wait
	begin("/v1/messages/count_tokens", mini)
	if r := n.raw(request("POST", "/v1/messages", mini, "X-Api-Key: "+otherKey)); r.StatusCode != 200 {
		t.Errorf("another model's request while these wait: %d %q", r.StatusCode, r.body)
	}
	if accounts := n.s.gate.accounts; len(accounts) != 1 {
		t.Errorf("requests that wait count for %v", accounts)
	}
	close(block)
	for i, c := range all {
		if r := read(t, bufio.NewReader(c), "POST"); r.StatusCode != 200 {
			t.Errorf("request %d: %d %q", i, r.StatusCode, r.body)
		}
	}
	if n.s.gate.node != 0 || len(n.s.gate.accounts) != 0 {
		t.Error("the gate is not empty")
	}
}

// TestNobodyWaitsForACount: what servers elsewhere are asked for a request ends with the drain's deadline, and when the client leaves.
func TestNobodyWaitsForACount(t *testing.T) {
	for name, end := range map[string]func(*node, net.Conn){
		"drain": func(n *node, c net.Conn) {
			n.s.abortAll()
			if r := read(t, bufio.NewReader(c), "POST"); r.StatusCode != 503 || !strings.Contains(r.body, errDraining().Msg) {
				t.Errorf("%d %s", r.StatusCode, r.body)
			}
		},
		"left": func(n *node, c net.Conn) {
			c.Close()
			waitFor(t, "a client that left is counted", func() bool { return n.s.metrics.left[phaseQueue].Get() == 1 })
			if refused := n.s.metrics.refusals[abi.Overloaded].Get(); refused != 0 {
				t.Errorf("%d refusals are counted", refused)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inside, ended := make(chan struct{}), make(chan struct{})
			n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) {
				d.Catalog = fakeCatalog{"core-1.1": askingModel{fakeModel{id: "core-1.1"}, func(q *messages.Request) {
					close(inside)
					<-q.Context.Done()
					close(ended)
				}}}
			})
			c := n.dial()
			if _, err := io.WriteString(c, request("POST", "/v1/messages", ask, withKey)); err != nil {
				t.Fatal(err)
			}
			<-inside
			end(n, c)
			<-ended
		})
	}
}

func TestErrorsNamePath(t *testing.T) {
	e := &abi.Error{Kind: abi.InvalidRequest, Msg: "too long", Param: "messages.0"}
	if got := string(familyChat.appendError(nil, e)); got != `{"error":{"message":"messages.0: too long","type":"invalid_request_error","param":"messages.0","code":"invalid_request"}}` {
		t.Error(got)
	}
}

// forwardingModel is one to whose servers headers of a client go along.
type forwardingModel struct {
	fakeModel
	forward chan [][2]string
}

func (m forwardingModel) ForwardHeaders() []string {
	return []string{"Anthropic-Version", "Anthropic-Beta"}
}

func (m forwardingModel) Prepare(account string, q *messages.Request) (*engine.Request, error) {
	m.forward <- q.Forward
	return m.fakeModel.Prepare(account, q)
}

// TestTrailersAreNoHeaders: what comes behind a body in chunks says nothing of the request, whether it was announced or not.
func TestTrailersAreNoHeaders(t *testing.T) {
	model := forwardingModel{fakeModel{id: "core-1.1"}, make(chan [][2]string, 1)}
	n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) { d.Catalog = fakeCatalog{"core-1.1": model} })
	c := n.dial()
	answers := bufio.NewReader(c)
	body := strings.TrimSuffix(chunked(ask), "\r\n") + "Anthropic-Beta: late\r\nX-Session-Id: late\r\n" + wire.HopHeader + ": 1\r\n\r\n"
	for _, announced := range []string{"X-Stainless-Retry-Count: 1", "Trailer: Anthropic-Beta, X-Session-Id"} {
		head := []string{withKey, "Transfer-Encoding: chunked", "Anthropic-Version: 1", announced}
		if _, err := io.WriteString(c, request("POST", "/v1/messages", "", head...)+body); err != nil {
			t.Fatal(err)
		}
		if r := read(t, answers, "POST"); r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
		if got := <-model.forward; !slices.Equal(got, [][2]string{{"Anthropic-Version", "1"}}) {
			t.Errorf("%s: %q go along", announced, got)
		}
		if got := (<-n.backend.streams).call.SessionID; got != "" {
			t.Errorf("%s: the session is %q", announced, got)
		}
	}
}
