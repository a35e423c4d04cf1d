package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"corenode/engine/upstream/wire"
)

// starved is a listener of a process that has no free descriptor for a while.
type starved struct {
	net.Listener
	left atomic.Int32 // how often Accept still fails
}

func (l *starved) Accept() (net.Conn, error) {
	if l.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestNoFreeDescriptor: both listeners go on once there is one again, and the log
// says once that there was none.
func TestNoFreeDescriptor(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	listen := func(serve func(net.Listener) error) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := &starved{Listener: ln}
		l.left.Store(3)
		done := make(chan error, 1)
		go func() { done <- serve(l) }()
		t.Cleanup(func() {
			if err := errors.Join(n.s.Close(), <-done); err != nil {
				t.Errorf("serve: %v", err)
			}
		})
		return ln.Addr().String()
	}
	n.addr, n.admin = listen(n.s.Serve), listen(n.s.ServeAdmin)
	const probe = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	if r := n.raw(probe); r.StatusCode != 200 {
		t.Errorf("public: %d %s", r.StatusCode, r.body)
	}
	if r := n.adminRaw(probe); r.StatusCode != 200 {
		t.Errorf("admin: %d %s", r.StatusCode, r.body)
	}
	const line = "connections cannot be accepted"
	if said := strings.Count(n.log.String(), line); said != 2 {
		t.Errorf("%d lines that say %q, want one of each listener", said, line)
	}
}

// TestPriorityIsANodes: the priority that a node says of a request which it forwards goes on with it, that of a client does not.
func TestPriorityIsANodes(t *testing.T) {
	b := newFakeBackend(say("x"))
	n := start(t, Config{PeerKeys: []string{"key_good"}}, b)
	body := `{"model":"core-1.1","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`
	for _, c := range []struct {
		partition, said string
		want            int8
	}{{"one", "-20", -20}, {"one", "127", 127}, {"one", "128", 0}, {"one", "high", 0}, {"one", "", 0}, {"", "10", 0}} {
		r := n.raw(fmt.Sprintf("POST /v1/messages HTTP/1.1\r\nHost: x\r\n%s\r\n%s: %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s",
			bearerKey, wire.PartitionHeader, c.partition, wire.PriorityHeader, c.said, len(body), body))
		if r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
		if got := (<-b.streams).call.Priority; got != c.want {
			t.Errorf("partition %q, priority %q: %d, want %d", c.partition, c.said, got, c.want)
		}
	}
}

// TestSecretOfNodesOpensTheirListener: the secret that nodes show each other is one on the listener where nodes ask, and
// no key on the public one.
func TestSecretOfNodesOpensTheirListener(t *testing.T) {
	n := start(t, Config{ClusterToken: "of-nodes"}, newFakeBackend(say("x")))
	nodes, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- n.s.ServeNodes(nodes, nil) }()
	t.Cleanup(func() {
		if err := errors.Join(n.s.Close(), <-done); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	body := `{"model":"core-1.1","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`
	request := fmt.Sprintf("POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer of-nodes\r\n%s: acct_a\r\n%s: 1\r\n"+
		"Content-Length: %d\r\n\r\n%s", wire.PartitionHeader, wire.HopHeader, len(body), body)
	if r := n.raw(request); r.StatusCode != 401 {
		t.Errorf("public: %d %s", r.StatusCode, r.body)
	}
	n.addr = nodes.Addr().String()
	if r := n.raw(request); r.StatusCode != 200 {
		t.Errorf("of nodes: %d %s", r.StatusCode, r.body)
	}
}

// flapping is a listener that fails and accepts by turns for a while, and then accepts.
type flapping struct {
	net.Listener
	fails bool // it just did
	left  int  // how often it still does
}

func (l *flapping) Accept() (net.Conn, error) {
	if l.fails = !l.fails && l.left > 0; l.fails {
		l.left--
		return nil, os.NewSyscallError("accept4", syscall.EMFILE)
	}
	return nil, nil
}

func (l *flapping) Addr() net.Addr { return &net.TCPAddr{} }

// TestDescriptorsComeAndGo: of a process with a free descriptor now and then the log does not say at each connection that
// they are accepted again, but when nothing has failed for some time.
func TestDescriptorsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		l := newRetryListener(&flapping{left: 100}, slog.New(slog.NewTextHandler(&log, nil)))
		accept := func(n int) {
			for range n {
				if _, err := l.Accept(); err != nil {
					t.Fatal(err)
				}
			}
		}
		accept(100)
		if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "cannot be accepted") {
			t.Errorf("while they come and go: %s", said)
		}
		time.Sleep(acceptQuiet)
		accept(2)
		if said := log.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "accepted again") ||
			!strings.Contains(said, "failures=99") {
			t.Errorf("behind it: %s", said)
		}
	})
}
