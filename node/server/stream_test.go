package server

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/wasm/abi"
)

// frames splits a stream into event names, checking each frame's form. Comments
// come as ":".
func frames(t testing.TB, body string) (names []string) {
	t.Helper()
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		if strings.HasPrefix(frame, ":") {
			names = append(names, ":")
			continue
		}
		name, data, ok := strings.Cut(frame, "\ndata: ")
		name, named := strings.CutPrefix(name, "event: ")
		var v struct{ Type string }
		if err := json.Unmarshal([]byte(data), &v); !ok || !named || err != nil || v.Type != name {
			t.Errorf("bad frame %q: %v", frame, err)
		}
		names = append(names, name)
	}
	return names
}

func TestStreamShape(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("hel", "lo")))
	r := n.post(askSSE)
	checkIDs(t, r)
	got := strings.Join(frames(t, r.body), " ")
	want := "message_start content_block_start content_block_delta content_block_delta content_block_stop message_delta message_stop"
	if r.StatusCode != 200 || got != want || r.cut != nil {
		t.Errorf("%d %v: %s", r.StatusCode, r.cut, got)
	}
	if ct := r.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") {
		t.Errorf("content type %q", ct)
	}
	s := <-n.backend.streams
	if s.settles.Load() != 1 || s.cancels.Load() != 0 {
		t.Errorf("settled %d times, cancelled %d times", s.settles.Load(), s.cancels.Load())
	}
}

// TestThinkingIsSigned with the node's secret for the account and the model of the
// request, streamed or not.
func TestThinkingIsSigned(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(func(s *fakeStream) {
		s.out.Push(abi.Event{Kind: abi.EventStart}, abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockThinking},
			abi.Event{Kind: abi.EventDelta, Block: abi.BlockThinking, Text: "hm"}, abi.Event{Kind: abi.EventBlockStop,
				Block: abi.BlockThinking},
			abi.Event{Kind: abi.EventEnd, Stop: abi.StopMaxTokens})
	}))
	for _, c := range []struct{ key, account, model string }{
		{goodKey, "acct_good", "core-1.1"}, {goodKey, "acct_good", "core-1.1-mini"}, {otherKey, "acct_other", "core-1.1-mini"},
	} {
		mac := engine.Signer{Secret: []byte("secret"), Account: c.account, Model: c.model}.MAC()
		mac.Write([]byte("hm"))
		want := `"signature":"` + base64.StdEncoding.EncodeToString(mac.Sum(nil)) + `"`
		for _, body := range []string{ask, askSSE} {
			r := n.raw(request("POST", "/v1/messages", strings.Replace(body, "core-1.1", c.model, 1), "X-Api-Key: "+c.key))
			if !strings.Contains(r.body, want) {
				t.Errorf("%+v: %s; want %s", c, r.body, want)
			}
		}
	}
}

func TestCallCarriesWhatWasSent(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	r := n.post(ask, "X-Session-Id: thread-7")
	s := <-n.backend.streams
	if s.call.SessionID != "thread-7" || s.call.Account.ID != "acct_good" || s.call.Key.ID != "key_good" ||
		s.call.RequestID != r.Header.Get("X-Llm-Request-Id") || s.call.Request.MaxTokens != 16 {
		t.Errorf("%+v", s.call)
	}
}

// Headers leave at admission; the first byte of output waits for the hold.
func TestHoldComesBeforeOutput(t *testing.T) {
	held := make(chan error, 1)
	backend := newFakeBackend(say("x"))
	backend.held = func() chan error { return held }
	n := start(t, Config{KeepAlive: 10 * time.Millisecond}, backend)
	c := n.dial()
	if _, err := io.WriteString(c, request("POST", "/v1/messages", askSSE, withKey)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for comments := 0; comments < 3; {
		line, err := r.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "event:") {
			t.Fatalf("%q, %v", line, err)
		}
		if strings.HasPrefix(line, ": ") {
			comments++
		}
	}
	held <- nil
	for line := ""; !strings.Contains(line, "message_start"); {
		var err error
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatalf("%q, %v", line, err)
		}
	}
}

func TestHoldRefused(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-s.cancelled
		s.cancelledAs(abi.Usage{}, 0, 0, 0)
	})
	backend.held = func() chan error {
		c := make(chan error, 1)
		c <- &abi.Error{Kind: abi.Overloaded, Msg: "the ledger is not there", RetryAfter: time.Second}
		return c
	}
	n := start(t, Config{}, backend)
	if r := n.post(ask); r.StatusCode != 503 || r.errorType(t) != "overloaded_error" || r.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	r := n.post(askSSE)
	if got := frames(t, r.body); r.StatusCode != 200 || len(got) != 1 || got[0] != "error" || !strings.Contains(r.body, "overloaded_error") {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	for range 2 {
		if s := <-backend.streams; s.settles.Load() != 1 || s.cancels.Load() == 0 {
			t.Errorf("settled %d, cancelled %d", s.settles.Load(), s.cancels.Load())
		}
	}
}

// The last frame leaves only when Settle has returned. The time of the first token is told before.
func TestLastFrameWaitsForSettle(t *testing.T) {
	settle := make(chan struct{})
	backend := newFakeBackend(func(s *fakeStream) {
		say("text")(s)
		<-settle // Settle waits for the script
	})
	n := start(t, Config{}, backend)
	c := n.dial()
	if _, err := io.WriteString(c, request("POST", "/v1/messages", askSSE, withKey)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	var before string
	for !strings.Contains(before, "content_block_stop") {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		before += line
	}
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	early, _ := io.ReadAll(r) // until the deadline
	if strings.Contains(string(early), "message_delta") || strings.Contains(string(early), "message_stop") {
		t.Errorf("the end left before the charge was durable: %q", early)
	}
	var page strings.Builder
	n.s.metrics.set.WritePrometheus(&page)
	if !strings.Contains(page.String(), "corenode_ttft_seconds_count 1\n") {
		t.Error("the first token is not counted while the stream runs")
	}
	close(settle)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for line := ""; !strings.HasPrefix(line, "event: message_stop"); {
		var err error
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSettleFails(t *testing.T) {
	backend := newFakeBackend(say("x"))
	backend.settle = &abi.Error{Kind: abi.Overloaded, Msg: "the ledger is gone", RetryAfter: time.Second}
	n := start(t, Config{}, backend)
	if r := n.post(ask); r.StatusCode != 503 || strings.Contains(r.body, `"text"`) {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	r := n.post(askSSE)
	got := strings.Join(frames(t, r.body), " ")
	if !strings.HasSuffix(got, "content_block_stop error") || strings.Contains(r.body, "message_stop") {
		t.Errorf("%q", r.body)
	}
}

// A stream that breaks ends with the error event, without message_stop, and
// with its connection.
func TestMidStreamFailure(t *testing.T) {
	cases := []struct {
		err  *abi.Error
		kind string
	}{
		{&abi.Error{Kind: abi.Internal, Msg: "internal error"}, "api_error"},
		{&abi.Error{Kind: abi.Overloaded, Msg: "waited too long in the queue"}, "overloaded_error"},
		{&abi.Error{Kind: abi.Canceled, Msg: "stopped"}, "overloaded_error"}, // not by the client
		{nil, "api_error"},
	}
	for _, c := range cases {
		backend := newFakeBackend(func(s *fakeStream) {
			s.out.Push(begin()...)
			s.out.Push(delta("half an ans"))
			s.out.Push(abi.Event{Kind: abi.EventError, Err: c.err})
			s.settled = account.Settled{Reason: account.Failed}
		})
		n := start(t, Config{}, backend)
		conn := n.dial()
		if _, err := io.WriteString(conn, request("POST", "/v1/messages", askSSE, withKey)); err != nil {
			t.Fatal(err)
		}
		br := bufio.NewReader(conn)
		r := read(t, br, "POST")
		got := strings.Join(frames(t, r.body), " ")
		if got != "message_start content_block_start content_block_delta error" || r.cut != nil || !strings.Contains(r.body, c.kind) {
			t.Errorf("%v: %q", c.err, r.body)
		}
		if rest, err := io.ReadAll(br); err != nil || len(rest) != 0 {
			t.Errorf("the connection goes on: %q, %v", rest, err)
		}
		r = n.post(ask)
		want := 503
		if c.kind == "api_error" {
			want = 500
		}
		if r.StatusCode != want || r.errorType(t) != c.kind {
			t.Errorf("%v, not streamed: %d %q", c.err, r.StatusCode, r.body)
		}
	}
}

func TestKeepAlives(t *testing.T) {
	start1, finish := make(chan struct{}), make(chan struct{})
	backend := newFakeBackend(func(s *fakeStream) {
		<-start1
		s.out.Push(begin()...)
		<-finish
		s.out.Push(delta("x"))
		s.out.Push(end()...)
	})
	n := start(t, Config{KeepAlive: 5 * time.Millisecond}, backend)
	c := n.dial()
	if _, err := io.WriteString(c, request("POST", "/v1/messages", askSSE, withKey)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	var body strings.Builder
	until := func(what string, times int) {
		for times > 0 {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			body.WriteString(line)
			if strings.HasPrefix(line, what) {
				times--
			}
		}
	}
	until(": ", 3)
	close(start1)
	until("event: ping", 3)
	close(finish)
	until("event: message_stop", 1)
	before, after, _ := strings.Cut(body.String(), "message_start")
	if strings.Contains(before, "event: ping") || strings.Contains(after, ": waiting") {
		t.Errorf("keep-alives of the wrong kind: %q", body.String())
	}
}

func TestTimeoutIsAGateways(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-s.cancelled
		s.cancelledAs(abi.Usage{InputUncached: 3, Output: 1}, time.Millisecond, time.Millisecond, time.Millisecond)
	})
	n := start(t, Config{RequestTimeout: 40 * time.Millisecond}, backend)
	r := n.post(ask)
	checkIDs(t, r)
	if r.StatusCode != 504 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") || !strings.Contains(r.body, "<html>") {
		t.Errorf("%d %v %q", r.StatusCode, r.Header, r.body)
	}
	s := <-backend.streams
	if s.cancels.Load() == 0 || s.settles.Load() != 1 {
		t.Errorf("cancelled %d, settled %d", s.cancels.Load(), s.settles.Load())
	}
	if !strings.Contains(n.log.String(), `"reason":"cancelled"`) || !strings.Contains(n.log.String(), `"error":"timeout"`) {
		t.Errorf("log: %s", n.log)
	}
}

// flood is a script that writes as fast as its reader takes it.
func flood(s *fakeStream) {
	s.out.Push(begin()...)
	text := strings.Repeat("text ", 4000)
	for {
		select {
		case <-s.cancelled:
			s.cancelledAs(abi.Usage{InputUncached: 3, Output: 9}, 1, 1, 1)
			return
		default:
		}
		if s.out.Room() {
			s.out.Push(delta(text))
		} else {
			time.Sleep(time.Millisecond)
		}
	}
}

// A reader that takes nothing is cancelled when the write deadline passes.
func TestStalledReader(t *testing.T) {
	backend := newFakeBackend(flood)
	n := start(t, Config{StallTimeout: 100 * time.Millisecond}, backend)
	c := n.dial()
	if _, err := io.WriteString(c, request("POST", "/v1/messages", askSSE, withKey)); err != nil {
		t.Fatal(err)
	}
	s := <-backend.streams
	waitFor(t, "the stalled stream is settled", func() bool { return s.settles.Load() == 1 })
	waitFor(t, "its line is logged", func() bool { return strings.Contains(n.log.String(), `"status":499`) })
}

// TestReaderOfAShortStallTimeout: who reads at once is not cut off where a stream is silent for longer
// than a reader may be.
func TestReaderOfAShortStallTimeout(t *testing.T) {
	silence := make(chan struct{})
	n := start(t, Config{StallTimeout: 500 * time.Millisecond}, newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-silence
		s.out.Push(append([]abi.Event{delta("x")}, end()...)...)
	}))
	time.AfterFunc(700*time.Millisecond, func() { close(silence) })
	if r := n.post(askSSE); r.cut != nil || !strings.Contains(r.body, "message_stop") {
		t.Errorf("%v: %s", r.cut, r.body)
	}
}

// A reader that stalls does not hold up a drain, and its leaving is seen while
// the writer waits for it.
func TestStalledReaderIsNotWaitedFor(t *testing.T) {
	for _, leave := range []bool{false, true} {
		backend := newFakeBackend(flood)
		n := start(t, Config{WatchEvery: 10 * time.Millisecond}, backend)
		c := n.dial()
		if _, err := io.WriteString(c, request("POST", "/v1/messages", askSSE, withKey)); err != nil {
			t.Fatal(err)
		}
		s := <-backend.streams
		full := func() bool { return !s.out.Room() }
		waitFor(t, "the writer is stuck", func() bool { // full and staying so
			before := full()
			time.Sleep(50 * time.Millisecond)
			return before && full()
		})
		if leave {
			c.Close()
		} else {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := n.s.Drain(ctx); err != nil {
				t.Error(err)
			}
		}
		waitFor(t, "settled", func() bool { return s.settles.Load() == 1 })
	}
}

// A panic while a stream is being written still settles it and tells the client.
func TestPanicWhileStreaming(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		s.out.Push(abi.Event{Kind: abi.EventDelta, Block: 99, Text: "x"}) // no such block: the encoder panics
		<-s.cancelled
		s.cancelledAs(abi.Usage{}, 0, 0, 0)
	})
	n := start(t, Config{}, backend)
	r := n.post(askSSE)
	if !strings.HasSuffix(strings.Join(frames(t, r.body), " "), "error") || strings.Contains(r.body, "message_stop") {
		t.Errorf("%q", r.body)
	}
	if s := <-backend.streams; s.settles.Load() != 1 {
		t.Errorf("settled %d times", s.settles.Load())
	}
	if n.s.metrics.panics.Get() != 1 {
		t.Error("the panic was not counted")
	}
}

// Close without WriteTo is what fasthttp does when the headers cannot be written.
func TestHeadersNeverLeft(t *testing.T) {
	s, err := New(bounded(Config{}), Deps{Backend: newFakeBackend(nil), Catalog: fakeCatalog{}, Keys: testKeys(), Secret: []byte("s")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	st := &fakeStream{out: engine.NewOutput(1), cancelled: make(chan struct{}), ended: make(chan struct{})}
	go func() { <-st.cancelled; close(st.ended) }()
	x := &exchange{s: s, conn: unheard(), who: &Identity{Account: &account.Account{}}, resource: resource{route: routeMessages},
		stream: true, streamed: true}
	a := &streamed{}
	a.open(x, st, "core-1.1")
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if st.settles.Load() != 1 || st.cancels.Load() == 0 || !x.ended.Load() || x.status != statusClientClosed {
		t.Errorf("settled %d, cancelled %d, status %d", st.settles.Load(), st.cancels.Load(), x.status)
	}
	if _, err := a.Read(nil); err == nil || errors.Is(err, io.EOF) {
		t.Error("a stream that is read pretends to have ended")
	}
}
