package engine

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"corenode/engine/embedded"
	"corenode/engine/grammar/grammartest"
	"corenode/engine/kernel"
	"corenode/wasm/abi"
)

// mumble is a forward pass that wants to say the tokens of a script, and then noise, until
// it would end the answer.
type mumble struct {
	seed   uint64
	prompt int
	script []int32
	end    int // of the answer, in tokens
	stop   int32
}

func (f *mumble) Forward(step *kernel.Step, _ []int32, _ kernel.Cache, rows []int32, logits [][]float32) error {
	for i, row := range rows {
		for _, sp := range step.Spans {
			n := int(row) - sp.Row
			if n < 0 || n >= sp.Len {
				continue
			}
			at := sp.Pos + n + 1 - f.prompt
			r := rand.New(rand.NewPCG(f.seed, uint64(at)))
			for id := range logits[i] {
				logits[i][id] = r.Float32()
			}
			switch {
			case at >= f.end:
				logits[i][f.stop] = 1000
			case at < len(f.script):
				logits[i][f.script[at]] = 1000
			}
		}
	}
	return nil
}

func (*mumble) Close() {}

// vocabularies are one with a token for the marker of a call, and one without.
func vocabularies() map[string][]byte {
	return map[string][]byte{"a token": embedded.Model("core-1.1-mini"), "no token": noise()}
}

// mumbles plays an answer to a body: first what is written, in which § is the marker, as a
// token where there is one, and then noise.
func mumbles(t *testing.T, e *Engine, s *Stepper, body, written string, seed uint64) *answer {
	t.Helper()
	r := mumbled(t, e, body, written, seed)
	_, a := submit(t, s, "acct", r)
	runAll(t, s)
	checkStream(t, a.events)
	return a
}

// mumbled is a request that mumbles plays.
func mumbled(t *testing.T, e *Engine, body, written string, seed uint64) *Request {
	t.Helper()
	r := ask(t, e, body)
	f := &mumble{seed: seed, prompt: len(r.Prompt), end: 500, stop: e.tokenizer.Stops()[0]}
	for i, part := range strings.Split(written, "§") {
		if i > 0 && e.format.marker >= 0 {
			f.script = append(f.script, e.format.marker)
		} else if i > 0 {
			part = "<tool_call>" + part
		}
		f.script = e.tokenizer.Encode(f.script, part) // content: no text becomes the token
	}
	e.forwarder = f
	return r
}

func mumbler(t *testing.T, data []byte) (*Engine, *Stepper) {
	o := options(Instant)
	o.Data = data
	e, s := open2(t, o)
	e.forwarder = nil // every answer brings its own
	return e, s
}

const ship = `{"type":"object","properties":{"id":{"type":"integer","minimum":5,"maximum":7}},"required":["id"]}`

// TestCallsOfFreeAnswers has noise go on where a call begins, with tool_choice auto: it is a valid
// call of a tool all the same, in front of it and behind it the answer is free.
func TestCallsOfFreeAnswers(t *testing.T) {
	want := map[string]func(string) error{"order": grammartest.Validator(t, order), "ship": grammartest.Validator(t, ship)}
	strict := strings.ReplaceAll(orderTools, `{"name":`, `{"strict":true,"name":`)
	for name, data := range vocabularies() {
		e, s := mumbler(t, data)
		if (e.format.marker >= 0) != (name == "a token") {
			t.Fatalf("%s: the marker is %d", name, e.format.marker)
		}
		for seed := range atMost(6, 1) {
			for _, c := range []struct {
				more, written, before string
				most                  int
			}{
				{orderTools, "§", "", 100},
				{strict, "§", "", 100},
				{orderTools + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`, "§", "", 1},
				{orderTools + `,"thinking":{"type":"enabled","budget_tokens":1024}`, "Hm.</think>\n\n§", "Hm.", 100},
				{orderTools + `,"thinking":{"type":"enabled","budget_tokens":1024}`, "§", "", 100},
			} {
				body := constrained(seed, c.more)
				if strings.Contains(c.more, "enabled") {
					body = strings.Replace(body, `"thinking":{"type":"disabled"},`, "", 1)
				}
				a := mumbles(t, e, s, body, c.written, uint64(seed))
				names, arguments := calls(a.events)
				if len(names) == 0 || len(names) > c.most {
					t.Fatalf("%s, %.200s: %d calls: %q", name, c.more, len(names), text(a.events))
				}
				for i := range names {
					if err := want[names[i]](arguments[i]); err != nil {
						t.Errorf("%s: %s(%s): %v", name, names[i], arguments[i], err)
					}
				}
				said := text(a.events)
				if !strings.HasPrefix(said, c.before) || c.most > 1 && !strings.Contains(said, "}") {
					t.Errorf("%s: %q", name, said)
				}
				last := a.events[len(a.events)-3] // in front of its block's end and the answer's
				if a.result.Stop != abi.StopToolUse || (c.most > 1) != (last.Block == abi.BlockText) {
					t.Errorf("%s: %v, ends with %+v", name, a.result.Stop, last)
				}
			}
		}
	}
}

// TestCallsOfKeys: where a template shows calls with keys and values, what a model writes after
// the token is such a call of one of the tools, and valid.
func TestCallsOfKeys(t *testing.T) {
	want := map[string]func(string) error{"order": grammartest.Validator(t, order), "ship": grammartest.Validator(t, ship)}
	o := options(Instant)
	o.Data, o.Template = embedded.Model("core-1.1-mini"), o.Template+"{# <arg_key> #}"
	e, s := open2(t, o)
	e.forwarder = nil // every answer brings its own
	for seed := range atMost(4, 1) {
		a := mumbles(t, e, s, constrained(seed, orderTools), "§ship\n<arg_key>id</arg_key>\n<arg_value>6", uint64(seed))
		names, arguments := calls(a.events)
		if len(names) == 0 || names[0] != "ship" || !strings.HasPrefix(arguments[0], `{"id":6`) {
			t.Fatalf("seed %d: %q %q, %q", seed, names, arguments, text(a.events))
		}
		a = mumbles(t, e, s, constrained(seed, orderTools), "§", uint64(seed))
		if names, arguments = calls(a.events); len(names) == 0 {
			t.Fatalf("seed %d: no call: %q", seed, text(a.events))
		}
		for i := range names {
			if err := want[names[i]](arguments[i]); err != nil {
				t.Errorf("seed %d: %s(%s): %v", seed, names[i], arguments[i], err)
			}
		}
	}
}

// TestForcedCallComesAfterThinking: a model that has thought and would say something instead makes
// the call all the same. The token that begins a call ends thinking, but not a text behind it.
func TestForcedCallComesAfterThinking(t *testing.T) {
	for name, data := range vocabularies() {
		e, s := mumbler(t, data)
		choices := []string{`{"type":"any"}`, `{"type":"any","disable_parallel_tool_use":true}`, `{"type":"tool","name":"ship"}`}
		for _, choice := range choices[:atMost(3, 1)] {
			body := constrained(1, orderTools+`,"tool_choice":`+choice)
			body = strings.Replace(body, `"thinking":{"type":"disabled"},`, "", 1)
			for _, written := range []string{"Hm.</think>\n\nI have no tool for that.", "Hm.</think>No", "</think>", "Hm. </thinking", "Hm. </thi§", "§"} {
				a := mumbles(t, e, s, body, written, 1)
				said := slices.ContainsFunc(a.events, func(e abi.Event) bool {
					return e.Kind == abi.EventDelta &&
						e.Block == abi.BlockText
				})
				if names, _ := calls(a.events); len(names) == 0 || said || a.result.Stop != abi.StopToolUse {
					t.Errorf("%s, %s, %q: %v, calls %q: %.200q", name, choice, written, a.result.Stop, names, text(a.events))
				}
			}
		}
	}
}

// TestFormatOrCallAfterThinking: with tools that may be called the text of an answer with a format
// is of that format behind thinking too.
func TestFormatOrCallAfterThinking(t *testing.T) {
	for name, data := range vocabularies() {
		e, s := mumbler(t, data)
		body := constrained(1, orderTools+`,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"enum":["yes","no"]}}}`)
		body = strings.Replace(body, `"thinking":{"type":"disabled"},`, "", 1)
		for _, written := range []string{"Hm.</think>\n\nYes, it is.", "Hm.</think>Yes", "Hm.</think>\n\n\"no\" it is.", "Hm.</think>\n\n§"} {
			a := mumbles(t, e, s, body, written, 1)
			said := ""
			for _, e := range a.events {
				if e.Kind == abi.EventDelta && e.Block == abi.BlockText {
					said += e.Text
				}
			}
			if names, _ := calls(a.events); len(names) == 0 && said != `"yes"` && said != `"no"` || len(names) > 0 && said != "" {
				t.Errorf("%s, %q: %v, calls %q: %.200q", name, written, a.result.Stop, names, said)
			}
		}
	}
}

// spelledCall is a whole call, but for its marker.
const spelledCall = "\n<function=ship>\n<parameter=id>\n5\n</parameter>\n</function>\n</tool_call>"

// TestSpelledMarkersAreText writes the marker's characters: they begin no call where the vocabulary
// has a token for it, nor within a block where it has none.
func TestSpelledMarkersAreText(t *testing.T) {
	for name, data := range vocabularies() {
		e, s := mumbler(t, data)
		written := "To call I write <tool_call>" + spelledCall
		if e.format.marker >= 0 {
			written = "<tool_call>" + spelledCall
		}
		a := mumbles(t, e, s, constrained(1, orderTools), written, 1)
		if got := text(a.events); !strings.HasPrefix(got, written) || a.result.Stop != abi.StopEndTurn {
			t.Errorf("%s: %v: %q", name, a.result.Stop, got)
		}
	}
}

// TestMarkerIsMasked: the token does not come where no call may.
func TestMarkerIsMasked(t *testing.T) {
	e, s := mumbler(t, embedded.Model("core-1.1-mini"))
	for _, more := range []string{
		orderTools + `,"tool_choice":{"type":"none"}`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"order","schema":` + order + `}}`,
		orderTools + `,"tool_choice":{"type":"none"},"response_format":{"type":"json_schema","json_schema":{"name":"order","schema":` + order + `}}`,
	} {
		if a := mumbles(t, e, s, constrained(1, more), "§§§", 1); strings.Contains(text(a.events), "<tool_call>") || a.result.Stop != abi.StopEndTurn {
			t.Errorf("%.200s: %v: %q", more, a.result.Stop, text(a.events))
		}
	}
	if a := mumbles(t, e, s, constrained(1, `"top_k":1`), "§§", 1); !strings.HasPrefix(text(a.events), "<tool_call><tool_call>") {
		t.Errorf("without tools: %q", text(a.events))
	}
}

// TestCutCallIsText: what max_tokens leaves of a call is text.
func TestCutCallIsText(t *testing.T) {
	for name, data := range vocabularies() {
		e, s := mumbler(t, data)
		body := strings.Replace(constrained(1, orderTools), `"max_tokens":600`, `"max_tokens":16`, 1)
		a := mumbles(t, e, s, body, "§\n<function=order>\n<parameter=item>\nlamp", 1)
		if names, _ := calls(a.events); len(names) > 0 || !strings.HasPrefix(text(a.events), "<tool_call>\n<") || a.result.Stop != abi.StopMaxTokens {
			t.Errorf("%s: %v: %q", name, a.result.Stop, text(a.events))
		}
	}
}

// TestCallInDrafts plays answers again whose tokens are known before: a draft with the token
// that begins a call in it gives the answer that there is without.
func TestCallInDrafts(t *testing.T) {
	valid := map[string]func(string) error{"order": grammartest.Validator(t, order), "ship": grammartest.Validator(t, ship)}
	o := options(CPU)
	o.Data, o.Info.ContextLength = embedded.Model("core-1.1-mini"), 4096
	playAgain(t, o, 4, func(e *Engine, seed uint64) (string, *mumble) {
		return constrained(int(seed), orderTools), &mumble{script: []int32{300, 301, e.format.marker}, end: 500}
	}, func(a *answer) {
		if names, arguments := calls(a.events); len(names) == 0 || valid[names[0]](arguments[0]) != nil {
			t.Fatalf("%q, %q: %q", names, arguments, text(a.events))
		}
	})
}
