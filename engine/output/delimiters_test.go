package output

import (
	"strings"
	"testing"
)

// delimitedSamples are outputs of models whose calls stand between delimiters; § is the token that begins calls.
var delimitedSamples = []struct {
	name       string
	delimiters Delimiters
	in, want   string
}{
	{"a list", delimitersMistralList, `§ [{"name": "search", "arguments": {"q": "]}\" [", "n": 5}, "id": "abcdefghi"}, {"name": "noop", "arguments": {}}]`,
		`tool search {"q":"]}\" [","n":5}|tool noop {}`},
	{"a list of another tool", delimitersMistralList, `§[{"name": "find", "arguments": {}}] more`, `text [TOOL_CALLS][{"name": "find", "arguments": {}}] more`},
	{"a list and text", delimitersMistralList, `So. §[{"name": "noop"}] Done.`, `text So.|tool noop {}|text  Done.`},
	{"a name and arguments", delimitersMistral, `§search[ARGS]{"tags": [1, {"a": "[ARGS]"}]}§noop[ARGS]{}`, `tool search {"tags":[1,{"a":"[ARGS]"}]}|tool noop {}`},
	{"an id", delimitersMistralID, `§search[CALL_ID]a1b2c3d4e[ARGS]{"q": "[CALL_ID]"} ok`, `tool search {"q":"[CALL_ID]"}|text  ok`},
	{"no arguments", delimitersMistral, `§search{"q": 1}`, `text [TOOL_CALLS]search{"q": 1}`},
	{"a section", delimitersDeepSeek, `§<｜tool▁call▁begin｜>search<｜tool▁sep｜>{"q": "<｜tool▁calls▁end｜>"}<｜tool▁call▁end｜>` +
		`<｜tool▁call▁begin｜>noop<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>end`, `tool search {"q":"<｜tool▁calls▁end｜>"}|tool noop {}|text end`},
	{"a fence", delimitersDeepSeekFenced, "§<｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{\"q\": \"```\"}\n```<｜tool▁call▁end｜>\n" +
		"<｜tool▁call▁begin｜>function<｜tool▁sep｜>noop\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "tool search {\"q\":\"```\"}|tool noop {}"},
	{"numbers", delimitersKimi, `§<|tool_call_begin|>functions.search:10<|tool_call_argument_begin|>{"deep": true}<|tool_call_end|>` +
		`<|tool_calls_section_end|>`, `tool search {"deep":true}`},
	{"no number", delimitersKimi, `§<|tool_call_begin|>functions.noop<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>`, `tool noop {}`},
	{"a list that is no JSON", delimitersMistralList, `§[{"name": noop}]`, `text [TOOL_CALLS][{"name": noop}]`},
	{"an empty section", delimitersKimi, `§<|tool_calls_section_end|>`, `text <|tool_calls_section_begin|><|tool_calls_section_end|>`},
	{"an empty section and a call", delimitersKimi, `So. §<|tool_calls_section_end|>§<|tool_call_begin|>functions.noop:0<|tool_call_argument_begin|>{}<|tool_call_end|>` +
		`<|tool_calls_section_end|>`, `text So. <|tool_calls_section_begin|><|tool_calls_section_end|>|tool noop {}`},
	{"no beginning", delimitersDeepSeek, `§noop<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
		`text <｜tool▁calls▁begin｜>noop<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`},
	{"no end", delimitersDeepSeek, `§<｜tool▁call▁begin｜>noop<｜tool▁sep｜>{}<｜tool▁calls▁end｜>`,
		`text <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>noop<｜tool▁sep｜>{}<｜tool▁calls▁end｜>`},
	{"a number where there are none", delimitersMistral, `§noop:1[ARGS]{}`, `text [TOOL_CALLS]noop:1[ARGS]{}`},
	{"an empty list", delimitersMistralList, `§[]`, `text [TOOL_CALLS][]`},
	{"a list for arguments", delimitersDeepSeek, `§<｜tool▁call▁begin｜>noop<｜tool▁sep｜>[1]<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
		`text <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>noop<｜tool▁sep｜>[1]<｜tool▁call▁end｜><｜tool▁calls▁end｜>`},
	{"arguments that are no JSON", delimitersDeepSeek, `§<｜tool▁call▁begin｜>noop<｜tool▁sep｜>none<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
		`text <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>noop<｜tool▁sep｜>none<｜tool▁call▁end｜><｜tool▁calls▁end｜>`},
	{"cut", delimitersDeepSeek, `§<｜tool▁call▁begin｜>noop<｜tool▁sep｜>{`, `text <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>noop<｜tool▁sep｜>{`},
	{"a half of a pair", delimitersMistral, `§search[ARGS]{"q": "\ud800"}`, `tool search {"q":"\ufffd"}`},
}

// TestDelimitersOf: a template shows which delimiters its calls have, and which of them may be tokens.
func TestDelimitersOf(t *testing.T) {
	for template, want := range map[string]*Delimiters{
		"": nil, "<tool_call>": nil, "[ARGS][CALL_ID]```json": nil,
		"<｜tool▁calls▁begin｜>": &delimitersDeepSeek, "<｜tool▁calls▁begin｜>```json": &delimitersDeepSeekFenced,
		"<|tool_calls_section_begin|>": &delimitersKimi, "[TOOL_CALLS]": &delimitersMistralList,
		"[TOOL_CALLS][ARGS]": &delimitersMistral, "[TOOL_CALLS][CALL_ID][ARGS]": &delimitersMistralID,
	} {
		if got := DelimitersOf(template); got != want {
			t.Errorf("%q has %+v, want %+v", template, got, want)
		}
	}
	for d, want := range map[*Delimiters]string{
		&delimitersDeepSeekFenced: "<｜tool▁call▁begin｜> <｜tool▁sep｜> <｜tool▁call▁end｜> <｜tool▁calls▁end｜>",
		&delimitersMistralID:      "[ARGS] [CALL_ID]", &delimitersMistralList: "",
	} {
		if got := strings.Join(d.Tokens(), " "); got != want {
			t.Errorf("%s has the tokens %s, want %s", d.Open, got, want)
		}
	}
}

// TestDelimitedCalls: calls between delimiters are read wherever the output is cut, what is none is text.
func TestDelimitedCalls(t *testing.T) {
	for _, s := range delimitedSamples {
		checkReads(t, s.name, Options{Delimiters: &s.delimiters, Marked: true}, s.in, s.want)
		if !strings.Contains(s.in, "So. ") { // without a token, a call begins a block
			checkReads(t, s.name+", spelled", Options{Delimiters: &s.delimiters}, strings.ReplaceAll(s.in, "§", s.delimiters.Open), s.want)
		}
	}
}
