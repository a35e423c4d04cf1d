package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"corenode/bench/fake"
	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/route"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// TestLeavingIsNoFailure: clients that leave say nothing of the replica, which is not ejected.
func TestLeavingIsNoFailure(t *testing.T) {
	still := func(int, []byte) fake.Script { return fake.Script{First: time.Hour, Text: []string{"a"}} }
	a, b := start(t, wire.Corenode, still), start(t, wire.Corenode, still)
	m := open(t, wire.Corenode, nil, a, b)
	l := newLoop(t, m)
	for n := range 12 {
		j, _, over := l.job("a", hello(true))
		l.until(func() bool { return len(a.Seen())+len(b.Seen()) == n+1 })
		j.Cancel()
		l.until(func() bool { return *over })
	}
	if n := m.Counts().Failures.Load(); n != 0 {
		t.Errorf("clients that left count as %d failures", n)
	}
}

// TestLongCall: a call is held back until it is complete, and does not look like a stall meanwhile.
func TestLongCall(t *testing.T) {
	call := fake.Call{Name: "get_weather", Input: `{"city":"x"}`}
	for _, f := range []wire.Flavor{wire.VLLM, wire.Messages} {
		withMoreTime(t, func(stall time.Duration) error {
			s := start(t, f, func(int, []byte) fake.Script {
				return fake.Script{Calls: []fake.Call{call}, Gap: stall * 7 / 10}
			})
			l := newLoop(t, open(t, f, func(o *Options) { o.StallTimeout = stall }, s))
			got := l.ask("a", `{"model":"far","max_tokens":100,"messages":[{"role":"user","content":"x"}],`+
				`"tools":[{"name":"get_weather","input_schema":{"type":"object"}}]}`)
			if got.result.Err != nil {
				return fmt.Errorf("%s: ended with %w", f, got.result.Err)
			}
			return nil
		})
	}
}

// TestFiltered: an answer that a server's filter cut is none. The client reads why, no other server is asked, and the server
// has not failed.
func TestFiltered(t *testing.T) {
	for _, stream := range []bool{false, true} {
		s := start(t, wire.Messages, func(int, []byte) fake.Script { return fake.Script{Text: []string{"a", "b"}, Stop: "refusal"} })
		m := open(t, wire.Messages, nil, s, start(t, wire.Messages, plainAnswer))
		for len(s.Seen()) == 0 {
			got := newLoop(t, m).ask("a", hello(stream))
			if len(s.Seen()) == 0 { // the other one was chosen
				m.Drain(got.result.Source.Replica, true)
				continue
			}
			if err := got.result.Err; err == nil || err.Kind != abi.InvalidRequest || !strings.Contains(err.Msg, "content filter") {
				t.Errorf("stream %v: ended with %v", stream, err)
			}
		}
		if n := m.Counts(); n.Failures.Load() != 0 || n.Retries.Load() != 0 {
			t.Errorf("%d failures, %d retries", n.Failures.Load(), n.Retries.Load())
		}
	}
}

// TestEndlessHead: the head of an answer is bounded.
func TestEndlessHead(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		defer there.Close()
		_, _ = there.Read(make([]byte, 4096))
		_, err := io.WriteString(there, "HTTP/1.1 200 OK\r\n")
		for line := []byte("X-A: " + strings.Repeat("a", 1000) + "\r\n"); err == nil; {
			_, err = there.Write(line)
		}
	}()
	u, _ := url.Parse("http://x")
	r := newReplica("http://x", u)
	c := newConn(here)
	_ = here.SetDeadline(time.Now().Add(10 * time.Second))
	_, err := r.ask(c, &question{method: http.MethodGet, path: "/"})
	if err == nil || timeout(err) {
		t.Errorf("an endless head ends with %v", err)
	}
}

// closing is a connection whose server has answered, if at all, and closed while the question is written.
type closing struct {
	net.Conn
	answer io.Reader
}

func (closing) Write([]byte) (int, error)       { return 0, syscall.EPIPE }
func (c closing) Read(b []byte) (int, error)    { return c.answer.Read(b) }
func (closing) SetReadDeadline(time.Time) error { return nil }

// TestEarlyAnswer: a server that answers and closes before it has the whole body has answered. One
// that says nothing, or only that its connection was idle, has not got the request.
func TestEarlyAnswer(t *testing.T) {
	u, _ := url.Parse("http://x")
	r := newReplica("http://x", u)
	for said, status := range map[string]int{
		"HTTP/1.1 413 Too large\r\nContent-Length: 2\r\n\r\nno":     http.StatusRequestEntityTooLarge,
		"HTTP/1.1 503 Full\r\nContent-Length: 0\r\n\r\n":            http.StatusServiceUnavailable,
		"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n": 0,
		"": 0,
	} {
		q := &question{method: http.MethodPost, path: "/", body: make([]byte, 10_000)}
		resp, err := r.ask(newConn(closing{answer: strings.NewReader(said)}), q)
		switch {
		case status == 0 && !errors.Is(err, errNotSent):
			t.Errorf("%q: %v", said, err)
		case status != 0 && (err != nil || resp.StatusCode != status):
			t.Errorf("%q: %+v, %v", said, resp, err)
		}
	}
}

// saying is a connection whose server says the same to every question.
type saying struct {
	net.Conn
	answer io.Reader
}

func (saying) Write(b []byte) (int, error)  { return len(b), nil }
func (s saying) Read(b []byte) (int, error) { return s.answer.Read(b) }

// TestInterimAnswers: what a server says ahead of its answer is none, but for a change of protocol, and is read a few times.
func TestInterimAnswers(t *testing.T) {
	u, _ := url.Parse("http://x")
	r := newReplica("http://x", u)
	const hints, ok = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	for said, status := range map[string]int{
		"HTTP/1.1 100 Continue\r\n\r\n" + ok:            http.StatusOK,
		strings.Repeat(hints, interimMax) + ok:          http.StatusOK,
		strings.Repeat(hints, interimMax+1) + ok:        http.StatusEarlyHints,
		"HTTP/1.1 101 Switching Protocols\r\n\r\n" + ok: http.StatusSwitchingProtocols,
		hints: 0,
		strings.Replace(hints, "x", strings.Repeat("x", headBytesMax*3/5), 1) + strings.Replace(ok, "OK", strings.Repeat("o", headBytesMax*3/5), 1): 0,
	} {
		resp, err := r.ask(newConn(saying{answer: strings.NewReader(said)}), &question{method: http.MethodGet, path: "/"})
		got := 0
		if err == nil {
			got = resp.StatusCode
		}
		if got != status {
			t.Errorf("%.100q of %d bytes: %d, %.100v, want %d", said, len(said), got, err, status)
		}
	}
}

// TestServerWithEarlyHints: a server that says something ahead of every answer is asked once for one, and is probed, counts
// and tells its version as others do.
func TestServerWithEarlyHints(t *testing.T) {
	s := start(t, wire.VLLM, plainAnswer)
	hinting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</x>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		s.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(hinting.Close)
	s.URL = hinting.URL
	m := open(t, wire.VLLM, nil, s)
	got := newLoop(t, m).ask("a", hello(true))
	if got.refused != nil || got.result.Err != nil || text(got.events, abi.BlockText) != "Hello, wörld!" {
		t.Errorf("refused %v, ended with %v: %q", got.refused, got.result.Err, text(got.events, abi.BlockText))
	}
	if n, c := len(s.Seen()), m.Counts(); n != 1 || c.Failures.Load() != 0 || c.Retries.Load() != 0 {
		t.Errorf("asked %d times, %d failures, %d retries", n, c.Failures.Load(), c.Retries.Load())
	}
	if r := replicaOf(m, hinting.URL); !r.Up || r.Version == "unknown" {
		t.Errorf("%+v", r)
	}
}

// TestUsageBelowDelivered: a report that is far below what was delivered is not believed, such
// as the one that some servers begin their messages with.
func TestUsageBelowDelivered(t *testing.T) {
	u := wire.Usage{Input: 10, Output: 1, Known: true}
	got, source := checked(u, bounds{counted: 10, maxTokens: 1000, delivered: 500})
	if got.Output != 500 || source != engine.UsageCounted {
		t.Errorf("%+v, %v", got, source)
	}
}

// TestEndlessAnswer: a server that does not stop at max_tokens is cut, which is against its protocol;
// no other one is asked for as much.
func TestEndlessAnswer(t *testing.T) {
	endless := func(int, []byte) fake.Script {
		return fake.Script{Text: slices.Repeat([]string{strings.Repeat("x", 60000)}, 40)}
	}
	m := open(t, wire.VLLM, nil, start(t, wire.VLLM, endless), start(t, wire.VLLM, endless))
	l := newLoop(t, m)
	for range 5 { // of one conversation, which a server cannot answer so often before it is taken out
		if got := l.ask("a", hello(false)); got.result.Err == nil {
			t.Error("2 MB of 100 tokens are an answer")
		}
	}
	n, broken, probe := m.Counts().Attempts.Load(), m.Counts().Ejections[ReasonBroken].Load(), m.Counts().Ejections[ReasonProbe].Load()
	if n != 5 || broken != 1 || probe != 0 {
		t.Errorf("%d attempts, %d servers out as broken, %d by their probes", n, broken, probe)
	}
}

// TestCountRefused: a prompt that the servers refuse to count is the client's error.
func TestCountRefused(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodGet:
		case strings.Contains(string(body), "hi"):
			_, _ = io.WriteString(w, `{"input_tokens":1}`)
		default:
			http.Error(w, `{"error":{"message":"too long"}}`, http.StatusBadRequest)
		}
	}))
	defer s.Close()
	m := open(t, wire.Messages, func(o *Options) { o.URLs = []string{s.URL} })
	waitFor(t, "the server to be ready", m.anyReady)
	q, err := messages.Parse([]byte(hello(false)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Count(q); abi.KindOf(err) != abi.InvalidRequest || !strings.Contains(err.Error(), "too long") {
		t.Errorf("refused with %v", err)
	}
	q.Raw = true // a server that takes messages writes its own prompt
	if _, err := m.Prepare("a", q); abi.KindOf(err) != abi.InvalidRequest || abi.AsError(err).Param != "model" {
		t.Errorf("a raw text: %v", err)
	}
}

// TestLeavingACall: a call that was held back when its client left was computed, and is paid.
func TestLeavingACall(t *testing.T) {
	withMoreTime(t, func(wait time.Duration) error {
		s := start(t, wire.VLLM, func(int, []byte) fake.Script {
			return fake.Script{Calls: []fake.Call{{Name: "get_weather", Input: `{"city":"x"}`}}, Fault: fake.Stall, At: 1}
		})
		l := newLoop(t, open(t, wire.VLLM, nil, s))
		j, got, over := l.job("a", `{"model":"far","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"x y"}],`+
			`"tools":[{"name":"get_weather","input_schema":{"type":"object"}}]}`)
		l.until(func() bool { return len(s.Seen()) == 1 && got.taken })
		time.Sleep(wait / 3) // the first half of the call comes meanwhile, and nothing shows it
		j.Cancel()
		l.until(func() bool { return *over })
		if got.refused != nil || got.result.Usage.Output == 0 || got.result.Usage.InputUncached != 2 {
			return fmt.Errorf("refused %v, usage %+v", got.refused, got.result.Usage)
		}
		return nil
	})
}

// TestInvalidCallCountsWhatWasDelivered: an answer that ends with a call which nothing fits was delivered up to it, and that
// is counted. The call was not.
func TestInvalidCallCountsWhatWasDelivered(t *testing.T) {
	const pieces = 200
	for _, f := range slices.Repeat(flavors, 5) { // the call's pieces come with the last of the text, or behind it
		s := start(t, f, func(int, []byte) fake.Script {
			return fake.Script{Text: slices.Repeat([]string{"word "}, pieces), Calls: []fake.Call{{Name: "f", Input: `{"x":1}`}}}
		})
		got := newLoop(t, open(t, f, nil, s)).ask("a", `{"model":"far","max_tokens":900,"stream":true,"messages":[{"role":"user","content":"x y"}],`+
			`"tools":[{"name":"f","input_schema":{"type":"object","properties":{"x":{"not":{}}},"required":["x"]}}]}`)
		r, shown := got.result, int64(strings.Count(text(got.events, abi.BlockText), "word "))
		if abi.KindOf(r.Err) != abi.Internal || shown == 0 || r.Usage != (abi.Usage{InputUncached: 2, Output: shown}) ||
			r.Source.Usage != engine.UsageCounted {
			t.Errorf("%s: %v after %d pieces, usage %+v, %v", f, r.Err, shown, r.Usage, r.Source.Usage)
		}
	}
}

// TestRetryNeedsAReplica: where no other replica may be tried nothing counts as a retry.
func TestRetryNeedsAReplica(t *testing.T) {
	for servers, retries := range map[int]int64{1: 0, 2: 1} {
		dies := func(int, []byte) fake.Script { return fake.Script{Fault: fake.Broken500, Text: []string{"a"}} }
		var all []*fake.Server
		for range servers {
			all = append(all, start(t, wire.Corenode, dies))
		}
		m := open(t, wire.Corenode, nil, all...)
		if got := newLoop(t, m).ask("a", string(hello(true))); got.refused == nil && got.result.Err == nil {
			t.Errorf("%d servers that die: an answer", servers)
		}
		if n := m.Counts().Retries.Load(); n != retries {
			t.Errorf("%d servers that die: %d retries, want %d", servers, n, retries)
		}
	}
}

// TestRetryAfterARefusedConnection: what goes to another replica since one was not there counts as a retry.
func TestRetryAfterARefusedConnection(t *testing.T) {
	gone := start(t, wire.Corenode, plainAnswer)
	m := open(t, wire.Corenode, func(o *Options) { o.ProbeEvery = time.Hour }, gone, start(t, wire.Corenode, plainAnswer))
	gone.CloseClientConnections()
	gone.Close()
	l, asked := newLoop(t, m), int64(0)
	for ; m.Counts().Failures.Load() == 0 && asked < 100; asked++ { // until one of them is for the server that is gone
		if got := l.ask(fmt.Sprint("account ", asked), string(hello(true))); got.refused != nil || got.result.Err != nil {
			t.Fatalf("%v, %v", got.refused, got.result.Err)
		}
	}
	if c := m.Counts(); c.Retries.Load() != 1 || c.Attempts.Load() != asked+1 {
		t.Errorf("%d requests, %d attempts, %d retries", asked, c.Attempts.Load(), c.Retries.Load())
	}
}

// TestPrefixesOfAFailure: a server that did not answer a prompt is not thought to have it. Behind one that refuses the node no
// other is asked.
func TestPrefixesOfAFailure(t *testing.T) {
	for _, fault := range []fake.Fault{fake.Full429, fake.Broken500, fake.DieBetweenEvents, fake.ErrorEvent, fake.Refuse401} {
		var asked atomic.Int64 // of both; the first one fails
		script := func(n int, body []byte) fake.Script {
			s := plainAnswer(n, body)
			if asked.Add(1) == 1 {
				s.Fault = fault
			}
			return s
		}
		m := open(t, wire.Corenode, nil, start(t, wire.Corenode, script), start(t, wire.Corenode, script))
		got := newLoop(t, m).ask("a", hello(true))
		failed := got.refused != nil || got.result.Err != nil
		if refused := fault == fake.Refuse401; failed != refused || !refused && got.result.Source.Attempts != 2 {
			t.Errorf("%s: %v, %v, %+v", fault, got.refused, got.result.Err, got.result.Source)
		}
		for _, r := range m.Replicas() {
			if (r.Prefixes > 0) != (!failed && r.ID == got.result.Source.Replica) {
				t.Errorf("%s: answered by %s, and %s has %d prefixes", fault, got.result.Source.Replica, r.ID, r.Prefixes)
			}
		}
	}
}

// TestRefusingServerIsLeft: of a server that refuses the node nothing is thought to lie there any more, what it answered before
// neither. A wrong key counts as a failure. What a request's own fields or headers may bring about counts as
// nothing: no client takes a server out, and none that fails is kept in.
func TestRefusingServerIsLeft(t *testing.T) {
	for i, status := range []int{401, 401, 402, 403, 404, 405} {
		sent := &sent{}
		if i > 0 { // some servers look for the key elsewhere then
			sent.forward = [][2]string{{"Anthropic-Beta", "oauth"}}
		}
		m := open(t, wire.VLLM, func(o *Options) { o.ProbeEvery = time.Hour },
			start(t, wire.VLLM, plainAnswer), start(t, wire.VLLM, plainAnswer))
		key, r := prefixed(t, said("user", document)).key("session"), &relay{model: m, sent: sent}
		choose := func() place {
			c := m.choose(wish{key: key})
			if c.why != route.Chosen {
				t.Fatal(c.why)
			}
			return c.place
		}
		fail := func(p place, status int) { m.release(p, r.failure(p.base, status, serverError{msg: "no"})) }
		first := choose()
		m.release(first, nil) // it has answered
		for range 10 {
			p := choose()
			if p.base != first.base {
				m.giveBack(p)
				break
			}
			fail(p, status)
			if known := replicaOf(m, p.base).Prefixes; known != 0 {
				t.Errorf("%d: %d prefixes are thought to lie there", status, known)
			}
		}
		if got := replicaOf(m, first.base); got.Up != (i > 0) || got.Reason == "" {
			t.Errorf("%d: ten times, and the server is %+v", status, got)
		}
		if i == 0 {
			continue
		}
		before := m.Counts().Failures.Load()
		for _, s := range []int{500, 500, 500, 500, status, 500} {
			fail(choose(), s)
		}
		if n := m.Counts().Failures.Load() - before; before == 0 || n != 6 {
			t.Errorf("%d: %d failures of refusals alone, then %d of 6", status, before, n)
		}
		if replicaOf(m, first.base).Up {
			t.Errorf("%d: between five failures it keeps the server in", status)
		}
	}
}

// TestFirstTimeoutIsOne: the wait for a server's first event does not begin again when its headers come.
func TestFirstTimeoutIsOne(t *testing.T) {
	s := start(t, wire.Corenode, func(int, []byte) fake.Script {
		time.Sleep(300 * time.Millisecond) // before the headers
		return fake.Script{First: 300 * time.Millisecond, Text: []string{"late"}}
	})
	m := open(t, wire.Corenode, func(o *Options) { o.FirstTimeout = 400 * time.Millisecond }, s)
	if got := newLoop(t, m).ask("a", string(hello(true))); got.refused == nil && got.result.Err == nil {
		t.Error("an answer whose first event came too late")
	}
}

// TestToolsAsShown: a server that writes tools into its prompt as they come is sent them as our own
// models see them, since that is what is counted.
func TestToolsAsShown(t *testing.T) {
	s := start(t, wire.LlamaServer, plainAnswer)
	l := newLoop(t, open(t, wire.LlamaServer, nil, s))
	l.ask("a", `{"model":"far","max_tokens":7,"tools":[{"name":"f","input_schema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}}],"messages":[{"role":"user","content":"x"}]}`)
	if got := string(s.Seen()[0].Body); strings.Contains(got, "$schema") || !strings.Contains(got, `"parameters":{"type":"object"}`) {
		t.Errorf("went out as %s", got)
	}
	l.ask("a", `{"model":"far","max_tokens":7,"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object"}}],
		"tool_choice":{"type":"tool","name":"g"},"messages":[{"role":"user","content":"x"}]}`) // it can be told to call one, but not which
	if got := string(s.Seen()[1].Body); strings.Contains(got, `"name":"f"`) || !strings.Contains(got, `"tool_choice":"required"`) {
		t.Errorf("one that is to be called went out as %s", got)
	}
}

// TestQuestionsAsWritten: what goes out is read by another implementation as it was meant, and
// no value becomes a line of its own.
func TestQuestionsAsWritten(t *testing.T) {
	u, _ := url.Parse("http://there:81/base/ä")
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	q := &question{http.MethodPost, "/v1/messages", []field{{"X-One", "1\r\nX-Two: 2"}}, []byte("body")}
	if err := newReplica("", u).write(w, q); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadRequest(bufio.NewReader(&b))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(got.Body)
	if got.Method != "POST" || got.Host != "there:81" || got.URL.Path != "/base/ä/v1/messages" || string(body) != "body" ||
		got.Header.Get("X-One") != "1  X-Two: 2" || len(got.Header) != 2 {
		t.Errorf("%v %v %q", got, got.Header, body)
	}
}

// TestRetryAfterOfAFullServer: clients wait for as long as the server says, within a bound.
func TestRetryAfterOfAFullServer(t *testing.T) {
	for said, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "0.5": 500 * time.Millisecond, "0": 0, "-1": 0, "soon": 0,
		"NaN": 0, "300": retryAfterMax, "301": retryAfterMax, "99999999999": retryAfterMax, "1e300": retryAfterMax, "inf": retryAfterMax} {
		if got := retryAfter(http.Header{"Retry-After": {said}}); got != want {
			t.Errorf("%q: %v, want %v", said, got, want)
		}
	}
}

// TestCancelNeedsNoStep: a job that is cancelled leaves its server at once, and one that was cancelled before never comes there:
// a step looks at those that ended alone.
func TestCancelNeedsNoStep(t *testing.T) {
	s := start(t, wire.VLLM, func(int, []byte) fake.Script { return fake.Script{Text: []string{"x", "y"}, Fault: fake.Stall, At: 1} })
	l := newLoop(t, open(t, wire.VLLM, nil, s))
	j, got, over := l.job("a", hello(false))
	waitFor(t, "the request to come", func() bool { return len(s.Seen()) == 1 })
	l.stepper.Step(time.Now())
	relay := l.stepper.live[j]
	j.Cancel()
	if relay.ctx.Err() == nil {
		t.Error("it goes on until the next step")
	}
	l.until(func() bool { return *over })
	if got.result.Err == nil || got.result.Err.Kind != abi.Canceled {
		t.Errorf("ended with %v", got.result.Err)
	}
	again := &engine.Job{Account: "a", Request: j.Request, Output: engine.NewWholeOutput()}
	ended := false
	again.Finished = func(r engine.Result) { ended = r.Err != nil && r.Err.Kind == abi.Canceled }
	again.Cancel()
	l.stepper.Submit(again, time.Now(), func(*abi.Error) {})
	l.until(func() bool { return ended })
	if n := len(s.Seen()); n != 1 {
		t.Errorf("%d requests came", n)
	}
}

// TestRefusedForItsLength: what servers say of a prompt that is too long for them, in a sentence or with a code, has the reason
// that agents shorten a conversation for. No other refusal has, and be it one that quotes the request.
func TestRefusedForItsLength(t *testing.T) {
	for msg, long := range map[string]bool{
		"This model's maximum context length is 8 tokens. However, you requested 9 tokens (8 in the messages).": true,
		"The input (9 tokens) is longer than the model's context length (8 tokens).":                            true,
		"Requested token count exceeds the model's maximum context length of 8 tokens.":                         true,
		"The decoder prompt (length 9) is longer than the maximum model length of 8. Make sure that":            true,
		"Input length (9 tokens) exceeds the maximum allowed length (8 tokens). Use a shorter input":            true,
		"request (9 tokens) exceeds the available context size (8 tokens), try increasing it":                   true,
		"the request exceeds the available context size. try increasing the context size":                       true,
		"Context size has been exceeded.":                                                                          true,
		"tokens to keep from the initial prompt is greater than the context length":                                true,
		"Prompt contains 9 tokens, too large for model with 8 maximum context length":                              true,
		"messages: prompt is too long: 9 tokens > 8 maximum":                                                       true,
		"However, the model is loaded with context length of only 8 tokens, which is not enough.":                  true,
		"litellm.ContextWindowExceededError: Hosted_vllmException - {\"message\":\"The input (9 tokens)\"}":        true,
		"max_tokens: input length and `max_tokens` exceed context limit: 8 + 1 > 8":                                true,
		"1 validation error:\n  {'type': 'missing', 'loc': ('body', 'model'), 'input': 'context length (8'}":       false,
		"1 validation error for Request\nmessages.0\n  want a string [input_value=['prompt is too long: 9', 'a']]": false,
		"unknown role: " + strings.Repeat("x", 300) + ", prompt is too long: 9":                                    false,
		"a tool may not be named after the context window":                                                         false,
		"temperature is too long a word":                                                                           false,
		"":                                                                                                         false,
	} {
		o := (&relay{}).failure("http://a", http.StatusBadRequest, serverError{msg: msg})
		if e := o.refusal(); !o.verdict.final() || (e.Reason == abi.ReasonPrompt) != long || !strings.HasSuffix(e.Message(), msg) {
			t.Errorf("%q is %+v", msg, e)
		}
	}
	for page, long := range map[string]bool{
		`{"error":{"message":"Shorten it.","code":"context_length_exceeded"}}`:              true,
		`{"error":{"message":"Shorten it.","code":400,"type":"exceed_context_size_error"}}`: true,
		`{"error":{"message":"Shorten it.","code":null,"type":"invalid_request_error"}}`:    false,
	} {
		if e := readError([]byte(page)); e.msg != "Shorten it." || (refused("", e, nil).Reason == abi.ReasonPrompt) != long {
			t.Errorf("%s is %+v", page, e)
		}
	}
}
