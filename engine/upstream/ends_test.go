package upstream

import (
	"testing"
	"time"

	"corenode/bench/fake"
	"corenode/engine/upstream/wire"
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
		s := start(t, f, func(int, []byte) fake.Script {
			return fake.Script{Calls: []fake.Call{call}, Gap: 700 * time.Millisecond}
		})
		l := newLoop(t, open(t, f, func(o *Options) { o.StallTimeout = time.Second }, s))
		got := l.ask("a", `{"model":"far","max_tokens":100,"messages":[{"role":"user","content":"x"}],`+
			`"tools":[{"name":"get_weather","input_schema":{"type":"object"}}]}`)
		if got.result.Err != nil {
			t.Errorf("%s: ended with %v", f, got.result.Err)
		}
	}
}
