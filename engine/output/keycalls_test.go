package output

import (
	"math/rand/v2"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// keySamples are outputs of a model that writes keys and values, with what they are; § is the
// token that begins a call.
var keySamples = []struct{ name, in, want string }{
	{"a call", "§search\n<arg_key>q</arg_key>\n<arg_value>a b</arg_value>\n<arg_key>n</arg_key>\n<arg_value>5</arg_value>\n</tool_call>",
		`tool search {"q":"a b","n":5}`},
	{"text and two calls", "I look.\n§search\n<arg_key>q</arg_key>\n<arg_value>x</arg_value>\n</tool_call>\n§noop\n</tool_call>",
		`text I look.|tool search {"q":"x"}|tool noop {}`},
	{"a name alone on its line", "§noop</tool_call>", `tool noop {}`},
	{"blanks of a value stay", "§search\n<arg_key>q</arg_key>\n<arg_value>\n a \n</arg_value>\n</tool_call>", `tool search {"q":"\n a \n"}`},
	{"tags in a value", "§search\n<arg_key>q</arg_key>\n<arg_value></tool_call></tool_call></arg_value> <arg_key</arg_value>\n</tool_call>",
		`tool search {"q":"</tool_call></tool_call></arg_value> <arg_key"}`},
	{"an empty value", "§search<arg_key>q</arg_key><arg_value></arg_value></tool_call>", `tool search {"q":""}`},
	{"a line behind the name", "§search\nfor it</tool_call>", "text <tool_call>search\nfor it</tool_call>"},
	{"values of other types", "§search<arg_key>tags</arg_key><arg_value>[1, \"<\"]</arg_value><arg_key>deep</arg_key><arg_value>true</arg_value></tool_call>",
		`tool search {"tags":[1,"<"],"deep":true}`},
	{"a key twice", "§search\n<arg_key>q</arg_key>\n<arg_value>1</arg_value>\n<arg_key>q</arg_key>\n<arg_value>2</arg_value>\n</tool_call>", `tool search {"q":"2"}`},
	{"JSON", "§\n{\"name\": \"search\", \"arguments\": {\"n\": 1}}\n</tool_call>", `tool search {"n":1}`},
	{"no tool of that name", "§find\n<arg_key>q</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
		"text <tool_call>find\n<arg_key>q</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"},
	{"no value", "§search\n<arg_key>q</arg_key></arg_value></tool_call>", "text <tool_call>search\n<arg_key>q</arg_key></arg_value></tool_call>"},
	{"cut", "§search\n<arg_key>q</arg_key>\n<arg_value>1", "text <tool_call>search\n<arg_key>q</arg_key>\n<arg_value>1"},
	{"no name", "§" + strings.Repeat("x", 300) + "§noop</tool_call>", "text <tool_call>" + strings.Repeat("x", 300) + "|tool noop {}"},
	{"a tag that is no name", "§<b>§noop</tool_call>", "text <tool_call><b>|tool noop {}"},
	{"a line that is no name", "§find\n§noop</tool_call>", "text <tool_call>find|tool noop {}"},
}

// TestKeyCalls: calls of keys and values are read as what their schemas say, however they are cut.
func TestKeyCalls(t *testing.T) {
	for _, s := range keySamples {
		checkReads(t, s.name, Options{KeyCalls: true, Marked: true}, s.in, s.want)
	}
	const null = "§search<arg_key>q</arg_key><arg_value>null</arg_value></tool_call>"
	checkReads(t, "null for a text", Options{KeyCalls: true, Marked: true}, null, `tool search {"q":null}`)
	checkReads(t, "null for a text, held", Options{KeyCalls: true, Marked: true, Constrained: true}, null, `tool search {"q":"null"}`)
}

// checkReads reads an output whole and in pieces.
func checkReads(t *testing.T, name string, o Options, in, want string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	o.Tools, o.NewID = testTools, func() string { return "id" }
	read := func(pieces ...string) string {
		p := New(o)
		var events []abi.Event
		for _, piece := range pieces {
			events = feed(p, events, piece)
		}
		var got []string
		for _, b := range collect(t, p.Finish(events, false)) {
			kind := [...]string{"thinking", "text", "tool"}[b.kind]
			got = append(got, kind+" "+strings.TrimPrefix(b.name+" "+b.text, " "))
		}
		return strings.Join(got, "|")
	}
	if got := read(in); got != want {
		t.Errorf("%s:\n got %q\nwant %q", name, got, want)
	}
	for range 20 {
		if got := read(randomCut(rng, in)...); got != want {
			t.Errorf("%s in pieces:\n got %q\nwant %q", name, got, want)
		}
	}
}
