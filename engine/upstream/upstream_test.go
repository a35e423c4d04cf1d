package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/bench/fake"
	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

var flavors = []wire.Flavor{wire.VLLM, wire.SGLang, wire.LlamaServer, wire.Corenode, wire.Messages}

// plainAnswer is what a fake says unless a test wants something else.
func plainAnswer(int, []byte) fake.Script {
	return fake.Script{Thinking: []string{"let ", "me "}, Text: []string{"Hello", ", ", "wörld", "!"}}
}

// open makes a model whose replicas are fakes.
func open(t testing.TB, f wire.Flavor, change func(*Options), servers ...*fake.Server) *Model {
	t.Helper()
	o := Options{Info: engine.Info{ID: "far", ContextLength: 1000, OutputMax: 1000}, Flavor: f, Secret: []byte("secret"), SharedCache: true,
		ProbeEvery: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, s := range servers {
		o.URLs = append(o.URLs, s.URL)
	}
	if change != nil {
		change(&o)
	}
	m, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	waitFor(t, "the replicas to be ready", func() bool { return len(m.urls()) >= len(servers) })
	return m
}

var start = fake.New

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// told is how one request ended.
type told struct {
	taken   bool
	refused *abi.Error
	events  []abi.Event
	result  engine.Result
}

// withMoreTime tries with ever longer times: on a machine that stands still for one, what takes less looks as if it took
// more. What never holds fails the test.
func withMoreTime(t testing.TB, try func(unit time.Duration) error) {
	t.Helper()
	for unit := time.Second; ; unit *= 2 {
		err := try(unit)
		if err == nil {
			return
		}
		if unit >= 4*time.Second { // until waits for a minute
			t.Fatal(err)
		}
	}
}

// loop is a step loop with one stepper.
type loop struct {
	t        testing.TB
	m        *Model
	stepper  *Stepper
	wake     chan struct{}
	trace    engine.Trace // of the requests
	priority int8         // of the requests
}

func newLoop(t testing.TB, m *Model) *loop {
	l := &loop{t: t, m: m, wake: make(chan struct{}, 1)}
	l.stepper = m.NewStepper(func() {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	})
	return l
}

// job prepares a body and submits it.
func (l *loop) job(account, body string) (*engine.Job, *told, *bool) {
	l.t.Helper()
	q, err := messages.Parse([]byte(body))
	if err != nil {
		l.t.Fatal(err)
	}
	r, err := l.m.Prepare(account, q)
	if err != nil {
		l.t.Fatal(err)
	}
	out := engine.NewWholeOutput()
	if r.Stream {
		out = engine.NewOutput(256)
	}
	r.Trace = l.trace
	j := &engine.Job{ID: "req_1", Account: account, Session: "session of " + account, Request: r, Output: out,
		Priority: l.priority}
	got, over := &told{}, new(bool)
	j.Finished = func(r engine.Result) { got.result, *over = r, true }
	l.stepper.Submit(j, time.Now(), func(err *abi.Error) {
		if got.taken = err == nil; err != nil {
			got.refused, *over = err, true
		}
	})
	return j, got, over
}

// ask takes one request to its end.
func (l *loop) ask(account, body string) *told {
	l.t.Helper()
	j, got, over := l.job(account, body)
	l.until(func() bool {
		got.events = append(got.events, j.Output.Drain(nil)...)
		return *over
	})
	got.events = append(got.events, j.Output.Drain(nil)...)
	return got
}

// until steps until ok.
func (l *loop) until(ok func() bool) {
	l.t.Helper()
	end := time.Now().Add(time.Minute)
	for !ok() {
		select {
		case <-l.wake:
		case <-time.After(2 * time.Millisecond):
		}
		l.stepper.Step(time.Now())
		if time.Now().After(end) {
			l.t.Fatal("the request does not end")
		}
	}
}

const helloBody = `{"model":"far","max_tokens":100,"messages":[{"role":"user","content":"one two three four"}]%s}`

func hello(stream bool) string {
	return fmt.Sprintf(helloBody, map[bool]string{true: `,"stream":true`}[stream])
}

// text joins the deltas of a kind.
func text(events []abi.Event, kind abi.BlockKind) string {
	var b strings.Builder
	for _, e := range events {
		if e.Kind == abi.EventDelta && e.Block == kind {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// checkEvents holds a stream to the form that an engine of ours gives.
func checkEvents(t testing.TB, events []abi.Event) {
	t.Helper()
	open, index := false, int32(0)
	for i, e := range events {
		switch e.Kind {
		case abi.EventStart:
			if i != 0 {
				t.Errorf("event %d is a start", i)
			}
		case abi.EventBlockStart:
			if open || e.Index != index {
				t.Errorf("event %d opens block %d, want %d, open %v", i, e.Index, index, open)
			}
			open = true
		case abi.EventDelta:
			if !open || e.Index != index {
				t.Errorf("event %d is a delta of block %d", i, e.Index)
			}
		case abi.EventBlockStop:
			if !open || e.Index != index {
				t.Errorf("event %d closes block %d", i, e.Index)
			}
			open = false
			index++
		case abi.EventEnd, abi.EventError:
			if i != len(events)-1 || e.Kind == abi.EventEnd && open {
				t.Errorf("event %d ends the answer, %d events, open %v", i, len(events), open)
			}
		}
	}
}

// TestAnswers: every flavor, streaming and not, gives the text, the usage and the reason.
func TestAnswers(t *testing.T) {
	for _, f := range flavors {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(f, stream), func(t *testing.T) {
				s := start(t, f, plainAnswer)
				l := newLoop(t, open(t, f, nil, s))
				got := l.ask("a", hello(stream))
				if got.refused != nil || got.result.Err != nil {
					t.Fatalf("refused %v, ended with %v", got.refused, got.result.Err)
				}
				checkEvents(t, got.events)
				if th, tx := text(got.events, abi.BlockThinking), text(got.events, abi.BlockText); th != "let me " || tx != "Hello, wörld!" {
					t.Errorf("thinking %q, text %q", th, tx)
				}
				want := abi.Usage{InputUncached: 4, Output: 6, Reasoning: 2}
				end := got.events[len(got.events)-1]
				if end.Kind != abi.EventEnd || end.Stop != abi.StopEndTurn || end.Usage != want || got.result.Usage != want {
					t.Errorf("the end is %+v, the result's usage %+v", end, got.result.Usage)
				}
				if src := got.result.Source; src.Replica != s.URL || src.Usage != engine.UsageReported || src.RequestID != "upstream-req_1-r1" {
					t.Errorf("source %+v", src)
				}
				sent := s.Seen()[0]
				if !strings.Contains(string(sent.Body), `"stream":true`) || strings.Contains(sent.Header.Get("X-Session-Id"), "session") {
					t.Errorf("sent %s with %v", sent.Body, sent.Header)
				}
			})
		}
	}
}

// faultOf says what must become of a fault at delta 0, before any content, and at delta 3.
var faultOf = map[fake.Fault]struct {
	before string // "ok" (another replica answered), or a kind
	after  string
}{
	fake.DieBeforeHeaders: {"ok", ""}, fake.DieAfterHeaders: {"ok", ""}, fake.ErrorBody: {"ok", ""},
	fake.Full429: {"ok", ""}, fake.Full503: {"ok", ""}, fake.Broken500: {"ok", ""},
	fake.Refuse400: {"invalid_request", ""}, fake.Refuse401: {"overloaded", ""},
	fake.DieBetweenEvents: {"ok", "internal"}, fake.DieInEvent: {"ok", "internal"}, fake.DieInCharacter: {"ok", "internal"},
	fake.EndEarly: {"", "internal"}, fake.Stall: {"ok", "internal"}, fake.ErrorEvent: {"ok", "internal"}, fake.NotJSON: {"ok", "internal"},
	fake.LieInput: {"counted", ""}, fake.LieOutput: {"counted", ""}, fake.LieCached: {"counted", ""}, fake.NoUsage: {"counted", ""},
	fake.NoDone: {"ok1", ""}, fake.TwoDone: {"ok1", ""},
	fake.InvalidCall: {"internal", ""}, fake.UnknownCall: {"internal", ""},
}

// TestFaults: every fault, on every flavor, streaming and not, before the first content and
// in the middle: nothing that broke ends as if it had not, no request is left on a replica,
// and what comes before the first content is tried on the other replica.
func TestFaults(t *testing.T) {
	for _, f := range flavors {
		for _, fault := range fake.Faults() {
			want, known := faultOf[fault]
			if !known {
				t.Fatalf("the table does not say what becomes of %q", fault)
			}
			for _, stream := range []bool{false, true} {
				for _, at := range []int{0, 3} {
					kind := map[int]string{0: want.before, 3: want.after}[at]
					if kind == "" {
						continue
					}
					if at == 3 && !stream { // nothing of it was shown
						kind = "ok"
					}
					t.Run(fmt.Sprintf("%s/%s/stream=%v/at=%d", f, fault, stream, at), func(t *testing.T) {
						t.Parallel()
						testFault(t, f, fault, stream, at, kind, 300*time.Millisecond)
					})
				}
			}
		}
	}
}

// testFault tries again with more patience where a machine that stands still made a server that answers look like
// one that stalls, or the other stall too early.
func testFault(t *testing.T, f wire.Flavor, fault fake.Fault, stream bool, at int, want string, patience time.Duration) {
	var asked atomic.Int64 // of both; the first one breaks
	broken := func(n int, body []byte) fake.Script {
		s := plainAnswer(n, body)
		if asked.Add(1) == 1 {
			s.Fault, s.At = fault, at
		}
		return s
	}
	m := open(t, f, func(o *Options) {
		if fault == fake.Stall {
			o.StallTimeout, o.FirstTimeout = patience, patience
		}
	}, start(t, f, broken), start(t, f, broken))
	for _, r := range m.replicas {
		r.close() // one that dies on an idle connection, which a count may leave, is asked again
	}
	l := newLoop(t, m)
	got := l.ask("a", fmt.Sprintf(helloBody, `,"tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]`+
		map[bool]string{true: `,"stream":true`}[stream]))
	checkEvents(t, got.events)
	waitFor(t, "the replicas to be free", func() bool {
		return !slices.ContainsFunc(m.Replicas(), func(r Replica) bool { return r.InFlight != 0 })
	})
	once := m.Counts().Failures.Load() == 1 && (want != "internal" || asked.Load() == 1)
	if fault == fake.Stall && !once && patience < 5*time.Second {
		testFault(t, f, fault, stream, at, want, 4*patience)
		return
	}
	err := got.result.Err
	if got.refused != nil {
		err = got.refused
	}
	switch want {
	case "ok", "ok1", "counted":
		if err != nil {
			t.Fatalf("failed: %v", err)
		}
		if tx := text(got.events, abi.BlockText); tx != "Hello, wörld!" {
			t.Errorf("text %q", tx)
		}
		if n := asked.Load(); (want == "ok") != (n == 2) {
			t.Errorf("replicas were asked %d times", n)
		}
		if u := got.result.Usage; u.InputUncached != 4 || u.Output != 6 || u.CacheRead != 0 {
			t.Errorf("usage %+v", u)
		}
		if src := got.result.Source.Usage; (src == engine.UsageCounted) != (want == "counted") {
			t.Errorf("usage source %v", src)
		}
	default:
		if err == nil || err.Kind.String() != want {
			t.Fatalf("ended with %v, want %s", err, want)
		}
		if n := len(got.events); n > 0 && got.events[n-1].Kind == abi.EventEnd {
			t.Error("a broken answer ends like one that did not break")
		}
		if at == 3 && (got.result.Usage.InputUncached != 4 || got.result.Usage.Output < 1 || got.result.Usage.Output > 3) {
			t.Errorf("usage %+v of 3 delivered tokens", got.result.Usage)
		}
		if want == "internal" && !errors.Is(err, engine.ErrElsewhere) {
			t.Errorf("%v does not say that it is no fault of this node", err)
		}
		if calls := fault == fake.InvalidCall || fault == fake.UnknownCall; at == 0 && !calls && got.result.Usage != (abi.Usage{}) {
			t.Errorf("nothing was shown, and the usage is %+v", got.result.Usage)
		}
	}
	checkCounted(t, m, got.result, err == nil || stream)
}

// checkCounted compares the counter of answers that are charged by this node's count with the only one that there was.
func checkCounted(t *testing.T, m *Model, r engine.Result, charged bool) {
	t.Helper()
	if n := m.Counts().UsageCounted.Load(); (r.Source.Usage == engine.UsageCounted && charged) != (n == 1) {
		t.Errorf("source %+v, and %d answers are counted", r.Source, n)
	}
}

// TestAccountsShareNothing: B repeats A's prompt and finds nothing cached; A does.
func TestAccountsShareNothing(t *testing.T) {
	for _, f := range flavors {
		t.Run(string(f), func(t *testing.T) {
			s := start(t, f, plainAnswer)
			l := newLoop(t, open(t, f, nil, s))
			cached := func(account string) int64 { return l.ask(account, hello(false)).result.Usage.CacheRead }
			if n := cached("a"); n != 0 {
				t.Errorf("the first request reads %d from the cache", n)
			}
			if n := cached("b"); n != 0 {
				t.Errorf("another account's prompt is found: %d tokens", n)
			}
			if n := cached("a"); (n > 0) != f.Isolates() {
				t.Errorf("the account's own prompt: %d tokens from the cache", n)
			}
		})
	}
}

// TestUnsharedCache: servers that cannot keep accounts apart serve one account only: the one of which
// a body was sent first, and not one that was refused before.
func TestUnsharedCache(t *testing.T) {
	s := start(t, wire.LlamaServer, plainAnswer)
	var log bytes.Buffer
	m := open(t, wire.LlamaServer, func(o *Options) {
		o.SharedCache, o.Log = false, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
	}, s)
	q, err := messages.Parse([]byte(hello(false)))
	if err != nil {
		t.Fatal(err)
	}
	late, err := m.Prepare("b", q)
	if err != nil {
		t.Fatalf("nothing was sent: %v", err)
	}
	l := newLoop(t, m)
	if got := l.ask("a", hello(false)); got.result.Err != nil {
		t.Errorf("the first that is sent: %v", got.result.Err)
	}
	if _, err := m.Prepare("a", q); err != nil {
		t.Errorf("the same account: %v", err)
	}
	if _, err := m.Prepare("b", q); abi.KindOf(err) != abi.Overloaded {
		t.Errorf("a second account: %v", err)
	}
	var over *engine.Result
	j := &engine.Job{ID: "req_2", Account: "b", Request: late, Output: engine.NewWholeOutput(),
		Finished: func(r engine.Result) { over = &r }}
	l.stepper.Submit(j, time.Now(), func(*abi.Error) {})
	l.until(func() bool { return over != nil })
	if over.Err == nil || over.Err.Kind != abi.Overloaded || len(s.Seen()) != 1 {
		t.Errorf("one that was prepared before: %v, of %d sent", over.Err, len(s.Seen()))
	}
	if told := log.String(); strings.Count(told, "a second account") != 1 {
		t.Errorf("the log was told:\n%s", told)
	}
}

// TestLeaving: a job that is cancelled closes the connection to the replica, in every phase.
func TestLeaving(t *testing.T) {
	for _, phase := range []fake.Script{
		{First: time.Hour, Text: []string{"a"}},
		{Text: []string{"a", "b"}, Gap: 10 * time.Millisecond, Fault: fake.Stall, At: 1},
	} {
		for _, stream := range []bool{false, true} {
			s := start(t, wire.Corenode, func(int, []byte) fake.Script { return phase })
			m := open(t, wire.Corenode, nil, s)
			l := newLoop(t, m)
			j, got, over := l.job("a", hello(stream))
			l.until(func() bool { return len(s.Seen()) == 1 && (phase.First > 0 || j.Observed().Output > 0) })
			j.Cancel()
			l.until(func() bool { return *over })
			waitFor(t, "the server to see it", func() bool { return !s.Seen()[0].Left.IsZero() })
			err := got.result.Err
			if got.refused != nil {
				err = got.refused
			}
			if err == nil || err.Kind != abi.Canceled {
				t.Errorf("ended with %v", err)
			}
			if n := m.Replicas()[0].InFlight; n != 0 {
				t.Errorf("%d requests are left on the replica", n)
			}
		}
	}
}

// TestUnchangedBody: to a server that speaks messages the client's bytes go out, but for
// what is spliced by name.
func TestUnchangedBody(t *testing.T) {
	s := start(t, wire.Corenode, plainAnswer)
	l := newLoop(t, open(t, wire.Corenode, func(o *Options) { o.Model = "there" }, s))
	body := `{ "stream" : true, "unknown":{"a":[1,2.50]}, "model":"far","max_tokens":7,  "messages":[{"role":"user","content":[{"type":"text","text":"h\u00e9","cache_control":{"type":"ephemeral"}}]}] }`
	l.ask("a", body)
	if got, want := string(s.Seen()[0].Body), strings.Replace(body, `"far"`, `"there"`, 1); got != want {
		t.Errorf("went out as\n%s\nwant\n%s", got, want)
	}
}

// TestSignatureReturns: the upstream's signature travels inside of ours and is put back.
func TestSignatureReturns(t *testing.T) {
	s := start(t, wire.Corenode, plainAnswer)
	l := newLoop(t, open(t, wire.Corenode, nil, s))
	signature := ""
	for _, e := range l.ask("a", hello(true)).events {
		if e.Kind == abi.EventBlockStop && e.Block == abi.BlockThinking {
			signature = e.Signature
		}
	}
	ours, _ := json.Marshal("b3Vycw==" + signature)
	l.ask("a", `{"model":"far","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":`+
		string(ours)+`},{"type":"text","text":"y"}]},{"role":"user","content":"z"}]}`)
	if got := string(s.Seen()[1].Body); !strings.Contains(got, `"signature":"theirs/+="`) {
		t.Errorf("went out as %s", got)
	}
}

// TestQueue: where all replicas are full a request waits for a place.
func TestQueue(t *testing.T) {
	gate := make(chan struct{})
	s := start(t, wire.VLLM, func(n int, _ []byte) fake.Script {
		if n == 0 {
			<-gate
		}
		return fake.Script{Text: []string{"x"}}
	})
	m := open(t, wire.VLLM, func(o *Options) { o.ConnectionsMax = 1 }, s)
	l := newLoop(t, m)
	_, _, first := l.job("a", hello(false))
	l.until(func() bool { return len(s.Seen()) == 1 })
	_, second, over := l.job("a", hello(false))
	for range 20 {
		l.stepper.Step(time.Now())
		time.Sleep(time.Millisecond)
	}
	if len(s.Seen()) != 1 || *over {
		t.Fatal("the second request did not wait")
	}
	close(gate)
	l.until(func() bool { return *first && *over })
	if second.result.Err != nil {
		t.Errorf("ended with %v", second.result.Err)
	}
}

// TestStreamIsTakenEarly: a stream is taken although its server does not send a head for long.
func TestStreamIsTakenEarly(t *testing.T) {
	gate := make(chan struct{})
	answer := sync.OnceFunc(func() { close(gate) })
	s := start(t, wire.VLLM, func(int, []byte) fake.Script {
		<-gate
		return fake.Script{Text: []string{"x"}}
	})
	l := newLoop(t, open(t, wire.VLLM, nil, s))
	defer answer()
	_, got, over := l.job("a", hello(true))
	l.until(func() bool { return got.taken })
	answer()
	l.until(func() bool { return *over })
}

// TestAbort ends what runs, with the error that is given.
func TestAbort(t *testing.T) {
	s := start(t, wire.VLLM, func(int, []byte) fake.Script { return fake.Script{Text: []string{"x", "y"}, Fault: fake.Stall, At: 1} })
	l := newLoop(t, open(t, wire.VLLM, nil, s))
	j, got, over := l.job("a", hello(true))
	l.until(func() bool { return j.Observed().Output > 0 })
	l.stepper.Abort(&abi.Error{Kind: abi.Overloaded, Msg: "stops"})
	if !*over || got.result.Err == nil || got.result.Err.Kind != abi.Overloaded {
		t.Errorf("over %v, ended with %v", *over, got.result.Err)
	}
}

// TestTextsOfServers: what a server says reaches clients, rows and logs without our key, and
// ids without what could break a line.
func TestTextsOfServers(t *testing.T) {
	m := &Model{keys: []string{"sk-ours", "sk-before"}}
	if got := m.withoutKey("bad key sk-ours, not sk-before!"); got != "bad key ***, not ***!" {
		t.Errorf("%q", got)
	}
	if got := (&Model{}).withoutKey("no key"); got != "no key" {
		t.Errorf("%q", got)
	}
	if got := printable("req\n-1 é\x00"); got != "req-1" {
		t.Errorf("%q", got)
	}
}

// TestNodesAreToldPriorities: another node is told the priority of a request that has one, and no other server is.
func TestNodesAreToldPriorities(t *testing.T) {
	for _, c := range []struct {
		flavor   wire.Flavor
		priority int8
		want     []string
	}{{wire.Corenode, -20, []string{"-20"}}, {wire.Corenode, 0, nil}, {wire.VLLM, -20, nil}} {
		s := start(t, c.flavor, plainAnswer)
		l := newLoop(t, open(t, c.flavor, nil, s))
		l.priority = c.priority
		l.ask("a", hello(false))
		if got := s.Seen()[0].Header.Values(wire.PriorityHeader); !slices.Equal(got, c.want) {
			t.Errorf("%s, %d: %q", c.flavor, c.priority, got)
		}
	}
}

// TestCountsAreOfANode: another node is asked to count as it is asked to answer, by a node, so
// that it applies no limit of its own.
func TestCountsAreOfANode(t *testing.T) {
	s := start(t, wire.Corenode, plainAnswer)
	said := map[string]string{}
	m := open(t, wire.Corenode, nil, s)
	h := m.header(m.replicas[s.URL], "")
	for _, f := range h {
		said[f.name] = f.value
	}
	if said[wire.HopHeader] == "" || said[wire.PartitionHeader] == "" {
		t.Errorf("headers %v", h)
	}
}
