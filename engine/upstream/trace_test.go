package upstream

import (
	"encoding/hex"
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
