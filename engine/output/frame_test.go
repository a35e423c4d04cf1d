package output

import (
	"strings"
	"testing"
)

// frameSamples are outputs of models whose calls stand between marks; § is the token that begins calls.
var frameSamples = []struct {
	name     string
	frame    Frame
	in, want string
}{
	{"a list", frameMistralList, `§ [{"name": "search", "arguments": {"q": "]}\" [", "n": 5}, "id": "abcdefghi"}, {"name": "noop", "arguments": {}}]`,
		`tool search {"q":"]}\" [","n":5}|tool noop {}`},
	{"a list of another tool", frameMistralList, `§[{"name": "find", "arguments": {}}] more`, `text [TOOL_CALLS][{"name": "find", "arguments": {}}] more`},
	{"a list and text", frameMistralList, `So. §[{"name": "noop"}] Done.`, `text So.|tool noop {}|text  Done.`},
	{"a name and arguments", frameMistral, `§search[ARGS]{"tags": [1, {"a": "[ARGS]"}]}§noop[ARGS]{}`, `tool search {"tags":[1,{"a":"[ARGS]"}]}|tool noop {}`},
	{"an id", frameMistralID, `§search[CALL_ID]a1b2c3d4e[ARGS]{"q": "[CALL_ID]"} ok`, `tool search {"q":"[CALL_ID]"}|text  ok`},
	{"no arguments", frameMistral, `§search{"q": 1}`, `text [TOOL_CALLS]search{"q": 1}`},
	{"a section", frameDeepSeek, `§<｜tool▁call▁begin｜>search<｜tool▁sep｜>{"q": "<｜tool▁calls▁end｜>"}<｜tool▁call▁end｜>` +
		`<｜tool▁call▁begin｜>noop<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>end`, `tool search {"q":"<｜tool▁calls▁end｜>"}|tool noop {}|text end`},
	{"a fence", frameDeepSeekFenced, "§<｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{\"q\": \"```\"}\n```<｜tool▁call▁end｜>\n" +
		"<｜tool▁call▁begin｜>function<｜tool▁sep｜>noop\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "tool search {\"q\":\"```\"}|tool noop {}"},
	{"numbers", frameKimi, `§<|tool_call_begin|>functions.search:10<|tool_call_argument_begin|>{"deep": true}<|tool_call_end|>` +
		`<|tool_calls_section_end|>`, `tool search {"deep":true}`},
	{"an empty section", frameKimi, `§<|tool_calls_section_end|>`, `text <|tool_calls_section_begin|><|tool_calls_section_end|>`},
	{"a list for arguments", frameDeepSeek, `§<｜tool▁call▁begin｜>noop<｜tool▁sep｜>[1]<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
		`text <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>noop<｜tool▁sep｜>[1]<｜tool▁call▁end｜><｜tool▁calls▁end｜>`},
	{"cut", frameDeepSeek, `§<｜tool▁call▁begin｜>noop<｜tool▁sep｜>{`, `text <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>noop<｜tool▁sep｜>{`},
	{"a half of a pair", frameMistral, `§search[ARGS]{"q": "\ud800"}`, `tool search {"q":"\ufffd"}`},
}

// TestFramedCalls: calls between marks are read wherever the output is cut, what is none is text.
func TestFramedCalls(t *testing.T) {
	for _, s := range frameSamples {
		checkReads(t, s.name, Options{Frame: &s.frame, Marked: true}, s.in, s.want)
		if !strings.Contains(s.in, "So. ") { // without a token, a call begins a block
			checkReads(t, s.name+", spelled", Options{Frame: &s.frame}, strings.ReplaceAll(s.in, "§", s.frame.Open), s.want)
		}
	}
}
