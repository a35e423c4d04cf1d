package server

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"corenode/wasm/abi"
)

// inPhase returns a script that stays in one phase until it is cancelled.
func inPhase(phase int, reached chan<- struct{}) func(*fakeStream) {
	return func(s *fakeStream) {
		if phase != phaseQueue {
			s.out.Push(begin()...)
		}
		for {
			if phase == phaseDecode && s.out.Room() {
				s.out.Push(delta("tok "))
			}
			select {
			case reached <- struct{}{}:
			default:
			}
			select {
			case <-s.cancelled:
				switch phase {
				case phaseQueue:
					s.cancelledAs(abi.Usage{}, 0, 0, 0)
				case phasePrefill:
					s.cancelledAs(abi.Usage{InputUncached: 64}, time.Millisecond, 0, 0)
				case phaseDecode:
					s.cancelledAs(abi.Usage{InputUncached: 64, Output: 5}, time.Millisecond, time.Millisecond, time.Millisecond)
				}
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// A client that leaves frees everything, whatever its request was doing and
// however it left.
func TestDisconnect(t *testing.T) {
	leave := map[string]func(*net.TCPConn) error{
		"close":      (*net.TCPConn).Close,
		"half close": (*net.TCPConn).CloseWrite,
		"reset": func(c *net.TCPConn) error {
			if err := c.SetLinger(0); err != nil {
				return err
			}
			return c.Close()
		},
		"unread bytes, then close": func(c *net.TCPConn) error {
			if _, err := io.WriteString(c, "GET /healthz"); err != nil {
				return err
			}
			return c.CloseWrite()
		},
	}
	phases := []string{phaseQueue: "queue", phasePrefill: "prefill", phaseDecode: "decode"}
	for phase, phaseName := range phases {
		for how, leave := range leave {
			for kind, body := range map[string]string{"stream": askSSE, "plain": ask} {
				t.Run(phaseName+"/"+how+"/"+kind, func(t *testing.T) {
					reached := make(chan struct{}, 1)
					backend := newFakeBackend(inPhase(phase, reached))
					n := start(t, Config{WatchEvery: 10 * time.Millisecond}, backend)
					c := n.dial().(*net.TCPConn)
					if _, err := io.WriteString(c, request("POST", "/v1/messages", body, withKey)); err != nil {
						t.Fatal(err)
					}
					s := <-backend.streams
					<-reached
					if err := leave(c); err != nil {
						t.Fatal(err)
					}
					waitFor(t, "settled", func() bool { return s.settles.Load() == 1 })
					waitFor(t, "logged", func() bool { return strings.Contains(n.log.String(), `"status":499`) })
					if s.cancels.Load() == 0 {
						t.Error("never cancelled")
					}
					waitFor(t, "counted", func() bool { return n.s.metrics.left[phase].Get() == 1 })
					waitFor(t, "unwatched", func() bool {
						n.s.watcher.mu.Lock()
						defer n.s.watcher.mu.Unlock()
						return len(n.s.watcher.watches) == 0
					})
				})
			}
		}
	}
}

// TestLeaveInALongStep: who leaves while a step takes longer than the ledger may is counted and logged by what the step came to.
// Where a drain does not let it end, nobody knows how far it came.
func TestLeaveInALongStep(t *testing.T) {
	for _, drains := range []bool{false, true} {
		hung, wait := make(chan struct{}), time.Minute
		if drains {
			wait = time.Millisecond // for what does not come
		}
		n := start(t, Config{WatchEvery: 10 * time.Millisecond, LedgerWait: wait}, newFakeBackend(func(s *fakeStream) {
			s.out.Push(append(begin(), delta("tok "))...)
			<-s.cancelled
			if drains {
				<-hung
			}
			time.Sleep(20 * time.Millisecond) // what is left of the step
			s.cancelledAs(abi.Usage{InputUncached: 64, Output: 1}, time.Millisecond, time.Millisecond, time.Millisecond)
		}))
		t.Cleanup(func() { close(hung) }) // before the node closes
		for _, body := range []string{ask, askSSE} {
			c, s := n.ask(body)
			waitFor(t, "its token, where it streams", func() bool { return s.shown.Load() || body == ask })
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "its writer sees it", func() bool { return s.cancels.Load() > 1 }) // the watcher is the first
		}
		want := uint64(2)
		if drains {
			n.s.abortAll()
			want = 0
		}
		waitFor(t, "their ends", func() bool { return n.s.requests.count() == 0 })
		all := n.s.metrics.left
		if got := all[phaseDecode].Get(); got != want || all[phaseQueue].Get()+all[phasePrefill].Get() > 0 {
			t.Errorf("drains %t: %d are counted in decode, %d in queue", drains, got, all[phaseQueue].Get())
		}
		if log := n.log.String(); strings.Count(log, `"status":499`) != 2 || strings.Count(log, `"output_tokens":1,`) != int(want) {
			t.Errorf("drains %t: the log says %q", drains, log)
		}
	}
}

// TestLeaveWhileAHungStreamBreaksOff: who leaves while a drain ends a stream whose step hangs, and of which nothing was shown, is
// counted in no phase: nobody knows how far it came.
func TestLeaveWhileAHungStreamBreaksOff(t *testing.T) {
	hung, clients := make(chan struct{}), make(chan net.Conn, 1)
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-hung
	})
	backend.withholding = func(s *fakeStream) {
		_ = (<-clients).Close()
		<-s.cancelled // by the watcher, which has seen that
	}
	n := start(t, Config{WatchEvery: 10 * time.Millisecond, LedgerWait: time.Millisecond}, backend)
	t.Cleanup(func() { close(hung) }) // before the node closes
	c, _ := n.ask(askSSE)
	clients <- c
	n.s.abortAll()
	waitFor(t, "its end", func() bool { return n.s.requests.count() == 0 })
	if log := n.log.String(); !strings.Contains(log, `"status":499`) {
		t.Fatalf("the log says %q", log)
	}
	var page bytes.Buffer
	n.s.WriteMetrics(&page)
	for _, line := range []string{`corenode_disconnects_total{phase="queue"} 0`, "corenode_queue_seconds_count 0"} {
		if !strings.Contains(page.String(), line+"\n") {
			t.Errorf("the metrics do not say %s", line)
		}
	}
}

// A client that stays is never taken for one that left.
func TestWatcherLetsOthersBe(t *testing.T) {
	reached := make(chan struct{}, 1)
	backend := newFakeBackend(inPhase(phaseQueue, reached))
	n := start(t, Config{WatchEvery: time.Millisecond}, backend)
	leaver, stayer := n.dial(), n.dial()
	for _, c := range []net.Conn{leaver, stayer} {
		if _, err := io.WriteString(c, request("POST", "/v1/messages", ask, withKey)); err != nil {
			t.Fatal(err)
		}
	}
	first, second := <-backend.streams, <-backend.streams
	if err := leaver.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "one is settled", func() bool { return first.settles.Load()+second.settles.Load() == 1 })
	time.Sleep(20 * time.Millisecond) // some sweeps
	if first.cancels.Load() > 0 && second.cancels.Load() > 0 {
		t.Error("both were cancelled")
	}
}

func TestWatcherAddRemove(t *testing.T) {
	w := newWatcher(time.Hour)
	defer w.stop()
	var watches []*watch
	for i := range 10 {
		watches = append(watches, w.add(1000+i, func() {}))
	}
	unwatched := w.add(-1, func() { t.Error("called") })
	for _, i := range []int{9, 0, 4, 4, 8, 1, 2, 3, 5, 6, 7} { // 4 twice
		w.remove(watches[i])
		for k, e := range w.watches {
			if e.index != k {
				t.Fatalf("entry %d thinks it is %d", k, e.index)
			}
		}
	}
	w.remove(unwatched)
	if len(w.watches) != 0 {
		t.Errorf("%d left", len(w.watches))
	}
}

// A stream over HTTP/1.0 ends also when the connection fails before fasthttp
// hands it over: here with an earlier answer that could not be written.
func TestOldStreamThatNeverBegins(t *testing.T) {
	preparing, left := make(chan struct{}), make(chan struct{})
	backend := newFakeBackend(inPhase(phaseDecode, make(chan struct{})))
	n := start(t, Config{}, backend, func(d *Deps) {
		d.Catalog = fakeCatalog{"core-1.1": fakeModel{id: "core-1.1", prepare: func() {
			close(preparing)
			<-left
		}}}
	})
	c := n.dial().(*net.TCPConn)
	old := strings.Replace(request("POST", "/v1/messages", askSSE, withKey), "HTTP/1.1", "HTTP/1.0", 1)
	if _, err := io.WriteString(c, request("GET", "/healthz", "")+old); err != nil {
		t.Fatal(err)
	}
	<-preparing
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	close(left)
	s := <-backend.streams
	waitFor(t, "settled", func() bool { return s.settles.Load() == 1 })
	waitFor(t, "ended", func() bool { return n.s.requests.count() == 0 })
	n.s.watcher.mu.Lock()
	defer n.s.watcher.mu.Unlock()
	if len(n.s.watcher.watches) != 0 {
		t.Errorf("%d sockets are still watched", len(n.s.watcher.watches))
	}
}
