package engine

import (
	"strings"
	"testing"

	"corenode/engine/embedded"
	"corenode/engine/grammar/grammartest"
	"corenode/wasm/abi"
)

// bounded has an answer of a model that first says what is written, and then noise, with thoughts of at most so many tokens.
func bounded(t *testing.T, e *Engine, s *Stepper, most int, body, written string, seed uint64) *answer {
	e.options.ThinkingMax = most
	e.thinking = e.thinkingBound()
	return mumbles(t, e, s, body, written, seed)
}

// thoughtAndRest are the text of the thought, and what follows it.
func thoughtAndRest(events []abi.Event) (thought, rest string) {
	for _, e := range events {
		if e.Kind == abi.EventDelta && e.Block == abi.BlockThinking {
			thought += e.Text
		} else if e.Kind == abi.EventDelta {
			rest += e.Text
		}
	}
	return thought, rest
}

// TestThoughtsEnd: a thought that goes round in circles is ended after as many tokens as it may have, and the answer
// follows: free, of a form, or a call. A shorter one is as it was.
func TestThoughtsEnd(t *testing.T) {
	thinking := func(more string) string {
		return strings.Replace(constrained(1, more), `"thinking":{"type":"disabled"},`, "", 1)
	}
	const format = `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"enum":["yes","no"]}}}`
	for name, data := range vocabularies() {
		e, s := mumbler(t, data)
		circles := strings.Repeat("and again ", 100)
		const most = 40
		for _, c := range []struct {
			name, body string
			want       func(a *answer, rest string) bool
		}{
			{"free", thinking(`"top_p":1`), func(_ *answer, rest string) bool { return rest != "" }},
			{"free, with tools", thinking(orderTools), func(_ *answer, rest string) bool { return rest != "" }},
			{"of a form", thinking(format), func(_ *answer, rest string) bool { return rest == `"yes"` || rest == `"no"` }},
			{"a call", thinking(orderTools + `,"tool_choice":{"type":"any"}`), func(a *answer, _ string) bool { names, _ := calls(a.events); return len(names) > 0 }},
		} {
			a := bounded(t, e, s, most, c.body, circles, 1)
			thought, rest := thoughtAndRest(a.events)
			n, whole := a.result.Usage.Reasoning, most+int64(len(e.thinking.End))
			if n < most || n > whole || !strings.HasPrefix(circles, strings.TrimSpace(thought)) || !c.want(a, rest) {
				t.Errorf("%s, %s: %d tokens of thinking %q, then %q, stopped for %v", name, c.name, n, thought, rest, a.result.Stop)
			}
			if a = bounded(t, e, s, 0, c.body, circles, 1); a.result.Usage.Reasoning <= whole {
				t.Errorf("%s, %s: without a bound it ends by itself", name, c.name)
			}
			const short = "Hm. So.</think>\n\n"
			free, held := bounded(t, e, s, 0, c.body, short, 1), bounded(t, e, s, most, c.body, short, 1)
			if a, b := written(free.events), written(held.events); a != b {
				t.Errorf("%s, %s: a short thought makes a difference:\n%q\n%q", name, c.name, a, b)
			}
		}
	}
}

// TestThoughtsEndWithTheModel: the bound may come where the model would have ended the answer, in the middle of what then
// ends its thought too.
func TestThoughtsEndWithTheModel(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`
	for name, data := range vocabularies() {
		for most := range 9 {
			for form, ok := range map[string]func(*answer) bool{
				`,"response_format":{"type":"json_schema","json_schema":{"schema":` + schema + `}}`:    func(a *answer) bool { return grammartest.Validator(t, schema)(written(a.events)) == nil },
				`,"tools":[{"name":"say","input_schema":` + schema + `}],"tool_choice":{"type":"any"}`: func(a *answer) bool { names, _ := calls(a.events); return len(names) == 1 },
			} {
				o := options(Instant)
				o.Data, o.ThinkingMax = data, most
				e, s := open2(t, o)
				r := ask(t, e, `{"model":"m","max_tokens":400,"temperature":0,"messages":[{"role":"user","content":"x"}]`+form+`}`)
				e.forwarder = scripted{e.forwarder, len(r.Prompt), s.stops[0], e.tokenizer.EncodePrompt(nil, "b c ")}
				_, a := submit(t, s, "acct", r)
				runAll(t, s)
				if !ok(a) {
					t.Errorf("%s, at most %d tokens, %s: %v, %+v", name, most, form, a.result.Stop, a.events)
				}
			}
		}
	}
}

// TestThoughtsEndOfLetters: within a letter of several tokens a thought does not end.
func TestThoughtsEndOfLetters(t *testing.T) {
	e, s := mumbler(t, embedded.Model("core-1.1-mini"))
	body := strings.Replace(constrained(1, orderTools+`,"tool_choice":{"type":"any"}`), `"thinking":{"type":"disabled"},`, "", 1)
	letters := strings.Repeat("🜁", 40)
	one := len(e.tokenizer.Encode(nil, "🜁"))
	if one < 2 {
		t.Fatal("the letter is one token")
	}
	for most := 5 * one; most < 6*one; most++ {
		a := bounded(t, e, s, most, body, letters, 1)
		want := strings.Repeat("🜁", (most+one-1)/one)
		if thought, _ := thoughtAndRest(a.events); strings.TrimSpace(thought) != want {
			t.Errorf("at most %d tokens: %q", most, thought)
		}
	}
}

// TestThoughtsEndInDrafts: the bound is the same where tokens are drafted.
func TestThoughtsEndInDrafts(t *testing.T) {
	o := options(CPU)
	o.Data, o.ThinkingMax, o.Info.ContextLength = embedded.Model("core-1.1-mini"), 30, 4096
	playAgain(t, o, 4, func(_ *Engine, seed uint64) (string, *mumble) {
		body := strings.Replace(constrained(int(seed), `"top_p":1`), `"thinking":{"type":"disabled"},`, "", 1)
		return body, &mumble{end: 200}
	}, func(a *answer) {
		if n := a.result.Usage.Reasoning; n != 32 {
			t.Errorf("%d tokens of thinking", n)
		}
	})
}
