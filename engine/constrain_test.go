package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"corenode/engine/grammar/grammartest"
	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// order is a schema of which even a model whose text is noise comes to an end.
const order = `{"type":"object","properties":{"item":{"type":"string","maxLength":12},"count":{"type":"integer","minimum":1,"maximum":99},
	"size":{"enum":["small","large"]},"gift":{"type":"boolean"},"notes":{"type":"array","items":{"type":"string","maxLength":4},"maxItems":2}},
	"required":["item","count","size","gift"],"additionalProperties":false}`

const orderTools = `"tools":[{"name":"ship","input_schema":{"type":"object","properties":{"id":{"type":"integer","minimum":5,"maximum":7}},"required":["id"]}},{"name":"order","input_schema":` + order + `}]`

// constrained is a body whose answer has a form; more are further fields.
func constrained(seed int, more string) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":600,"seed":%d,"thinking":{"type":"disabled"},"messages":[{"role":"user","content":"Order two lamps."}],%s}`, seed, more)
}

// calls are the names and arguments of the calls of an answer.
func calls(events []abi.Event) (names, arguments []string) {
	for _, e := range events {
		switch {
		case e.Kind == abi.EventBlockStart && e.Block == abi.BlockToolUse:
			names, arguments = append(names, e.Name), append(arguments, "")
		case e.Kind == abi.EventDelta && e.Block == abi.BlockToolUse:
			arguments[len(arguments)-1] += e.Text
		}
	}
	return names, arguments
}

// TestForcedCalls has noise call tools: whatever it writes is a valid call.
func TestForcedCalls(t *testing.T) {
	want := map[string]func(text string) error{"order": grammartest.Validator(t, order), "ship": grammartest.Validator(t, `{"type":"object","properties":{"id":{"type":"integer","minimum":5,"maximum":7}},"required":["id"]}`)}
	for _, draft := range []bool{true, false}[:atMost(2, 1)] {
		o := options(CPU)
		o.Draft = draft
		e, s := open2(t, o)
		for _, c := range []struct {
			choice string
			named  string
			most   int
		}{
			{`{"type":"tool","name":"order"}`, "order", 1},
			{`{"type":"any","disable_parallel_tool_use":true}`, "", 1},
			{`{"type":"any"}`, "", 100},
			{`{"type":"any","name":"nothing"}`, "", 100}, // a name says nothing here
		} {
			var answers []*answer
			for seed := range 6 {
				_, a := submit(t, s, "acct", ask(t, e, constrained(seed, orderTools+`,"tool_choice":`+c.choice)))
				answers = append(answers, a)
			}
			runAll(t, s)
			ended := 0
			for _, a := range answers {
				checkStream(t, a.events)
				names, arguments := calls(a.events)
				if a.result.Stop == abi.StopToolUse {
					ended++
				}
				if a.result.Stop == abi.StopToolUse && (len(names) == 0 || len(names) > c.most) {
					t.Errorf("%s: %d calls", c.choice, len(names))
				}
				for i, name := range names {
					if err := want[name](arguments[i]); err != nil || c.named != "" && name != c.named {
						t.Errorf("%s: %s(%s): %v", c.choice, name, arguments[i], err)
					}
				}
			}
			if ended < 4 {
				t.Errorf("%s: %d of 6 answers end with a call", c.choice, ended)
			}
		}
	}
}

// TestForcedCallAfterThinking lets the model think first.
func TestForcedCallAfterThinking(t *testing.T) {
	e, s := open2(t, options(CPU))
	r := ask(t, e, strings.Replace(constrained(3, orderTools+`,"tool_choice":{"type":"any"}`), "disabled", "enabled", 1))
	_, a := submit(t, s, "acct", r)
	runAll(t, s)
	names, _ := calls(a.events)
	if a.events[1].Block != abi.BlockThinking || slices.ContainsFunc(a.events,
		func(e abi.Event) bool { return e.Block == abi.BlockText && e.Kind == abi.EventDelta && len(names) > 0 }) {
		t.Errorf("%+v", a.events)
	}
}

// TestFormats has noise write JSON.
func TestFormats(t *testing.T) {
	e, s := open2(t, options(CPU))
	for _, c := range []struct{ more, schema string }{
		{`"response_format":{"type":"json_schema","json_schema":{"name":"order","schema":` + order + `}}`, order},
		{`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"array","items":{"type":"integer","minimum":0,"maximum":9},"minItems":3,"maxItems":3}}}`, `{"type":"array","minItems":3,"maxItems":3,"items":{"maximum":9}}`},
		{`"output_config":{"effort":"low","format":{"type":"json_schema","schema":` + order + `}}`, order},
	} {
		for seed := range 4 {
			_, a := submit(t, s, "acct", ask(t, e, constrained(seed, c.more)))
			runAll(t, s)
			checkStream(t, a.events)
			if err := grammartest.Validator(t, c.schema)(text(a.events)); a.result.Stop != abi.StopEndTurn || err != nil {
				t.Errorf("%s: %q, %v, %v", c.more, text(a.events), a.result.Stop, err)
			}
		}
	}
	_, a := submit(t, s, "acct", ask(t, e, constrained(1, `"response_format":{"type":"json_object"}`)))
	runAll(t, s)
	if got := text(a.events); !strings.HasPrefix(got, "{") || a.result.Stop == abi.StopEndTurn && !json.Valid([]byte(got)) {
		t.Errorf("%q, %v", got, a.result.Stop)
	}
}

// TestFormatOrCall has noise choose between JSON and a call.
func TestFormatOrCall(t *testing.T) {
	e, s := open2(t, options(CPU))
	for seed := range atMost(6, 3) {
		_, a := submit(t, s, "acct", ask(t, e, constrained(seed, orderTools+`,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"enum":["yes","no"]}}}`)))
		runAll(t, s)
		names, _ := calls(a.events)
		if got := text(a.events); len(names) == 0 && a.result.Stop == abi.StopEndTurn && got != `"yes"` && got != `"no"` {
			t.Errorf("neither a call nor the text: %q", got)
		}
	}
}

func TestSchemasThatCannotBeCompiled(t *testing.T) {
	e, _ := open2(t, options(Instant))
	wide := `{"enum":["x"`
	for c := 'A'; c <= 'Z'; c++ { // values that share no beginning
		wide += `,"` + strings.Repeat(string(c), 2000) + `"`
	}
	wide += `]}`
	for more, param := range map[string]string{
		`"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"b","input_schema":{"type":"object","properties":{"x":{"$ref":"#/nowhere"}}}}],"tool_choice":{"type":"tool","name":"b"}`:                                                               "tools.1.input_schema",
		`"tools":[{"type":"bash_20250124","name":"bash"},{"name":"a","input_schema":{"type":"object"}},{"type":"web_search_1","name":"w"},{"name":"b","input_schema":{"type":"object","properties":{"x":{"$ref":"#/nowhere"}}}}],"tool_choice":{"type":"any"}`: "tools.3.input_schema",

		`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"allOf":[{"$ref":"#"}]}}}`:                  "response_format.json_schema.schema",
		`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":["integer"],"enum":["a"]}}}`:         "response_format.json_schema.schema",
		`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"number","minimum":2,"maximum":1}}}`: "response_format.json_schema.schema",
		`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":` + wide +
			`}}`: "response_format.json_schema.schema",
		`"output_config":{"format":{"type":"json_schema","schema":{"type":["integer"],"enum":["a"]}}}`: "output_config.format.schema",
		`"output_format":{"type":"json_schema","schema":{"type":["integer"],"enum":["a"]}}`:            "output_format.schema",
		orderTools + `,"tool_choice":{"type":"any"},"response_format":{"type":"json_object"}`:          "",
	} {
		q, err := messages.Parse([]byte(constrained(1, more)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Prepare("acct", q)
		refused, _ := errors.AsType[*abi.Error](err)
		if param == "" {
			if err != nil {
				t.Errorf("%.80s: %v", more, err)
			}
			continue
		}
		if refused == nil || refused.Kind != abi.InvalidRequest || refused.Param != param {
			t.Errorf("%s: %v, want %s refused", more, err, param)
		}
	}
}
