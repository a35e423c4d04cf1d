package upstream

import (
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"corenode/bench/fake"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// knows says whether the model has a replica.
func knows(m *Model, base string) bool {
	return slices.ContainsFunc(m.Replicas(), func(r Replica) bool { return r.ID == base })
}

// hostPort takes a URL apart.
func hostPort(t *testing.T, base string) (host, port string) {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return u.Hostname(), u.Port()
}

// gated is a fake whose answers come when gate is closed.
func gated(t *testing.T, gate chan struct{}) *fake.Server {
	t.Helper()
	return start(t, wire.VLLM, func(int, []byte) fake.Script {
		<-gate
		return fake.Script{Text: []string{"x"}}
	})
}

// TestFollow: addresses that the DNS names join; one that it does not name any more takes no
// new requests, and is gone when nothing runs there.
func TestFollow(t *testing.T) {
	gate := make(chan struct{})
	a, b := gated(t, gate), start(t, wire.VLLM, plainAnswer)
	m := open(t, wire.VLLM, func(o *Options) {
		host, port := hostPort(t, a.URL)
		o.URLs, o.DNS, o.ResolveEvery = nil, net.JoinHostPort(host, port), time.Hour
	}, a)
	l := newLoop(t, m)
	_, first, over := l.job("a", hello(false))
	l.until(func() bool { return len(a.Seen()) == 1 })
	host, port := hostPort(t, b.URL)
	m.followHosts([]string{host}, port)
	if r := replicaOf(m, a.URL); !r.Draining || replicaOf(m, b.URL).Draining {
		t.Errorf("after the name changed: %+v", m.Replicas())
	}
	waitFor(t, "the new one to be ready", func() bool { return replicaOf(m, b.URL).Ready })
	if got := l.ask("a", hello(false)); got.result.Err != nil || len(a.Seen()) != 1 || len(b.Seen()) != 1 {
		t.Errorf("ended with %v, %d and %d requests", got.result.Err, len(a.Seen()), len(b.Seen()))
	}
	if !knows(m, a.URL) {
		t.Error("the lost one went while a request ran there")
	}
	close(gate)
	l.until(func() bool { return *over })
	if first.result.Err != nil {
		t.Errorf("the request on the lost one ended with %v", first.result.Err)
	}
	waitFor(t, "the lost one to go", func() bool { return !knows(m, a.URL) })
}

// TestFollowKeepsDrains: what an operator drained stays so though the DNS loses it and names
// it again, and what an operator added stays though the DNS never names it.
func TestFollowKeepsDrains(t *testing.T) {
	gate := make(chan struct{})
	a, b, added := gated(t, gate), start(t, wire.VLLM, plainAnswer), start(t, wire.VLLM, plainAnswer)
	m := open(t, wire.VLLM, nil, a)
	l := newLoop(t, m)
	_, _, over := l.job("a", hello(false)) // which keeps a from going
	l.until(func() bool { return len(a.Seen()) == 1 })
	if err := m.Add(added.URL + "/"); err != nil {
		t.Fatal(err)
	}
	if err := m.Drain(a.URL, true); err != nil {
		t.Fatal(err)
	}
	both := []string{a.URL, b.URL}
	for _, step := range []struct {
		named    []string
		draining bool
	}{{both, true}, {[]string{b.URL}, true}, {both, true}} {
		if m.Follow(step.named); replicaOf(m, a.URL).Draining != step.draining {
			t.Errorf("after %v: %+v", step.named, m.Replicas())
		}
	}
	if err := m.Drain(a.URL, false); err != nil {
		t.Fatal(err)
	}
	if m.Follow([]string{b.URL}); !replicaOf(m, a.URL).Draining {
		t.Error("the lost one does not drain")
	}
	if m.Follow(both); replicaOf(m, a.URL).Draining {
		t.Error("the one that is named again drains, though nobody asked for it")
	}
	close(gate)
	l.until(func() bool { return *over })
	if !knows(m, a.URL) || !knows(m, added.URL) || replicaOf(m, added.URL).Draining {
		t.Errorf("in the end: %+v", m.Replicas())
	}
}

// keysShown are the values of Authorization that a server was sent. It is safe for concurrent use.
type keysShown struct {
	mu    sync.Mutex
	shown map[string]bool
}

// watchKeys notes what a server is sent from here on.
func watchKeys(s *fake.Server) *keysShown {
	k, inner := &keysShown{shown: map[string]bool{}}, s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		k.mu.Lock()
		k.shown[q.Header.Get("Authorization")] = true
		k.mu.Unlock()
		inner.ServeHTTP(w, q)
	})
	return k
}

// take are those since it was called last.
func (k *keysShown) take() map[string]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	shown := k.shown
	k.shown = map[string]bool{}
	return shown
}

// TestSetKey: other servers are sent the key that came with them and no other, those that leave keep theirs, and so do those that
// were added by hand; one that is rotated alone is that of all.
func TestSetKey(t *testing.T) {
	gate := make(chan struct{})
	a, b, added := gated(t, gate), start(t, wire.VLLM, plainAnswer), start(t, wire.VLLM, plainAnswer)
	atA, atB, atAdded := watchKeys(a), watchKeys(b), watchKeys(added)
	m := open(t, wire.VLLM, func(o *Options) { o.Key = "sk-a" }, a)
	l := newLoop(t, m)
	_, _, over := l.job("a", hello(false)) // which keeps a from going
	l.until(func() bool { return len(a.Seen()) == 1 })
	if err := m.Add(added.URL); err != nil {
		t.Fatal(err)
	}
	m.SetKey("sk-b", []string{b.URL + "/"})
	ready := func(base string) func() bool { return func() bool { return replicaOf(m, base).Ready } }
	waitFor(t, "both to be ready", func() bool { return ready(b.URL)() && ready(added.URL)() })
	if m.Remove(added.URL) != nil || !m.HasKey("sk-b") || m.HasKey("sk-a") || !replicaOf(m, a.URL).Draining {
		t.Errorf("after the change: %+v", m.Replicas())
	}
	if got := l.ask("a", hello(false)); got.result.Err != nil || len(b.Seen()) != 1 {
		t.Errorf("ended with %v, %d requests", got.result.Err, len(b.Seen()))
	}
	for _, c := range []struct {
		at   *keysShown
		want string
	}{{atA, "Bearer sk-a"}, {atB, "Bearer sk-b"}, {atAdded, "Bearer sk-a"}} {
		if shown := c.at.take(); len(shown) != 1 || !shown[c.want] {
			t.Errorf("sent %v, want %q", shown, c.want)
		}
	}
	atA.take()
	m.SetKey("sk-new", nil)
	if got := l.ask("a", hello(false)); got.result.Err != nil || !atB.take()["Bearer sk-new"] {
		t.Errorf("ended with %v, or the new key was not sent", got.result.Err)
	}
	if text := m.withoutKey("sk-a, sk-b, sk-new"); text != "***, ***, ***" {
		t.Errorf("what servers say: %q", text)
	}
	if shown := atA.take(); shown["Bearer sk-new"] || shown["Bearer sk-b"] {
		t.Errorf("the one that leaves is sent %v", shown)
	}
	close(gate)
	l.until(func() bool { return *over })
}

// TestReplicaAddedAnew: a request on a replica that was removed gives nothing back to the one
// that was added in its place.
func TestReplicaAddedAnew(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		gates := []chan struct{}{make(chan struct{}), make(chan struct{})}
		s := start(t, wire.VLLM, func(n int, _ []byte) fake.Script {
			<-gates[n]
			return fake.Script{Text: []string{"x"}}
		})
		m := open(t, wire.VLLM, nil, s)
		l := newLoop(t, m)
		j, _, first := l.job("a", hello(false))
		l.until(func() bool { return len(s.Seen()) == 1 })
		if m.Remove(s.URL) != nil || m.Add(s.URL) != nil {
			t.Fatal("not removed, or not added")
		}
		waitFor(t, "the replica to be ready", m.anyReady)
		_, _, second := l.job("a", hello(false))
		l.until(func() bool { return len(s.Seen()) == 2 })
		if cancel {
			j.Cancel()
		} else {
			close(gates[0])
		}
		l.until(func() bool { return *first })
		if n := replicaOf(m, s.URL).InFlight; n != 1 {
			t.Errorf("cancelled %v: %d requests are counted, want 1", cancel, n)
		}
		if cancel {
			close(gates[0])
		}
		close(gates[1])
		l.until(func() bool { return *second })
		waitFor(t, "the place", func() bool { return replicaOf(m, s.URL).InFlight == 0 })
	}
}

// TestCloseWhileRelaysRun: Close returns though a replica does not answer, and nothing is
// left behind once the relays are stopped.
func TestCloseWhileRelaysRun(t *testing.T) {
	s := start(t, wire.VLLM, func(int, []byte) fake.Script { return fake.Script{Text: []string{"x", "y"}, Fault: fake.Stall, At: 1} })
	before := runtime.NumGoroutine()
	m := open(t, wire.VLLM, nil, s)
	l := newLoop(t, m)
	j, got, over := l.job("a", hello(true))
	l.until(func() bool { return j.Observed().Output > 0 })
	closed := make(chan struct{})
	go func() {
		m.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("Close does not return")
	}
	l.stepper.Abort(&abi.Error{Kind: abi.Overloaded, Msg: "stops"})
	if !*over || got.result.Err == nil {
		t.Error("the relay goes on")
	}
	waitFor(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}

// TestRemoveEndsProbe: nothing runs for a replica that was removed.
func TestRemoveEndsProbe(t *testing.T) {
	a, b := start(t, wire.VLLM, plainAnswer), start(t, wire.VLLM, plainAnswer)
	before := runtime.NumGoroutine()
	m := open(t, wire.VLLM, func(o *Options) { o.ProbeEvery = time.Hour }, a, b)
	for _, s := range []*fake.Server{a, b} {
		if err := m.Remove(s.URL); err != nil {
			t.Error(err)
		}
	}
	waitFor(t, "the probes to end", func() bool { return runtime.NumGoroutine() <= before })
	if m.Remove(a.URL) == nil || m.Drain(a.URL, true) == nil || len(m.Replicas()) != 0 {
		t.Error("a removed replica is still known")
	}
}
