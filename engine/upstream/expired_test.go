package upstream

import (
	"fmt"
	"testing"
	"time"

	"corenode/bench/fake"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// TestExpiredIsNotTakenBack: a request that waited for its time in another node's queue does not wait again in the own one; one that
// was refused before, or whose node broke, goes there.
func TestExpiredIsNotTakenBack(t *testing.T) {
	const body = `{"model":"far","max_tokens":5,"stream":%v,"messages":[{"role":"user","content":"conversation %d"}]}`
	for _, c := range []struct {
		timeout time.Duration
		fault   fake.Fault
		back    bool
	}{{1, fake.Full503, false}, {time.Hour, fake.Full503, true}, {1, fake.Broken500, true}} {
		for _, stream := range []bool{false, true} {
			node := start(t, wire.Corenode, func(int, []byte) fake.Script { return fake.Script{Fault: c.fault} })
			m := replicated(t)
			m.options.QueueTimeout = c.timeout
			m.Follow([]string{node.URL})
			waitFor(t, "the other node", m.othersReady)
			own, l := &ownEngine{}, newLoop(t, m)
			s := m.NewReplicatedStepper(l.stepper.wake, own)
			l.stepper = s.Stepper
			for i := 0; len(node.Seen()) == 0; i++ { // until one is for the other node
				mine := own.jobs.Load()
				got := runOne(t, l, s, fmt.Sprint("session ", i), fmt.Sprintf(body, stream, i))
				if len(node.Seen()) == 0 {
					continue
				}
				err := got.result.Err
				if got.refused != nil {
					err = got.refused
				}
				if taken := own.jobs.Load() > mine; taken != c.back || (err == nil) != c.back || err != nil && err.Kind != abi.Overloaded {
					t.Errorf("%+v, stream %v: it ended with %v, taken back %v", c, stream, err, taken)
				}
			}
		}
	}
}

// TestExpiredGoesNowhereElse: nor does it wait in the queue of a second server.
func TestExpiredGoesNowhereElse(t *testing.T) {
	for timeout, want := range map[time.Duration]int{1: 1, time.Hour: 2} {
		full := func(int, []byte) fake.Script { return fake.Script{Fault: fake.Full503} }
		a, b := start(t, wire.Corenode, full), start(t, wire.Corenode, full)
		l := newLoop(t, open(t, wire.Corenode, func(o *Options) { o.QueueTimeout = timeout }, a, b))
		got := l.ask("acct", hello(true))
		err := got.result.Err
		if got.refused != nil {
			err = got.refused
		}
		if asked := len(a.Seen()) + len(b.Seen()); asked != want || err == nil || err.Kind != abi.Overloaded {
			t.Errorf("a request may wait for %v: %d servers were asked, want %d; it ended with %v", timeout, asked, want, err)
		}
	}
}
