package grammar

import (
	"encoding/json"
	"strings"
	"testing"

	"corenode/engine/output"
)

// TestDelimitedCalls: calls between delimiters are written as the templates that show them do, one or more as the form says.
func TestDelimitedCalls(t *testing.T) {
	v := vocabulary()
	const deepSeek = "<｜tool▁calls▁begin｜>"
	deepCall := func(text string) string {
		return "<｜tool▁call▁begin｜>" + text + "<｜tool▁call▁end｜>"
	}
	for _, c := range []struct {
		template string   // what shows the delimiters
		one      []string // texts of one call
		more     []string // of several
		not      []string
	}{
		{deepSeek, []string{deepSeek + deepCall("t<｜tool▁sep｜>{}") + "<｜tool▁calls▁end｜>"},
			[]string{deepSeek + deepCall("t<｜tool▁sep｜>{}") + deepCall("u<｜tool▁sep｜>{}") + "<｜tool▁calls▁end｜>"},
			[]string{deepSeek + "<｜tool▁calls▁end｜>", deepSeek + deepCall("t<｜tool▁sep｜>{}"), deepSeek + deepCall("x<｜tool▁sep｜>{}") + "<｜tool▁calls▁end｜>",
				deepSeek + deepCall("t<｜tool▁sep｜>5") + "<｜tool▁calls▁end｜>"}},
		{deepSeek + "```json", []string{deepSeek + deepCall("function<｜tool▁sep｜>t\n```json\n{}\n```") + "<｜tool▁calls▁end｜>"},
			[]string{deepSeek + deepCall("function<｜tool▁sep｜>t\n```json\n{}\n```") + "\n" + deepCall("function<｜tool▁sep｜>u\n```json\n{}\n```") + "<｜tool▁calls▁end｜>"},
			[]string{deepSeek + deepCall("function<｜tool▁sep｜>t\n```json\n{}\n```") + deepCall("function<｜tool▁sep｜>u\n```json\n{}\n```") + "<｜tool▁calls▁end｜>"}},
		{"<|tool_calls_section_begin|>", []string{
			"<|tool_calls_section_begin|><|tool_call_begin|>functions.t:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
			"<|tool_calls_section_begin|><|tool_call_begin|>functions.t:123<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"},
			[]string{"<|tool_calls_section_begin|>" + strings.Repeat("<|tool_call_begin|>functions.t:0<|tool_call_argument_begin|>{}<|tool_call_end|>", 3) + "<|tool_calls_section_end|>"},
			[]string{"<|tool_calls_section_begin|><|tool_call_begin|>functions.t:<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
				"<|tool_calls_section_begin|><|tool_call_begin|>functions.t:1234<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
				"<|tool_calls_section_begin|><|tool_call_begin|>functions.t<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"}},
		{"[TOOL_CALLS][ARGS]", []string{"[TOOL_CALLS]t[ARGS]{}"}, []string{"[TOOL_CALLS]t[ARGS]{}[TOOL_CALLS]u[ARGS]{}"},
			[]string{"[TOOL_CALLS]t[ARGS]{}u[ARGS]{}", "[TOOL_CALLS]t{}", "[TOOL_CALLS]t[CALL_ID]abcDEF129[ARGS]{}"}},
		{"[TOOL_CALLS][CALL_ID][ARGS]", []string{"[TOOL_CALLS]t[CALL_ID]abcDEF129[ARGS]{}"}, []string{"[TOOL_CALLS]t[CALL_ID]AZaz09000[ARGS]{}[TOOL_CALLS]u[CALL_ID]000000000[ARGS]{}"},
			[]string{"[TOOL_CALLS]t[CALL_ID]abcDEF12[ARGS]{}", "[TOOL_CALLS]t[CALL_ID]abcDEF1290[ARGS]{}", "[TOOL_CALLS]t[CALL_ID]abc_EF129[ARGS]{}", "[TOOL_CALLS]t[ARGS]{}"}},
		{"[TOOL_CALLS]", []string{`[TOOL_CALLS][{"name": "t", "arguments": {}}]`, `[TOOL_CALLS] [{"name": "t", "arguments": {}, "id": "abcDEF129"}]`},
			[]string{`[TOOL_CALLS][{"name": "t", "arguments": {}}, {"name": "u", "arguments": {}, "id": "abcDEF129"}]`},
			[]string{`[TOOL_CALLS][]`, `[TOOL_CALLS]  [{"name": "t", "arguments": {}}]`, `[TOOL_CALLS][{"name": "t", "arguments": {}, "id": "abcDEF12"}]`,
				`[TOOL_CALLS][{"name": "t", "arguments": {}, "id": "abcDEF129}]`, `[TOOL_CALLS][{"name": "t", "arguments": {}}][TOOL_CALLS][{"name": "t", "arguments": {}}]`}},
	} {
		for _, single := range []bool{false, true} {
			tools := []Tool{{"t", json.RawMessage(`{}`)}, {"u", Object}}
			g, err := Compile(Form{Calls: tools, Delimiters: output.DelimitersOf(c.template), SingleCall: single})
			if err != nil {
				t.Fatal(err)
			}
			check := func(texts []string, want bool) {
				for _, text := range texts {
					if got := matches(g, v, text); got != want {
						t.Errorf("single %v: %s may be written: %v, want %v", single, text, got, want)
					}
				}
			}
			check(c.one, true)
			check(c.more, !single)
			check(c.not, false)
		}
	}
}
