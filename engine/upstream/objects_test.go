package upstream

import (
	"fmt"
	"strings"
	"testing"

	"corenode/bench/fake"
	"corenode/engine/messages"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// TestCallsThatAreNoObject: with verify: count a call that does not fit passes, and is counted. What is no JSON object would
// break the answer, or the next turn: it ends the answer all the same. It is what a server makes of a call that max_tokens cuts.
func TestCallsThatAreNoObject(t *testing.T) {
	const tools = `,"tools":[{"name":"f","input_schema":{"required":["city"]}}]`
	for _, c := range []struct{ name, input, tools, want string }{
		{"f", `{"city": "x"}`, tools, `{"city":"x"}`},
		{"f", `{"place":1}`, tools, `{"place":1}`},
		{"g", `{ }`, tools, `{}`},
		{"g", `{}`, "", `{}`},
		{"f", `{"city": "Par`, tools, ""},
		{"f", `["x"]`, tools, ""},
		{"g", `{"city": "Par`, tools, ""},
		{"f", `{"city": "Par`, "", ""},
	} {
		for _, f := range []wire.Flavor{wire.VLLM, wire.Messages} {
			for _, stream := range []bool{false, true} {
				s := start(t, f, func(int, []byte) fake.Script { return fake.Script{Calls: []fake.Call{{Name: c.name, Input: c.input}}} })
				m := open(t, f, func(o *Options) { o.PassInvalidCalls = true }, s)
				got := newLoop(t, m).ask("a", strings.Replace(hello(stream), "]", "]"+c.tools, 1))
				ended := got.refused
				if ended == nil {
					ended = got.result.Err
				}
				if given := text(got.events, abi.BlockToolUse); given != c.want || (ended == nil) != (c.want != "") {
					t.Errorf("%s, stream %v, %s(%s): %q is given, ended with %v", f, stream, c.name, c.input, given, ended)
				}
				if n := m.Counts().InvalidCalls.Load(); (n == 0) != (c.want == `{"city":"x"}`) {
					t.Errorf("%s, stream %v, %s(%s): %d calls are counted", f, stream, c.name, c.input, n)
				}
			}
		}
	}
}

// TestOneCallAtMost: of a server that makes more calls than the one that it is told to the first is given, whatever the others
// are. They were computed, and are paid; but not where the answer breaks.
func TestOneCallAtMost(t *testing.T) {
	const body = `],"tools":[{"name":"f","input_schema":{"required":["city"]}}],"tool_choice":{"type":%s}`
	three := []fake.Call{{Name: "f", Input: `{"city":"x"}`}, {Name: "f", Input: `{"city":"y"}`}, {Name: "g", Input: `{"city":"Par`}}
	for choice, single := range map[string]bool{`"auto"`: false, `"auto","disable_parallel_tool_use":true`: true,
		`"any","disable_parallel_tool_use":true`: true, `"tool","name":"f"`: true} {
		ask, calls, want := fmt.Sprintf(body, choice), three, three[0].Input
		if !single {
			calls, want = three[:2], three[0].Input+three[1].Input
		}
		for _, f := range flavors {
			for _, stream := range []bool{false, true} {
				for _, fault := range []fake.Fault{"", fake.NoUsage} {
					s := start(t, f, func(int, []byte) fake.Script { return fake.Script{Calls: calls, Fault: fault} })
					got := newLoop(t, open(t, f, nil, s)).ask("a", strings.Replace(hello(stream), "]", ask, 1))
					checkEvents(t, got.events)
					given, r := text(got.events, abi.BlockToolUse), got.result
					if given != want || r.Err != nil || r.Stop != abi.StopToolUse || r.Usage.Output != int64(2*len(calls)) {
						t.Errorf("%s, stream %v, %s, %q: %q is given, ended with %v, %v, usage %+v", f, stream, choice, fault, given,
							r.Err, r.Stop, r.Usage)
					}
				}
			}
			if !single {
				continue
			}
			broken := fake.Script{Calls: calls, Fault: fake.EndEarly, At: 5} // within the third
			s := start(t, f, func(int, []byte) fake.Script { return broken })
			got := newLoop(t, open(t, f, nil, s)).ask("a", strings.Replace(hello(true), "]", ask, 1))
			if given := text(got.events, abi.BlockToolUse); given != want || got.result.Err == nil || got.result.Usage.Output != 2 {
				t.Errorf("%s, %s, it breaks: %q is given, ended with %v, usage %+v", f, choice, given, got.result.Err, got.result.Usage)
			}
		}
	}
}

// TestCallsComeBack: what a call is given is what every protocol takes back with the next turn, and means the same as what the
// server wrote.
func TestCallsComeBack(t *testing.T) {
	const tools = `],"tools":[{"name":"f","input_schema":{"required":["path"]}}]`
	for input, want := range map[string]string{
		`{"path":"a","path":"b"}`:           `{"path":"b"}`,
		`{"path": "\ud83d", "n": "\u00e9"}`: `{"path":"\ufffd","n":"\u00e9"}`,
		"\n{\"path\":\n[1, 2]}\n":           `{"path":[1,2]}`,
		`{"\ud83d":1,"\ud83d":2}`:           `{"\ufffd":2}`, // it does not fit, and passes
	} {
		for _, f := range []wire.Flavor{wire.VLLM, wire.Messages} {
			for _, stream := range []bool{false, true} {
				s := start(t, f, func(int, []byte) fake.Script { return fake.Script{Calls: []fake.Call{{Name: "f", Input: input}}} })
				l := newLoop(t, open(t, f, func(o *Options) { o.PassInvalidCalls = true }, s))
				got := l.ask("a", strings.Replace(hello(stream), "]", tools, 1))
				given := text(got.events, abi.BlockToolUse)
				if given != want {
					t.Errorf("%s, stream %v, %s: %q is given, ended with %v", f, stream, input, given, got.result.Err)
				}
				back := `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":` + given + `}]}`
				if _, err := messages.Parse([]byte(`{"model":"far","max_tokens":100,"messages":[{"role":"user","content":"x"},` + back +
					`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"y"}]}]}`)); err != nil {
					t.Errorf("%s: the next turn: %v", given, err)
				}
			}
		}
	}
}
