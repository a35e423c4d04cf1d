package upstream

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"corenode/bench/fake"
	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// TestLeavingInPrefillLeavesNothingCheap: who leaves before the first content pays nothing, and what it may have taken is
// told. What the server has cached since costs the next request as if it were not cached; the one behind that finds it.
func TestLeavingInPrefillLeavesNothingCheap(t *testing.T) {
	for _, f := range []wire.Flavor{wire.VLLM, wire.SGLang, wire.Corenode} {
		for _, stream := range []bool{true, false} {
			s := start(t, f, func(n int, body []byte) fake.Script {
				script := plainAnswer(n, body)
				if n == 0 {
					script.First = time.Hour
				}
				return script
			})
			l := newLoop(t, open(t, f, nil, s))
			j, left, over := l.job("a", hello(stream))
			l.until(func() bool { return len(s.Seen()) == 1 && left.taken })
			j.Cancel()
			l.until(func() bool { return *over })
			if r := left.result; abi.KindOf(r.Err) != abi.Canceled || r.Usage != (abi.Usage{}) || r.Untold != 4 {
				t.Errorf("%s, stream %v: who left: %v, %+v, untold %d", f, stream, r.Err, r.Usage, r.Untold)
			}
			for n, want := range []int64{0, 3, 3} {
				got := l.ask("a", hello(stream))
				began, u := got.events[0].Usage, got.result.Usage
				if u.CacheRead != want || u.Input() != 4 || began.CacheRead != want || began.Input() != 4 || got.result.Untold != 0 {
					t.Errorf("%s, stream %v, turn %d: begins with %+v, billed %+v, want %d cached", f, stream, n, began, u, want)
				}
			}
		}
	}
}

// TestLeavingBehindPaidTurns: of a conversation that was paid up to a turn the cache stays cheap up to there.
func TestLeavingBehindPaidTurns(t *testing.T) {
	m := open(t, wire.VLLM, nil, start(t, wire.VLLM, plainAnswer))
	base := m.urls()[0].base
	turns := func(n int) *sent {
		var all []string
		for i := range n {
			role := [...]string{"user", "assistant"}[i%2]
			all = append(all, fmt.Sprintf(`{"role":%q,"content":"turn %d %s"}`, role, i, strings.Repeat("x ", 500)))
		}
		q, err := messages.Parse([]byte(`{"model":"far","max_tokens":9,"messages":[` + strings.Join(all, ",") + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		s := &sent{counted: 500 * n}
		s.prefixes, s.places = prefixHashes("a", q)
		return s
	}
	ends := func(s *sent, o *outcome, left bool, said string) {
		j := &engine.Job{Request: &engine.Request{Remote: s}}
		r := newRelay(m.NewStepper(func() {}), j, time.Now(), nil)
		r.reader, r.asked = wire.NewReader(wire.VLLM, nil, nil), true
		if left {
			r.cancel()
		}
		if said != "" {
			if _, err := r.reader.Feed(nil, []byte(said)); err != nil {
				t.Fatal(err)
			}
		}
		r.account(m.urls()[0], o)
	}
	first, third, fifth := turns(1), turns(3), turns(5)
	ends(first, nil, false, "")
	ends(fifth, &outcome{}, true, "")
	for _, c := range []struct {
		s        *sent
		min, max int64
	}{{first, 0, 0}, {third, 990, 1010}, {fifth, 1990, 2010}} {
		if got := m.unpaid(base, c.s); got < c.min || got > c.max {
			t.Errorf("of %d tokens %d are unpaid, want %d to %d", c.s.counted, got, c.min, c.max)
		}
	}
	ends(third, nil, false, "")
	if of3, of5 := m.unpaid(base, third), m.unpaid(base, fifth); of3 != 0 || of5 < 990 || of5 > 1010 {
		t.Errorf("behind a third turn that was paid %d and %d are unpaid", of3, of5)
	}
	ends(turns(7), &outcome{}, false, "") // it failed: free, too, and cached
	ends(fifth, nil, false, "")
	ends(third, &outcome{}, true, "")
	if of5, of7 := m.unpaid(base, fifth), m.unpaid(base, turns(7)); of5 != 0 || of7 < 990 || of7 > 1010 {
		t.Errorf("behind a fifth turn that was paid %d and %d are unpaid", of5, of7)
	}
	ends(turns(7), &outcome{}, true, "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n") // who leaves behind content pays
	if of7 := m.unpaid(base, turns(7)); of7 != 0 {
		t.Errorf("of a seventh turn that was paid %d are unpaid", of7)
	}
}

// TestLeavingBeforeARetry: who leaves while the second try waits for a place pays nothing, since the first one failed; nor
// does a checkpoint of that time.
func TestLeavingBeforeARetry(t *testing.T) {
	for _, body := range []string{hello(false), fmt.Sprintf(quietBody, true)} {
		var asked atomic.Int64 // of both
		script := func(n int, body []byte) fake.Script {
			s := plainAnswer(n, body)
			if asked.Add(1) == 1 {
				s.First = time.Hour
			} else {
				s.Fault, s.At = fake.DieBetweenEvents, 1
			}
			return s
		}
		m := open(t, wire.ChatCompletions, func(o *Options) { o.Counter, o.ConnectionsMax = wordCounter{}, 1 },
			start(t, wire.ChatCompletions, script), start(t, wire.ChatCompletions, script))
		l := newLoop(t, m)
		other, _, otherOver := l.job("b", hello(false)) // which keeps the one server
		l.until(func() bool { return asked.Load() == 1 })
		j, left, over := l.job("a", body)
		l.until(func() bool { return m.Waiting() == 1 })
		if u := j.Observed(); u != (abi.Usage{}) {
			t.Errorf("between two tries a checkpoint would be %+v", u)
		}
		j.Cancel()
		other.Cancel()
		l.until(func() bool { return *over && *otherOver })
		if r := left.result; abi.KindOf(r.Err) != abi.Canceled || r.Usage != (abi.Usage{}) || r.Untold != 0 {
			t.Errorf("who left: %v, %+v, untold %d", r.Err, r.Usage, r.Untold)
		}
	}
}

// TestCallThatDoesNotHoldCounts: what an answer took that its own check ended is not given back to the limits, though nobody pays
// it: whoever asks can bring that about at will.
func TestCallThatDoesNotHoldCounts(t *testing.T) {
	const tools = `,"tool_choice":{"type":"any"},"tools":[{"name":"get_weather","input_schema":{"properties":{"city":{"type":"string"}}}}]`
	cut := fake.Script{Calls: []fake.Call{{Name: "get_weather", Input: `{"city":"`}}, Stop: "max_tokens"}
	for _, script := range []fake.Script{{Fault: fake.InvalidCall}, {Fault: fake.UnknownCall}, cut,
		{Text: []string{"a", "b", "c"}, Gap: 10 * time.Millisecond, Fault: fake.InvalidCall}} {
		for _, f := range []wire.Flavor{wire.VLLM, wire.Messages} {
			for _, stream := range []bool{false, true} {
				l := newLoop(t, open(t, f, nil, start(t, f, func(int, []byte) fake.Script { return script })))
				got := l.ask("a", fmt.Sprintf(helloBody, tools+map[bool]string{true: `,"stream":true`}[stream]))
				r, texts := got.result, int64(len(script.Text))
				all := r.Usage.Input() + r.Usage.Output + r.Untold
				if got.refused != nil || r.Err == nil || r.Untold < 2 || all != 4+texts+2 {
					t.Errorf("%s, stream %v, %+v: %v, %v, %+v, untold %d", f, stream, script, got.refused, r.Err, r.Usage, r.Untold)
				}
			}
		}
	}
}
