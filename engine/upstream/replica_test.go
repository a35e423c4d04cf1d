package upstream

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/engine"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// TestCountsKeepTheirConnection: one question for a count after the other goes on one connection, unless the server closes it.
func TestCountsKeepTheirConnection(t *testing.T) {
	const counts = 100
	for _, closes := range []bool{false, true} {
		f := start(t, wire.VLLM, plainAnswer)
		var mu sync.Mutex
		connections := map[string]bool{}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "count_tokens") {
				mu.Lock()
				connections[r.RemoteAddr] = true
				mu.Unlock()
				if closes {
					w.Header().Set("Connection", "close")
				}
			}
			f.Config.Handler.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		m := open(t, wire.VLLM, func(o *Options) { o.URLs, o.ProbeEvery = []string{s.URL}, time.Hour })
		waitFor(t, "the server to be ready", func() bool { return len(m.urls()) == 1 })
		q := helloRequest(t)
		for range counts {
			if _, err := m.Count(q); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		if n := len(connections); closes && n < counts || !closes && n > 10 { // one that was idle for long is replaced
			t.Errorf("%d counts on %d connections, where the server closes them: %v", counts, n, closes)
		}
		mu.Unlock()
		s.CloseClientConnections()
		if _, err := m.Count(q); err != nil {
			t.Errorf("the idle connection was closed: %v", err)
		}
	}
}

// TestIdleConnections: as many connections are kept as requests may run at once, and none for longer than servers keep theirs.
func TestIdleConnections(t *testing.T) {
	u, err := url.Parse("http://x")
	if err != nil {
		t.Fatal(err)
	}
	r := newReplica("http://x", u)
	r.idleConnsMax = 100
	var others []net.Conn
	kept := func() {
		ours, other := net.Pipe()
		others = append(others, other)
		r.keep(newConn(ours))
	}
	for range 101 {
		kept()
	}
	if len(r.idle) != 100 {
		t.Errorf("%d are kept", len(r.idle))
	}
	for _, c := range r.idle {
		c.idleAt = c.idleAt.Add(-idleMax)
	}
	kept()
	if len(r.idle) != 1 {
		t.Errorf("%d are kept, and all but one were idle for long", len(r.idle))
	}
	r.idle[0].idleAt = r.idle[0].idleAt.Add(-idleMax)
	if r.tidy(); len(r.idle) != 0 {
		t.Errorf("%d are kept of a replica without requests", len(r.idle))
	}
	for i, c := range others {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // what is closed says so all the same
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("connection %d is open: %v", i, err)
		}
	}
}

// leaving is a connection whose request is cancelled with its last piece, and whose Close does not come to it in time.
type leaving struct {
	net.Conn
	cancel func()
}

func (c *leaving) Read(to []byte) (int, error) {
	n, err := c.Conn.Read(to)
	if bytes.Contains(to[:n], []byte("[DONE]")) && c.cancel != nil {
		c.cancel()
	}
	return n, err
}

func (*leaving) Close() error { return nil }

// TestCancelWithTheLastPiece: a connection that a cancel is about to close is not kept for the next request.
func TestCancelWithTheLastPiece(t *testing.T) {
	for _, canceled := range []bool{false, true} {
		m := open(t, wire.VLLM, func(o *Options) { o.ProbeEvery = time.Hour }, start(t, wire.VLLM, plainAnswer))
		waitFor(t, "the server to be ready", func() bool { return len(m.urls()) == 1 })
		prepared, err := m.Prepare("acct", helloRequest(t))
		if err != nil {
			t.Fatal(err)
		}
		of := m.urls()[0]
		c, err := net.Dial("tcp", strings.TrimPrefix(of.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		of.close() // those of the count
		of.closed = false
		its := &leaving{Conn: c}
		of.keep(newConn(its))
		j := &engine.Job{Account: "acct", Request: prepared, Output: engine.NewWholeOutput(), Finished: func(engine.Result) {}}
		r := newRelay(newLoop(t, m).stepper, j, time.Now(), func(*abi.Error) {})
		if canceled {
			its.cancel = r.cancel
		}
		r.run()
		if kept := len(of.idle); (kept == 0) != canceled || r.result.Err != nil {
			t.Errorf("canceled %v: %d connections are kept (%v)", canceled, kept, r.result.Err)
		}
	}
}
