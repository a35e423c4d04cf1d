package server

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/wasm/abi"
)

// TestWhoGetsAnErrorPaysNothing: an error instead of an answer is free, in all
// places where one may come from. The 504 is not, nor a stream that has shown
// something of its answer.
func TestWhoGetsAnErrorPaysNothing(t *testing.T) {
	fails := func(kind abi.Kind, shown ...abi.Event) func(*fakeStream) {
		return func(s *fakeStream) {
			s.out.Push(begin()...)
			s.out.Push(shown...)
			s.out.Push(abi.Event{Kind: abi.EventError, Err: &abi.Error{Kind: kind, Msg: "failed"}})
		}
	}
	stuck := func(s *fakeStream) {
		s.out.Push(begin()...)
		<-s.cancelled
		s.cancelledAs(abi.Usage{InputUncached: 3}, 1, 1, 0)
	}
	tool := abi.Event{Kind: abi.EventBlockStart, Index: 1, Block: abi.BlockToolUse, ID: "toolu_1", Name: "f"}
	stop := abi.Event{Kind: abi.EventBlockStop, Block: abi.BlockText}
	for name, c := range map[string]struct {
		script func(*fakeStream)
		settle error // of the ledger
		stream bool
		status int
		free   bool
	}{
		"plain, the engine fails":             {fails(abi.Internal, delta("x")), nil, false, 500, true},
		"plain, the engine is stopped":        {fails(abi.Canceled, delta("x")), nil, false, 503, true},
		"plain, too late":                     {stuck, nil, false, 504, false},
		"plain, the ledger fails":             {say("x"), &abi.Error{Kind: abi.Overloaded, Msg: "no ledger"}, false, 503, true},
		"stream, nothing was shown":           {fails(abi.Internal), nil, true, 200, true},
		"stream, text was shown":              {fails(abi.Internal, delta("x")), nil, true, 200, false},
		"stream, a call was shown":            {fails(abi.Internal, stop, tool), nil, true, 200, false},
		"stream, the ledger fails at the end": {say("x"), &abi.Error{Kind: abi.Overloaded, Msg: "no ledger"}, true, 200, false},
		"empty stream, the ledger fails":      {say(), &abi.Error{Kind: abi.Overloaded, Msg: "no ledger"}, true, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			backend := newFakeBackend(c.script)
			backend.settle = c.settle
			timeout := time.Minute
			if c.status == 504 {
				timeout = 100 * time.Millisecond
			}
			n := start(t, Config{RequestTimeout: timeout}, backend)
			body := ask
			if c.stream {
				body = askSSE
			}
			r := n.post(body)
			if r.StatusCode != c.status || c.stream && !strings.Contains(r.body, "event: error") {
				t.Errorf("%d %q", r.StatusCode, r.body)
			}
			s := <-backend.streams
			if s.withheld.Load() != c.free || s.settles.Load() == 0 {
				t.Errorf("withheld %t, settled %d times", s.withheld.Load(), s.settles.Load())
			}
			if s.shown.Load() != (c.stream && !c.free) { // else a crash would be paid
				t.Errorf("that content left was said: %t", s.shown.Load())
			}
		})
	}
}

// TestNothingOfASummaryIsShown: what begins a stream of it, and what says that the stream lives, is nothing of the answer.
func TestNothingOfASummaryIsShown(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		for range 40 {
			s.out.Push(delta("x"))
		}
		s.out.Push(abi.Event{Kind: abi.EventError, Err: &abi.Error{Kind: abi.Overloaded, Msg: "failed"}})
	})
	n := start(t, Config{}, backend, func(d *Deps) { d.Translators = shipped(t) })
	r := n.raw(request("POST", "/v1/responses", `{"model":"core-1.1","stream":true,"input":[{"role":"user","content":"q"},{"type":"compaction_trigger"}]}`, bearerKey))
	if !strings.Contains(r.body, "response.created") || !strings.Contains(r.body, "event: keepalive") || !strings.Contains(r.body, "response.failed") {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	if s := <-backend.streams; !s.withheld.Load() || s.shown.Load() {
		t.Errorf("withheld %t, shown %t", s.withheld.Load(), s.shown.Load())
	}
	if log := n.log.String(); strings.Contains(log, "ttft_ms") {
		t.Errorf("the log says %q", log)
	}
}

// TestWhatIsToldLaterIsShown: content that a translator tells of in a later group is shown from then on.
func TestWhatIsToldLaterIsShown(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say()))
	s := &fakeStream{cancelled: make(chan struct{}), ended: make(chan struct{})}
	x := &exchange{s: n.s, conn: unheard(), stream: true, who: &Identity{Account: &account.Account{}}}
	x.translation = &fakeTranslation{of: &fakeTranslators{}}
	a := &streamed{answer: answer{x: x, stream: s, gone: make(chan struct{}), dialect: translated{x}}, out: io.Discard}
	tool := abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, ID: "toolu_1", Name: "f"}
	for _, step := range []struct {
		event         abi.Event
		shown, spoken bool
	}{
		{abi.Event{Kind: abi.EventStart}, false, false},
		{tool, false, false},
		{abi.Event{Kind: abi.EventDelta, Block: abi.BlockToolUse, Text: "{}"}, false, false},
		{abi.Event{Kind: abi.EventBlockStop, Block: abi.BlockToolUse}, true, true},
	} {
		if done, err := a.emit([]abi.Event{step.event}); done || err != nil {
			t.Fatal(done, err)
		}
		if s.shown.Load() != step.shown || x.ttft != 0 != step.spoken {
			t.Errorf("after %+v: shown %t, first token after %v", step.event, s.shown.Load(), x.ttft)
		}
	}
}

// TestFree: who is shown nothing of an answer pays nothing, but for whose time is over.
func TestFree(t *testing.T) {
	for _, c := range []struct {
		kind        abi.Kind
		shown, want bool
	}{
		{abi.Internal, false, true}, {abi.Overloaded, false, true}, {abi.Timeout, false, false}, {abi.Internal, true, false},
	} {
		if got := free(c.kind, c.shown); got != c.want {
			t.Errorf("%+v: free %t", c, got)
		}
	}
}

// TestPanicBeforeAStreamIsFree: a stream whose client gets a 500 instead costs nothing, and one that is under way and was
// not written does.
func TestPanicBeforeAStreamIsFree(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say()))
	for _, streamed := range []bool{false, true} {
		s := &fakeStream{out: engine.NewOutput(1), cancelled: make(chan struct{}), ended: make(chan struct{})}
		close(s.ended)
		a := &answer{}
		who := &Identity{Account: &account.Account{}}
		a.open(&exchange{s: n.s, conn: unheard(), stream: true, streamed: streamed, who: who}, s, "core-1.1")
		a.close()
		if s.withheld.Load() == streamed || s.settles.Load() != 1 {
			t.Errorf("streamed %t: withheld %t, settled %d times", streamed, s.withheld.Load(), s.settles.Load())
		}
	}
}

// TestPanicAtTheOpeningIsSettled: an answer that panics before it is watched is cancelled and free.
func TestPanicAtTheOpeningIsSettled(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) { <-s.cancelled })
	f := &fakeTranslators{failFacts: func() { panic("a translator's bug") }}
	n := startTranslated(t, Config{}, backend, f)
	for _, body := range []string{asChat, asChatSSE} {
		r := n.raw(request("POST", "/v1/chat/completions", body, bearerKey))
		s := <-backend.streams
		if r.StatusCode != 500 || !s.withheld.Load() || s.settles.Load() != 1 {
			t.Errorf("%d %q, withheld %t, settled %d times", r.StatusCode, r.body, s.withheld.Load(), s.settles.Load())
		}
	}
}

// TestSlowLedger: a finished answer waits for its row, a plain one as long as its
// client may, a stream with keep-alives. A plain one that must be refused is free
// and its error names the ledger.
func TestSlowLedger(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, body := range []string{ask, askSSE} {
			backend := newFakeBackend(say("x"))
			backend.unsettled = make(chan struct{})
			timeout := time.Minute
			switch {
			case late && body == ask:
				timeout = 3 * time.Second // the answer is there by then, or it would be a 504
			case late:
				timeout = time.Millisecond // which does not hold for streams: the first ping comes later
			}
			n := start(t, Config{RequestTimeout: timeout, KeepAlive: 20 * time.Millisecond, LedgerWait: time.Millisecond}, backend)
			c := n.dial()
			if _, err := io.WriteString(c, request("POST", "/v1/messages", body, withKey)); err != nil {
				t.Fatal(err)
			}
			s := <-backend.streams
			waitFor(t, "its settlement", func() bool { return s.settles.Load() > 0 })
			var r reply
			if body == askSSE {
				r = readPast(t, bufio.NewReader(c), "event: ping", func() { close(backend.unsettled) })
			} else {
				if !late {
					time.AfterFunc(100*time.Millisecond, func() { close(backend.unsettled) })
				}
				r = read(t, bufio.NewReader(c), "POST")
			}
			switch {
			case body == askSSE:
				if got := frames(t, r.body); got[len(got)-1] != "message_stop" || !slices.Contains(got, "ping") || s.withheld.Load() {
					t.Errorf("late %t: %q, withheld %t", late, r.body, s.withheld.Load())
				}
			case late:
				if r.StatusCode != 503 || !strings.Contains(r.body, "the ledger did not record this request in time") || r.Header.Get("Retry-After") == "" || !s.withheld.Load() {
					t.Errorf("%d %q, withheld %t", r.StatusCode, r.body, s.withheld.Load())
				}
			case r.StatusCode != 200 || s.withheld.Load():
				t.Errorf("%d %q, withheld %t", r.StatusCode, r.body, s.withheld.Load())
			}
		}
	}
}

// TestUnsettledIsNoRefusal: a request that ends before its row is durable was admitted: it is not among
// those that were refused, and of its settlement no time is told.
func TestUnsettledIsNoRefusal(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-s.cancelled
	})
	backend.unsettled = make(chan struct{})
	n := start(t, Config{RequestTimeout: 50 * time.Millisecond, LedgerWait: time.Millisecond}, backend)
	if r := n.post(ask); r.StatusCode != 504 {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	if got := n.s.metrics.refusals[abi.Timeout].Get(); got != 0 {
		t.Errorf("%d refusals are counted", got)
	}
	if past := n.s.Past(PastQuery{Limit: 1}); len(past) != 1 || past[0].Settle != 0 || past[0].Status != 504 {
		t.Errorf("%+v", past)
	}
}

// TestHungStep: a request whose step never ends is answered all the same, also where its answer is there: at its time limit with
// 504, at the deadline of a drain with a 503 that is free. Its engine settles it when it comes back.
func TestHungStep(t *testing.T) {
	for _, whole := range []bool{false, true} {
		for _, drains := range []bool{false, true} {
			n := startHung(t, whole, Config{RequestTimeout: map[bool]time.Duration{false: 50 * time.Millisecond, true: time.Hour}[drains]})
			c, s := n.ask(ask)
			if drains {
				n.s.abortAll()
			}
			r, want := read(t, bufio.NewReader(c), "POST"), map[bool]int{false: 504, true: 503}[drains]
			if r.StatusCode != want || s.withheld.Load() != drains || s.cancels.Load() == 0 || s.settles.Load() != 0 {
				t.Errorf("whole %t: %d %q, want %d; withheld %t, cancelled %d times, settled %d times",
					whole, r.StatusCode, r.body, want, s.withheld.Load(), s.cancels.Load(), s.settles.Load())
			}
		}
	}
}

// TestHungStream: a stream whose step never ends has keep-alives behind its last piece, too, and ends with a drain.
func TestHungStream(t *testing.T) {
	n := startHung(t, true, Config{KeepAlive: 10 * time.Millisecond})
	c, s := n.ask(askSSE)
	r := readPast(t, bufio.NewReader(c), "event: ping", n.s.abortAll)
	if got := frames(t, r.body); got[len(got)-1] != "error" || slices.Contains(got, "message_stop") || s.settles.Load() != 0 {
		t.Errorf("%q, settled %d times", r.body, s.settles.Load())
	}
}

// startHung starts a node whose engine hangs in a step until the test has ended, behind a whole answer or its beginning.
func startHung(t *testing.T, whole bool, cfg Config) *node {
	t.Helper()
	hung := make(chan struct{})
	cfg.LedgerWait = time.Millisecond
	n := start(t, cfg, newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		if whole {
			s.out.Push(append([]abi.Event{delta("x")}, end()...)...)
		}
		<-hung
	}))
	t.Cleanup(func() { close(hung) }) // before the node closes
	return n
}

// ask sends a request on a connection of its own.
func (n *node) ask(body string) (net.Conn, *fakeStream) {
	n.t.Helper()
	c := n.dial()
	if _, err := io.WriteString(c, request("POST", "/v1/messages", body, withKey)); err != nil {
		n.t.Fatal(err)
	}
	return c, <-n.backend.streams
}

// TestUncertainChargeHasNoAnswer: while nobody knows whether a client will be
// charged, no error leaves: its connection ends, and an operator is told.
func TestUncertainChargeHasNoAnswer(t *testing.T) {
	fails := func(s *fakeStream) {
		s.out.Push(begin()...)
		s.out.Push(abi.Event{Kind: abi.EventError, Err: &abi.Error{Kind: abi.Internal, Msg: "failed"}})
	}
	for _, body := range []string{ask, askSSE} {
		backend := newFakeBackend(fails)
		backend.uncertain = make(chan struct{})
		n := start(t, Config{LedgerWait: time.Millisecond}, backend)
		c := n.dial()
		if _, err := io.WriteString(c, request("POST", "/v1/messages", body, withKey)); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(c)
		if err != nil || body == ask && len(text) > 0 || strings.Contains(string(text), "event: error") || strings.HasSuffix(string(text), "0\r\n\r\n") {
			t.Errorf("answered %q, %v", text, err)
		}
		s := <-backend.streams
		if log := n.log.String(); !strings.Contains(log, "a charge was not taken back") || !strings.Contains(log, s.call.RequestID) {
			t.Errorf("the log says %q", log)
		}
		if n.s.metrics.unrefunded.Get() != 1 {
			t.Errorf("counted %d", n.s.metrics.unrefunded.Get())
		}
		close(backend.uncertain)
	}
}

// TestWhoLeavesPays: a client that leaves before anything was shown pays what was
// computed, also when its writer sees the end of its job before it sees that it left.
func TestWhoLeavesPays(t *testing.T) {
	for _, left := range []bool{true, false} {
		n := start(t, Config{}, newFakeBackend(say()))
		s := &fakeStream{cancelled: make(chan struct{}), ended: make(chan struct{})}
		close(s.ended)
		a := &streamed{out: io.Discard}
		a.open(&exchange{s: n.s, conn: unheard(), stream: true, who: &Identity{Account: &account.Account{}}}, s, "core-1.1")
		a.lost.Store(left)
		if err := a.breakOff(&abi.Error{Kind: abi.Canceled, Msg: "cancelled"}); left != (err != nil) || s.withheld.Load() == left {
			t.Errorf("left %t: withheld %t, %v", left, s.withheld.Load(), err)
		}
	}
}

// TestConnectionOfABrokenStream: the connection ends after the error event, but a
// request that its client has sent by then is answered, as the last.
func TestConnectionOfABrokenStream(t *testing.T) {
	for name, again := range map[string]string{"nothing more": "", "a plain request": ask, "another stream": askSSE} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan struct{}) // closed when the client has sent all
			n := start(t, Config{}, newFakeBackend(func(s *fakeStream) {
				s.out.Push(begin()...)
				select {
				case <-sent:
				case <-s.cancelled:
				}
				s.out.Push(delta("x"), abi.Event{Kind: abi.EventError, Err: &abi.Error{Kind: abi.Internal, Msg: "failed"}})
			}))
			c := n.dialT(t)
			defer c.Close()
			r := bufio.NewReader(c)
			send := func(body string) {
				t.Helper()
				if _, err := io.WriteString(c, request("POST", "/v1/messages", body, withKey, withJSON)); err != nil {
					t.Fatal(err)
				}
			}
			send(askSSE)
			<-n.backend.streams
			if again != "" {
				send(again)
			}
			close(sent)
			if got := read(t, r, "POST"); got.cut != nil || !strings.HasSuffix(got.body, "\n\n") || !strings.Contains(got.body, "event: error") {
				t.Errorf("the broken stream: %q, cut by %v", got.body, got.cut)
			}
			if again != "" {
				got := read(t, r, "POST")
				if got.cut != nil || !got.Close || !strings.Contains(got.body, "error") {
					t.Errorf("the request behind it: close %t, %q, cut by %v", got.Close, got.body, got.cut)
				}
			}
			if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
				t.Errorf("after the last answer: %q, %v", rest, err)
			}
		})
	}
}
