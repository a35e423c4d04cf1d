package engine

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/engine/embedded"
	"corenode/engine/grammar/grammartest"
	"corenode/engine/kernel"
	"corenode/wasm/abi"
)

// formatOf is a body whose answer is JSON of a schema, without a thought; more are further fields.
func formatOf(schema, more string) string {
	return `{"model":"m","max_tokens":400,"temperature":0,"thinking":{"type":"disabled"},"messages":[{"role":"user","content":"x"}],
		"response_format":{"type":"json_schema","json_schema":{"schema":` + schema + `}}` + more + `}`
}

// TestStructuredOutputEnds has a model that would end at every token, and else says its script:
// what is open is closed, what may be left out is left out, and the rest is the model's own.
func TestStructuredOutputEnds(t *testing.T) {
	for _, c := range []struct{ name, script, schema, want string }{
		{"a string", "abc ", `{"type":"string"}`, `"b"`},
		{"a string that has to be longer", "abc ", `{"type":"string","minLength":3}`, `"bc "`},
		{"a number", "123 ", `{"type":"number"}`, `1`},
		{"a number between others", "123 ", `{"type":"number","minimum":20,"maximum":3000}`, `123`},
		{"an array", `["a", "b", `, `{"type":"array","items":{"type":"string"}}`, `[]`},
		{"an array that has to be longer", `["a","b",`, `{"type":"array","items":{"type":"string"},"minItems":2}`, `["a","b"]`},
		{"members", "b", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}},"required":["b"]}`, `{"b":"b"}`},
		{"other members", "b", `{"type":"object","additionalProperties":{"type":"string"}}`, `{}`},
		{"all members", "x5", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"boolean"}},"required":["a","b","c"]}`, `{"a":"x","b":5,"c":false}`},
		{"a pattern", "ab", `{"type":"string","pattern":"^[ab]+c$"}`, `"bc"`},
		{"one of some", "b", `{"enum":["abc","bcd"]}`, `"bcd"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := say(t, c.script, formatOf(c.schema, ``))
			got := strings.Join(strings.Fields(text(a.events)), " ")
			if got = strings.NewReplacer(": ", ":", "{ ", "{", " }", "}", "[ ", "[", " ]", "]", ", ", ",").Replace(got); a.result.Stop != abi.StopEndTurn || got != c.want {
				t.Errorf("%v: %q, want %q", a.result.Stop, got, c.want)
			}
			if err := grammartest.Validator(t, c.schema)(text(a.events)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestThoughtsAndCallsEnd: a thought in front of JSON is closed and leaves the JSON as free as it
// was, and the arguments of a call are closed.
func TestThoughtsAndCallsEnd(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"string"}}}`
	a := say(t, "b", strings.Replace(formatOf(schema, ``), "disabled", "enabled", 1))
	if got := written(a.events); a.result.Stop != abi.StopEndTurn || grammartest.Validator(t, schema)(got) != nil ||
		a.events[1].Block != abi.BlockThinking {
		t.Errorf("%v: %q of %+v", a.result.Stop, got, a.events)
	}
	const tools = `,"tools":[{"name":"say","input_schema":{"type":"object","properties":{"what":{"type":"string"},"how":{"type":"string"}},"required":["what"]}}]`
	a = say(t, "b", strings.Replace(formatOf(schema, tools+`,"tool_choice":{"type":"any"}`), `"response_format"`, `"x"`, 1))
	if names, arguments := calls(a.events); a.result.Stop != abi.StopToolUse || len(names) != 1 || arguments[0] != `{"what":"b"}` {
		t.Errorf("%v: %q, %q", a.result.Stop, names, arguments)
	}
}

// TestCallsOfFreeAnswersEnd: a model that would end within a call that it began itself ends with a
// call that is valid.
func TestCallsOfFreeAnswersEnd(t *testing.T) {
	valid := map[string]func(string) error{"order": grammartest.Validator(t, order), "ship": grammartest.Validator(t, ship)}
	for name, data := range vocabularies() {
		e, s := mumbler(t, data)
		for _, begins := range []string{"", "\n<function=order>\n", "\n<function=order>\n<parameter=item>\nlam", "\n<function=order>\n<parameter=item>\nlamp\n</parameter>\n<parameter=count>\n4"} {
			r := ask(t, e, constrained(1, orderTools))
			var script []int32
			if e.format.marker >= 0 {
				script = append(script, e.format.marker)
			} else {
				begins = "<tool_call>" + begins
			}
			script = e.tokenizer.Encode(script, begins)
			e.forwarder = &mumble{seed: 1, prompt: len(r.Prompt), script: script, end: len(script), stop: e.tokenizer.Stops()[0]}
			_, a := submit(t, s, "acct", r)
			runAll(t, s)
			checkStream(t, a.events)
			names, arguments := calls(a.events)
			if a.result.Stop != abi.StopToolUse || len(names) != 1 {
				t.Errorf("%s, %q: %v, %q: %q", name, begins, a.result.Stop, names, text(a.events))
				continue
			}
			if err := valid[names[0]](arguments[0]); err != nil {
				t.Errorf("%s, %q: %s: %v", name, begins, arguments[0], err)
			}
		}
	}
}

// TestNoEndWhereNoneCounts: where the model's end is not to count it closes nothing.
func TestNoEndWhereNoneCounts(t *testing.T) {
	for _, more := range []string{`,"ignore_eos":true`, `,"min_tokens":400`} {
		if a := say(t, "abc ", formatOf(`{"type":"string"}`, more)); a.result.Stop != abi.StopMaxTokens {
			t.Errorf("%s: %v: %q", more, a.result.Stop, text(a.events))
		}
	}
}

// drone is a model that says how it begins, and then one token for ever.
type drone struct {
	Forwarder
	prompt int
	begins []int32
	on     int32
}

func (f drone) Forward(step *kernel.Step, _ []int32, _ kernel.Cache, rows []int32, logits [][]float32) error {
	sp := step.Spans[0] // tests run one sequence
	for i, row := range rows {
		clear(logits[i])
		token := f.on
		if at := sp.Pos + int(row) - sp.Row + 1 - f.prompt; at < len(f.begins) {
			token = f.begins[at]
		}
		logits[i][token] = 100
	}
	return nil
}

func (drone) Close() {}

// TestFreeStringsAreBounded has a model that never ends: a string of which the schema says
// nothing, or has a bound that no state counts, is closed in time. The arguments of a call are not.
func TestFreeStringsAreBounded(t *testing.T) {
	e, s := mumbler(t, embedded.Model("core-1.1-mini"))
	says := func(body, begins, on string) *answer {
		r := ask(t, e, strings.Replace(body, `"max_tokens":400`, `"max_tokens":6000`, 1))
		f := drone{prompt: len(r.Prompt), on: e.tokenizer.Encode(nil, on)[0]}
		if begins != "" {
			f.begins = e.tokenizer.Encode([]int32{e.format.marker}, begins)
		}
		e.forwarder = f
		_, a := submit(t, s, "acct", r)
		runAll(t, s)
		return a
	}
	for i, c := range []struct {
		schema, on  string
		least, most int
	}{
		{`{"type":"string"}`, "a", 3000, 4096},
		{`{"type":"string"}`, " the", 3000, 4096},
		{`{"type":"string","maxLength":2500}`, " the", 1900, 2500},
		{`{"type":"string","maxLength":5000}`, " the", 4400, 5000},
		{`{"type":"string","minLength":7}`, " the", 3000, 4096},
		{`{"type":"string","minLength":7,"maxLength":900}`, " the", 897, 900},
		{`{"type":"string","minLength":1000,"maxLength":2500}`, "a", 2400, 2500},
		{`{"type":"string","minLength":1995,"maxLength":2003}`, " the", 1995, 2003},
	} {
		if i%3 >= atMost(3, 1) {
			continue
		}
		a := says(formatOf(c.schema, ``), "", c.on)
		got := text(a.events)
		if n := utf8.RuneCountInString(got) - len(`""`); a.result.Stop != abi.StopEndTurn || n < c.least || n > c.most {
			t.Errorf("%s: %v after %d characters, want %d to %d", c.schema, a.result.Stop, n, c.least, c.most)
		}
		if err := grammartest.Validator(t, c.schema)(got); err != nil {
			t.Error(err)
		}
	}
	body := formatOf(`{}`, `,"tools":[{"name":"write","input_schema":{"type":"object","properties":{"file":{"type":"string"}},"required":["file"]}}],"tool_choice":{"type":"any"}`)
	a := says(body, "\n<function=write>\n<parameter=file>\n", "a")
	if got := text(a.events); a.result.Stop != abi.StopMaxTokens || len(got) < 5500 {
		t.Errorf("%v after %d characters of a call", a.result.Stop, len(got))
	}
}

// TestEndsInDrafts plays answers again that the model would end in the middle: with drafts they
// are what they are without, also where a draft goes on behind that place.
func TestEndsInDrafts(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"array","items":{"type":"string"}}},"required":["a","b"]}`
	playAgain(t, shipped(), 12, func(_ *Engine, seed uint64) (string, *mumble) {
		body := strings.Replace(formatOf(schema, fmt.Sprintf(`,"seed":%d`, seed)), `"temperature":0`, `"temperature":1`, 1)
		return body, &mumble{end: 8 + int(seed)}
	}, func(a *answer) {
		if err := grammartest.Validator(t, schema)(text(a.events)); a.result.Stop != abi.StopEndTurn || err != nil {
			t.Fatalf("%v: %q: %v", a.result.Stop, text(a.events), err)
		}
	})
}
