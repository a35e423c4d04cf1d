package upstream

import (
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"corenode/bench/fake"
	"corenode/engine"
	"corenode/engine/upstream/wire"
)

// TestTraceGoesOn: each server is told where the request stands in its trace: at the span of its attempt
// where attempts are recorded, else where the client said; and nothing where there is no trace.
func TestTraceGoesOn(t *testing.T) {
	var calls atomic.Int64
	failsOnce := func(int, []byte) fake.Script {
		if calls.Add(1) == 1 {
			return fake.Script{Fault: fake.Broken500}
		}
		return plainAnswer(0, nil)
	}
	servers := []*fake.Server{start(t, wire.VLLM, failsOnce), start(t, wire.VLLM, failsOnce)}
	l := newLoop(t, open(t, wire.VLLM, nil, servers...))
	told := func() (parents, states map[string]string) { // what each server was told last
		parents, states = map[string]string{}, map[string]string{}
		for _, s := range servers {
			if seen := s.Seen(); len(seen) > 0 {
				h := seen[len(seen)-1].Header
				parents[s.URL], states[s.URL] = h.Get("Traceparent"), h.Get("Tracestate")
			}
		}
		return parents, states
	}
	parent := func(span [8]byte) string {
		return "00-01000000000000000000000000000000-" + hex.EncodeToString(span[:]) + "-01"
	}

	l.trace = engine.Trace{ID: [16]byte{1}, Span: [8]byte{2}, Sampled: true, State: "vendor=1", Record: true}
	attempts := l.ask("a", hello(true)).result.Attempts
	if len(attempts) != 2 || attempts[0].Failure != "status" || attempts[1].Failure != "" || attempts[0].Replica == attempts[1].Replica {
		t.Fatalf("attempts %+v", attempts)
	}
	parents, states := told()
	for _, a := range attempts {
		if a.Span == l.trace.Span || parents[a.Replica] != parent(a.Span) || states[a.Replica] != "vendor=1" || !a.Ended.After(a.Began) {
			t.Errorf("%+v: the server was told %s, %s", a, parents[a.Replica], states[a.Replica])
		}
	}

	l.trace.Record = false
	got := l.ask("a", hello(false)).result
	parents, states = told()
	if by := got.Source.Replica; got.Attempts != nil || parents[by] != parent(l.trace.Span) || states[by] != "vendor=1" {
		t.Errorf("not as the client said: %s, %s, attempts %+v", parents[by], states[by], got.Attempts)
	}

	l.trace = engine.Trace{}
	got = l.ask("a", hello(false)).result
	if parents, states = told(); parents[got.Source.Replica] != "" || states[got.Source.Replica] != "" {
		t.Errorf("without a trace: %v, %v", parents, states)
	}
}

// attemptsOf are what a job's end has of its attempts: its result, or the refusal of a stream that was promised nothing.
func attemptsOf(got *told) []engine.Attempt {
	if got.refused == nil {
		return got.result.Attempts
	}
	tried, ok := errors.AsType[*engine.Tried](got.refused)
	if !ok {
		return nil
	}
	return tried.Attempts
}

// TestRefusalHasItsAttempts: a request that is refused behind what servers were asked is recorded with it, a stream too. What the log
// says of it is the same, and without a trace nothing is recorded.
func TestRefusalHasItsAttempts(t *testing.T) {
	for fault, attempts := range map[fake.Fault]int{fake.Broken500: 2, fake.Refuse400: 1} {
		fails := func(int, []byte) fake.Script { return fake.Script{Fault: fault} }
		l := newLoop(t, open(t, wire.VLLM, nil, start(t, wire.VLLM, fails), start(t, wire.VLLM, fails)))
		for _, stream := range []bool{false, true} {
			l.trace = engine.Trace{ID: [16]byte{1}, Record: true}
			got := l.ask("a", hello(stream))
			if all := attemptsOf(got); len(all) != attempts || all[0].Failure == "" {
				t.Errorf("%s, stream %v: refused %v, ended with %v, attempts %+v", fault, stream, got.refused, got.result.Err, all)
			}
			l.trace.Record = false
			if bare := l.ask("a", hello(stream)); attemptsOf(bare) != nil {
				t.Errorf("%s, stream %v: attempts %+v without a trace", fault, stream, attemptsOf(bare))
			}
		}
	}
}

// TestAClientKeepsNoTraceElsewhere: a node does as the one that asks it says, so it is told to keep what that one keeps, and never
// what a client asks for.
func TestAClientKeepsNoTraceElsewhere(t *testing.T) {
	node := start(t, wire.Corenode, plainAnswer)
	l := newLoop(t, open(t, wire.Corenode, nil, node))
	for record, flags := range map[bool]string{true: "-01", false: "-00"} {
		l.trace = engine.Trace{ID: [16]byte{1}, Span: [8]byte{2}, Sampled: true, Record: record}
		l.ask("a", hello(true))
		seen := node.Seen()
		if parent := seen[len(seen)-1].Header.Get("Traceparent"); !strings.HasSuffix(parent, flags) {
			t.Errorf("recorded here %v: told %q, want %s", record, parent, flags)
		}
	}
}
