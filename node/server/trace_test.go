package server

import (
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/trace"
	"corenode/node/trace/tracetest"
	"corenode/wasm/abi"
)

// renaming are rewrite modules that send whatever model is asked for to one.
type renaming struct{}

func (renaming) Rewriting() bool                       { return true }
func (renaming) Filtering() bool                       { return false }
func (renaming) Filter(string, string) (Filter, error) { return nil, nil }
func (renaming) Rewrite(string, abi.RewriteInput) ([]byte, error) {
	return []byte(ask), nil
}

// TestAnswerNamesTheAskedModel: behind a rewrite module an answer has the name that the parser would
// read; a field of another case names nothing. One that is too long to stand in each piece of an answer is not shown.
func TestAnswerNamesTheAskedModel(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("a")), func(d *Deps) { d.Policies = renaming{} })
	long := strings.Repeat("m", askedMax)
	for asked, want := range map[string]string{`"fast","Model":"x"`: "fast", `"` + long + `"`: long, `"` + long + `m"`: "core-1.1"} {
		body := strings.Replace(ask, `"core-1.1"`, asked, 1)
		if r := n.raw(request("POST", "/v1/messages", body, bearerKey)); !strings.Contains(r.body, `"model":"`+want+`"`) {
			t.Errorf("%s: %d %s", asked, r.StatusCode, r.body)
		}
	}
}

// TestDrainIsTraced: a request that a node refuses since it drains has a trace, as every one that fails by the node.
func TestDrainIsTraced(t *testing.T) {
	c := tracetest.Start(t)
	tracer := trace.New(trace.Config{Endpoint: c.URL, Timeout: time.Minute, Delay: time.Millisecond}, trace.Node{},
		slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = tracer.Close() })
	goOn := make(chan struct{})
	backend := newFakeBackend(func(s *fakeStream) {
		<-goOn
		s.out.Push(append(begin(), end()...)...)
	})
	n := start(t, Config{}, backend, func(d *Deps) { d.Tracer = tracer })
	open := n.dial() // keeps the listener
	if _, err := io.WriteString(open, request("POST", "/v1/messages", ask, bearerKey)); err != nil {
		t.Fatal(err)
	}
	<-backend.streams
	drained := make(chan error, 1)
	go func() { drained <- n.s.Drain(t.Context()) }()
	waitFor(t, "draining", n.s.Draining)
	if r := n.post(ask); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	defer func() {
		close(goOn)
		if err := <-drained; err != nil {
			t.Error(err)
		}
	}()
	waitFor(t, "the trace", func() bool {
		return slices.ContainsFunc(c.Spans(), func(s tracetest.Span) bool { return s.Name == "POST /v1/messages" })
	})
}

// TestTraceStateOfSeveralLines: it may come in several lines, as every list, and with tabs between its entries.
func TestTraceStateOfSeveralLines(t *testing.T) {
	backend := newFakeBackend(say("a"))
	n := start(t, Config{}, backend)
	n.raw(request("POST", "/v1/messages", ask, bearerKey, "Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"Tracestate: a=1", "Tracestate: b=2,\tc=3"))
	if state := (<-backend.streams).call.Request.Trace.State; state != "a=1,b=2,\tc=3" {
		t.Errorf("%q goes on", state)
	}
}

// TestTraceOfALongModelName: behind a rewrite module the name that a client asks for may be anything of
// any length; a trace, which waits in a queue, has nothing of what is no name.
func TestTraceOfALongModelName(t *testing.T) {
	c := tracetest.Start(t)
	tracer := trace.New(trace.Config{Endpoint: c.URL, Share: 1, Timeout: time.Minute, Delay: time.Millisecond}, trace.Node{},
		slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = tracer.Close() })
	n := start(t, Config{}, newFakeBackend(say("a")), func(d *Deps) { d.Policies, d.Tracer = renaming{}, tracer })
	long := strings.Repeat("what nobody may read ü ", 5000)
	if r := n.raw(request("POST", "/v1/messages", strings.Replace(ask, "core-1.1", long, 1), bearerKey)); r.StatusCode != http.StatusOK {
		t.Errorf("%d %.200s", r.StatusCode, r.body)
	}
	find := func() (tracetest.Span, bool) {
		all := c.Spans()
		i := slices.IndexFunc(all, func(s tracetest.Span) bool { return s.Name == "POST /v1/messages" })
		if i < 0 {
			return tracetest.Span{}, false
		}
		return all[i], true
	}
	root, found := find()
	for end := time.Now().Add(time.Minute); !found && time.Now().Before(end); root, found = find() {
		time.Sleep(time.Millisecond)
	}
	asked, _ := root.Attributes["gen_ai.request.model"].(string)
	if asked != "core-1.1" {
		t.Errorf("the trace has %d bytes of the name: %.200q", len(asked), asked)
	}
}

// TestTraceWithoutAnOutcome: a request whose step hangs was admitted, and its admission ended then.
func TestTraceWithoutAnOutcome(t *testing.T) {
	at := time.Now()
	x := &exchange{who: &Identity{Account: &account.Account{}}, timing: timing{begun: at, arrived: at, prepared: at.Add(time.Second)}}
	if r := x.traced(at.Add(time.Hour), trace.KeptForError, true); r.Admitted || r.Admission != 0 {
		t.Errorf("refused: %+v", r)
	}
	x.admitted = at.Add(3 * time.Second)
	if r := x.traced(at.Add(time.Hour), trace.KeptForError, true); !r.Admitted || r.Admission != 2*time.Second || !r.Done.IsZero() {
		t.Errorf("hung: %+v", r)
	}
	x.settled = account.Settled{Reason: account.Finished, Admission: time.Second}
	if r := x.traced(at.Add(time.Hour), trace.KeptForError, true); !r.Admitted || r.Admission != time.Second {
		t.Errorf("finished: %+v", r)
	}
}
