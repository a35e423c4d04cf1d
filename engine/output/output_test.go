package output

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"corenode/wasm/abi"
)

var testTools = []Tool{
	{Name: "search", Schema: json.RawMessage(`{"type":"object","properties":{
		"q":{"type":"string"},"n":{"type":"integer"},"x":{"type":"number"},"deep":{"type":"boolean"},
		"tags":{"type":"array"},"opts":{"type":"object"},"maybe":{"type":["integer","null"]},
		"either":{"anyOf":[{"type":"boolean"},{"$ref":"#/$defs/list"}]},"color":{"enum":["red",3]},
		"mixed":{"type":["string","integer"]},"shape":{"properties":{}},"loop":{"$ref":"#/$defs/loop"}},
		"$defs":{"list":{"type":"array"},"loop":{"$ref":"#/$defs/loop"}}}`)},
	{Name: "noop"},
}

// block is a whole block, deltas joined.
type block struct {
	kind abi.BlockKind
	name string
	text string
}

func (b block) String() string {
	kind := [...]string{"thinking", "text", "tool"}[b.kind]
	return fmt.Sprintf("%s %s %q", kind, b.name, b.text)
}

// collect checks the order of events and joins them to blocks.
func collect(t testing.TB, events []abi.Event) []block {
	t.Helper()
	var blocks []block
	open := false
	for i, e := range events {
		switch e.Kind {
		case abi.EventBlockStart:
			if open || int(e.Index) != len(blocks) {
				t.Fatalf("event %d: start of %d with open %v after %d blocks", i, e.Index, open, len(blocks))
			}
			if e.Block == abi.BlockToolUse && (e.ID == "" || e.Name == "") {
				t.Fatalf("event %d: a call without id or name", i)
			}
			open = true
			blocks = append(blocks, block{kind: e.Block, name: e.Name})
		case abi.EventDelta:
			last := len(blocks) - 1
			if !open || int(e.Index) != last || e.Block != blocks[last].kind || e.Text == "" || !utf8.ValidString(e.Text) {
				t.Fatalf("event %d: bad delta %+v", i, e)
			}
			blocks[last].text += e.Text
		case abi.EventBlockStop:
			if !open || int(e.Index) != len(blocks)-1 {
				t.Fatalf("event %d: bad stop %+v", i, e)
			}
			open = false
		default:
			t.Fatalf("event %d: kind %d", i, e.Kind)
		}
	}
	if open {
		t.Fatal("the last block is open")
	}
	for _, b := range blocks {
		if b.kind == abi.BlockToolUse && !jsontext.Value(b.text).IsValid() {
			t.Fatalf("arguments are not JSON as a history takes it: %q", b.text)
		}
		if b.text == "" || b.kind != abi.BlockToolUse && strings.Trim(b.text, space) == "" {
			t.Fatalf("an empty block: %v", b)
		}
	}
	return blocks
}

// parse feeds the pieces and returns blocks and stop reason as one text.
func parse(t testing.TB, o Options, truncated bool, pieces ...string) string {
	t.Helper()
	ids := 0
	o.NewID = func() string { ids++; return fmt.Sprint("toolu_", ids) }
	p := New(o)
	var events []abi.Event
	for _, piece := range pieces {
		events = feed(p, events, piece)
	}
	done := p.Done()
	events = p.Finish(events, truncated)
	if more := p.Call(p.Feed(p.Finish(nil, truncated), "more")); len(more) > 0 {
		t.Fatalf("what follows Finish gave %v", more)
	}
	var b strings.Builder
	for _, block := range collect(t, events) {
		fmt.Fprintln(&b, block)
	}
	reason, sequence := p.Stop()
	fmt.Fprintf(&b, "%v %q done=%v", reason, sequence, done)
	return b.String()
}

// text is a piece of output in which the marker is spelled out, ‹ for its <.
func text(s string) string { return strings.ReplaceAll(s, "§", "‹tool_call>") }

// feed takes a piece in which § is the token that begins a call: where the vocabulary has
// none it is its text.
func feed(p *Parser, dst []abi.Event, piece string) []abi.Event {
	for i, part := range strings.Split(piece, "§") {
		if i > 0 && p.options.Marked {
			dst = p.Call(dst)
		} else if i > 0 {
			part = callOpen + part
		}
		dst = p.Feed(dst, strings.ReplaceAll(part, "‹", "<"))
	}
	return dst
}

func xml(name string, pairs ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "§\n<function=%s>\n", name)
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "<parameter=%s>\n%s\n</parameter>\n", pairs[i], pairs[i+1])
	}
	return b.String() + "</function>\n</tool_call>"
}

var (
	plainText = Options{}
	withTools = Options{Tools: testTools, Marked: true}
	thinking  = Options{Thinking: true, Tools: testTools, Marked: true}
	single    = Options{Tools: testTools, SingleCall: true, Marked: true}
	spelled   = Options{Tools: testTools}
	pondered  = Options{Thinking: true, Tools: testTools}
	begun     = Options{Begun: true, Tools: testTools, Marked: true}
)

func stops(s ...string) Options {
	return Options{Thinking: true, Tools: testTools, Marked: true, Stops: s}
}

var samples = []struct {
	name      string
	options   Options
	truncated bool
	in        string
	want      string
}{
	{"nothing", plainText, false, "", `end_turn "" done=false`},
	{"text", plainText, false, "Hello\n\n ☃ world. \n", "text  \"Hello\\n\\n ☃ world. \\n\"\nend_turn \"\" done=false"},
	{"text cut", plainText, true, "Hel", "text  \"Hel\"\nmax_tokens \"\" done=false"},
	{"blank lines first", plainText, false, "\n  \n  code", "text  \"  code\"\nend_turn \"\" done=false"},
	{"only blank", plainText, false, " \n ", `end_turn "" done=false`},
	{"stray close tag", plainText, false, "a</think>b", "text  \"a</think>b\"\nend_turn \"\" done=false"},
	{"thinking", thinking, false, "\nhm\n\n a \n</think>\n\nyes", "thinking  \"hm\\n\\n a\"\ntext  \"yes\"\nend_turn \"\" done=false"},
	{"thinking tag repeated", thinking, false, "<think>\nhm</think>yes", "thinking  \"hm\"\ntext  \"yes\"\nend_turn \"\" done=false"},
	{"model opens thinking", plainText, false, "\n<think>\nhm <think> x\n</think>\n\nyes", "thinking  \"hm <think> x\"\ntext  \"yes\"\nend_turn \"\" done=false"},
	{"no thought", thinking, false, "\n\n</think>\n\nyes", "text  \"yes\"\nend_turn \"\" done=false"},
	{"only thought", thinking, true, "a\n\n </thi", "thinking  \"a\\n\\n </thi\"\nmax_tokens \"\" done=false"},
	{"thinking cut behind blank lines", thinking, true, "a\n\n", "thinking  \"a\"\nmax_tokens \"\" done=false"},
	{"start held at the end", thinking, true, " <thi", "thinking  \"<thi\"\nmax_tokens \"\" done=false"},
	{"start held, no thinking", plainText, true, "\n <thi", "text  \" <thi\"\nmax_tokens \"\" done=false"},
	{"indented answer", thinking, false, "a</think>\n\n    code", "thinking  \"a\"\ntext  \"    code\"\nend_turn \"\" done=false"},
	{"xml call", thinking, false, "hm</think>\n\nLet me.\n\n" + xml("search", "q", "x < y && </div>\n\nline", "n", "3") + "\n",
		"thinking  \"hm\"\ntext  \"Let me.\"\ntool search \"{\\\"q\\\":\\\"x < y && </div>\\\\n\\\\nline\\\",\\\"n\\\":3}\"\ntool_use \"\" done=false"},
	{"types", withTools, false, xml("search", "n", "-007", "x", "1.50", "deep", "True", "tags", `[1, "a b"]`, "opts", "{\n \"a\": {} }", "maybe", "NULL", "q", "3"),
		`tool search "{\"n\":-7,\"x\":1.50,\"deep\":true,\"tags\":[1,\"a b\"],\"opts\":{\"a\":{}},\"maybe\":null,\"q\":\"3\"}"` + "\ntool_use \"\" done=false"},
	{"unions", withTools, false, xml("search", "maybe", "4", "either", "[1]", "color", "3", "mixed", "12", "shape", "{}", "loop", "1", "other", "5"),
		`tool search "{\"maybe\":4,\"either\":[1],\"color\":3,\"mixed\":12,\"shape\":{},\"loop\":\"1\",\"other\":\"5\"}"` + "\ntool_use \"\" done=false"},
	{"mistyped", withTools, false, xml("search", "n", "three", "x", "inf", "deep", "yes", "tags", "{}", "opts", "{'a': 1}",
		"color", "red", "maybe", "1_000", "mixed", "0x1p4"),
		`tool search "{\"n\":\"three\",\"x\":\"inf\",\"deep\":\"yes\",\"tags\":\"{}\",\"opts\":\"{'a': 1}\",\"color\":\"red\",` +
			`\"maybe\":\"1_000\",\"mixed\":\"0x1p4\"}"` + "\ntool_use \"\" done=false"},
	{"numbers", withTools, false, xml("search", "n", "42.0", "x", "+1e2", "maybe", "123456789012345678901"),
		`tool search "{\"n\":42,\"x\":100,\"maybe\":123456789012345678901}"` + "\ntool_use \"\" done=false"},
	{"one line break off", withTools, false, xml("search", "q", "\n a \n"), `tool search "{\"q\":\"\\n a \\n\"}"` + "\ntool_use \"\" done=false"},
	{"no parameters", withTools, false, xml("noop"), `tool noop "{}"` + "\ntool_use \"\" done=false"},
	{"tags in a value", withTools, false, xml("search", "q", "a</parameter> b </tool_call></tool_call> § <parameter=z>"),
		`tool search "{\"q\":\"a</parameter> b </tool_call></tool_call> § <parameter=z>\"}"` + "\ntool_use \"\" done=false"},
	{"parameter not closed", withTools, false, "§<function=search><parameter=q>\nx\n</function></tool_call>", `tool search "{\"q\":\"x\"}"` + "\ntool_use \"\" done=false"},
	{"parameter twice", withTools, false, xml("search", "q", "a", "n", "1", "q", "b"), `tool search "{\"q\":\"b\",\"n\":1}"` + "\ntool_use \"\" done=false"},
	{"json call", withTools, false, "§\n{\"name\": \"search\", \"arguments\": {\"q\": \"</tool_call> \\\" <b>\", \"n\": 1.0}}\n</tool_call>",
		`tool search "{\"q\":\"</tool_call> \\\" <b>\",\"n\":1.0}"` + "\ntool_use \"\" done=false"},
	{"json member twice", withTools, false, `§{"name":"search","arguments":{"q": 1, "n": 1.0, "q": {"a": 1, "a": 1e2}}}</tool_call>`,
		`tool search "{\"n\":1.0,\"q\":{\"a\":1e2}}"` + "\ntool_use \"\" done=false"},
	{"half surrogate pairs", withTools, false, `§{"name":"search","arguments":{"q":"\n\ud83d, \ud83d\ude00"}}</tool_call>`,
		`tool search "{\"q\":\"\\n\\ufffd, \\ud83d\\ude00\"}"` + "\ntool_use \"\" done=false"},
	{"values of parameters", withTools, false, xml("search", "opts", `{"a": 1, "a": 2}`, "tags", `["\ude00"]`),
		`tool search "{\"opts\":{\"a\":2},\"tags\":[\"\\ufffd\"]}"` + "\ntool_use \"\" done=false"},
	{"json in a string", withTools, false, `§{"name":"search","arguments":"{\"q\": 1}"}</tool_call>`, `tool search "{\"q\":1}"` + "\ntool_use \"\" done=false"},
	{"json with parameters", withTools, false, `§{"name":"search","parameters":{"q": 1}}</tool_call>`, `tool search "{\"q\":1}"` + "\ntool_use \"\" done=false"},
	{"json with null for arguments", withTools, false, `§{"name":"noop","arguments":null}</tool_call>`, `tool noop "{}"` + "\ntool_use \"\" done=false"},
	{"json with an empty text for arguments", withTools, false, `§{"name":"noop","arguments":""}</tool_call>`, `tool noop "{}"` + "\ntool_use \"\" done=false"},
	{"json without arguments", withTools, false, `§{"name":"noop"}</tool_call>`, `tool noop "{}"` + "\ntool_use \"\" done=false"},
	{"two calls", withTools, false, "a\n" + xml("noop") + "\n" + xml("search", "q", "1") + "\nb\n",
		"text  \"a\"\ntool noop \"{}\"\ntool search \"{\\\"q\\\":\\\"1\\\"}\"\ntext  \"b\\n\"\ntool_use \"\" done=false"},
	{"single call, text behind it", single, false, xml("noop") + " b", "tool noop \"{}\"\ntool_use \"\" done=true"},
	{"single call", single, false, "a " + xml("noop") + xml("search", "q", "1"), "text  \"a\"\ntool noop \"{}\"\ntool_use \"\" done=true"},
	{"blanks before a call of the only tool", Options{Tools: testTools[1:], Marked: true}, false, "a \n" + xml("noop"), "text  \"a\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"call ends thinking", thinking, false, "hm\n" + xml("noop"), "thinking  \"hm\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"mention in thinking", thinking, false, "use § now</think>" + xml("noop"), "thinking  \"use § now\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"mention in text", withTools, false, "use  § <b>", "text  \"use  § <b>\"\nend_turn \"\" done=false"},
	{"no tools", plainText, false, xml("noop"), fmt.Sprintf("text  %q\nend_turn \"\" done=false", xml("noop"))},
	{"no tools, the token", Options{Marked: true}, false, "a §\n<b>", "text  \"a §\\n<b>\"\nend_turn \"\" done=false"},
	{"no tools, a stop", Options{Stops: []string{"noop"}}, false, xml("noop"), "text  \"§\\n<function=\"\nstop_sequence \"noop\" done=true"},
	{"no tools, a stop behind the token", Options{Marked: true, Stops: []string{"noop"}}, false, xml("noop"), "text  \"§\\n<function=\"\nstop_sequence \"noop\" done=true"},
	{"no tools, thinking", Options{Thinking: true}, false, "§</think>x", "thinking  \"§\"\ntext  \"x\"\nend_turn \"\" done=false"},
	{"unknown tool", withTools, false, "a\n\n" + xml("rm") + " b", fmt.Sprintf("text  %q\nend_turn \"\" done=false", "a\n\n"+xml("rm")+" b")},
	{"unknown tool, a blank line behind it", withTools, false, xml("rm") + "\n\nb", fmt.Sprintf("text  %q\nend_turn \"\" done=false", xml("rm")+"\n\nb")},
	{"unknown tool, a stop behind it", stops("END"), false, "</think>" + xml("rm") + " END b", fmt.Sprintf("text  %q\nstop_sequence \"END\" done=true", xml("rm")+" ")},
	{"unknown tool, json", withTools, false, `§{"name":"rm"}</tool_call>`, "text  \"§{\\\"name\\\":\\\"rm\\\"}</tool_call>\"\nend_turn \"\" done=false"},
	{"broken json", withTools, false, `§{"name":"noop",}</tool_call>` + xml("noop"), "text  \"§{\\\"name\\\":\\\"noop\\\",}</tool_call>\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"broken json, the token in it", withTools, false, `§{> §{"name":"noop"}</tool_call>`, "text  \"§{> §{\\\"name\\\":\\\"noop\\\"}</tool_call>\"\nend_turn \"\" done=false"},
	{"arguments no object", withTools, false, `§{"name":"noop","arguments":[1]}</tool_call>`, "text  \"§{\\\"name\\\":\\\"noop\\\",\\\"arguments\\\":[1]}</tool_call>\"\nend_turn \"\" done=false"},
	{"broken json in a string", withTools, false, `§{"name":"noop","arguments":"{"}</tool_call>`, "text  \"§{\\\"name\\\":\\\"noop\\\",\\\"arguments\\\":\\\"{\\\"}</tool_call>\"\nend_turn \"\" done=false"},
	{"broken xml", withTools, false, "§<function=noop></tool_call> x" + xml("noop"), "text  \"§<function=noop></tool_call> x\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"parameter without the end of its name", withTools, false, "§<function=noop><parameter=q</function></tool_call>", "text  \"§<function=noop><parameter=q</function></tool_call>\"\nend_turn \"\" done=false"},
	{"prose in a function", withTools, false, "§<function=noop>hi</function></tool_call>", "text  \"§<function=noop>hi</function></tool_call>\"\nend_turn \"\" done=false"},
	{"prose with a bracket in a function", withTools, false, "§<function=noop>a > b</function></tool_call>", "text  \"§<function=noop>a > b</function></tool_call>\"\nend_turn \"\" done=false"},
	{"function not closed", withTools, false, "§<function=search><parameter=q>\nx\n</parameter></tool_call>" + xml("noop"),
		"text  \"§<function=search><parameter=q>\\nx\\n</parameter></tool_call>\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"null for a text", withTools, false, xml("search", "q", "null"), `tool search "{\"q\":null}"` + "\ntool_use \"\" done=false"},
	{"null for a text, held", Options{Tools: testTools, Marked: true, Constrained: true}, false, xml("search", "q", "null"),
		`tool search "{\"q\":\"null\"}"` + "\ntool_use \"\" done=false"},
	{"call cut", withTools, true, "a\n§\n<function=search>\n<parameter=q>\nx", "text  \"a\\n§\\n<function=search>\\n<parameter=q>\\nx\"\nmax_tokens \"\" done=false"},
	{"call cut while thinking", thinking, true, "a\n§{", "thinking  \"a\"\ntext  \"§{\"\nmax_tokens \"\" done=false"},
	{"second call cut", withTools, true, xml("noop") + "\n§\n<func", "tool noop \"{}\"\ntext  \"§\\n<func\"\nmax_tokens \"\" done=false"},
	{"cut after a call", withTools, true, xml("noop") + "\nand", "tool noop \"{}\"\ntext  \"and\"\ntool_use \"\" done=false"},
	{"stop", stops("END"), false, "ENDx</think>a ENDb", "thinking  \"ENDx\"\ntext  \"a \"\nstop_sequence \"END\" done=true"},
	{"stop first", stops("END"), false, "t</think>\n END b", "thinking  \"t\"\nstop_sequence \"END\" done=true"},
	{"stop not in a call", stops("noop", "<tool_call>x"), false, "t</think>" + xml("noop") + "a noop b", "thinking  \"t\"\ntool noop \"{}\"\ntext  \"a \"\ntool_use \"\" done=true"},
	{"stop at the first byte", stops("END"), false, "t</think>END b", "thinking  \"t\"\nstop_sequence \"END\" done=true"},
	{"stop that is complete first", stops("abcd", "bc", ""), false, "</think>xabcd", "text  \"xa\"\nstop_sequence \"bc\" done=true"},
	{"longest of two stops", stops("c", "abc"), false, "</think>xabc", "text  \"x\"\nstop_sequence \"abc\" done=true"},
	{"longest of two stops, in the other order", stops("abc", "c"), false, "</think>xabc", "text  \"x\"\nstop_sequence \"abc\" done=true"},
	{"nearly a stop", stops("aab"), false, "</think>aaaab", "text  \"aa\"\nstop_sequence \"aab\" done=true"},
	{"never a stop", stops("aab"), false, "</think>aaa", "text  \"aaa\"\nend_turn \"\" done=false"},
	{"stop of line breaks", stops("\n\n"), false, "</think>\n\na\n\nb", "text  \"a\"\nstop_sequence \"\\n\\n\" done=true"},
	{"stop after blanks", Options{Stops: []string{"END"}}, false, "  END", `stop_sequence "END" done=true`},
	{"begun", begun, false, "\n\n  - apples\n", "text  \"\\n\\n  - apples\\n\"\nend_turn \"\" done=false"},
	{"begun, no tools", Options{Begun: true}, false, "\n - apples", "text  \"\\n - apples\"\nend_turn \"\" done=false"},
	{"begun, stop of line breaks", Options{Begun: true, Stops: []string{"\n"}}, false, "\n- apples", `stop_sequence "\n" done=true`},
	{"begun, stop after blanks", Options{Begun: true, Stops: []string{"END"}}, false, "\n END", `stop_sequence "END" done=true`},
	{"begun, a thinking tag", begun, false, "<think>a</think>b", "text  \"<think>a</think>b\"\nend_turn \"\" done=false"},
	{"begun, only blank", Options{Begun: true}, true, "\n \n", `max_tokens "" done=false`},
	{"spelled out", withTools, false, "<tool_call>\n<function=noop>\n</function>\n</tool_call>", "text  \"<tool_call>\\n<function=noop>\\n</function>\\n</tool_call>\"\nend_turn \"\" done=false"},
	{"spelled out in thinking", thinking, false, "a <tool_call> b</think>c", "thinking  \"a <tool_call> b\"\ntext  \"c\"\nend_turn \"\" done=false"},
	{"spelled out, then the token", withTools, false, "<tool_call>" + xml("noop"), "text  \"<tool_call>\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"the token behind a beginning of thinking", withTools, false, "\n <thi" + xml("noop"), "text  \" <thi\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"the token in a call", withTools, true, "§\n<function=search>§", "text  \"§\\n<function=search>§\"\nmax_tokens \"\" done=false"},
	{"the token behind a beginning of thinking, in thinking", thinking, false, "\n <thi" + xml("noop"), "thinking  \"<thi\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"the token behind blank lines of thinking", thinking, false, "a\n\n</th" + xml("noop"), "thinking  \"a\\n\\n</th\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"the token behind a stop", stops("END"), false, "</think>a END" + xml("noop"), "text  \"a \"\nstop_sequence \"END\" done=true"},
	{"the token behind half a tag", thinking, false, "\n </th" + xml("noop"), "thinking  \"</th\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"the token behind half a stop", stops("abc"), false, "</think>x\n\na" + xml("noop"), "text  \"x\\n\\na\"\ntool noop \"{}\"\ntool_use \"\" done=false"},
	{"no token: first of the answer", spelled, false, "\n " + text(xml("noop")) + "\n" + text(xml("search", "q", "1")) + "b", "tool noop \"{}\"\ntool search \"{\\\"q\\\":\\\"1\\\"}\"\ntext  \"b\"\ntool_use \"\" done=false"},
	{"no token: in a text", spelled, false, "a\n" + text(xml("noop")), fmt.Sprintf("text  %q\nend_turn \"\" done=false", "a\n"+xml("noop"))},
	{"no token: behind thinking", pondered, false, "a" + text(xml("noop")) + "</think>\n\n" + text(xml("noop")), fmt.Sprintf("thinking  %q\ntool noop \"{}\"\ntool_use \"\" done=false", "a"+xml("noop"))},
	{"no token: first of thinking", pondered, false, "\n" + text(xml("noop")) + "a", "tool noop \"{}\"\ntext  \"a\"\ntool_use \"\" done=false"},
	{"no token: a thought shorter than it", pondered, false, "a</think>b", "thinking  \"a\"\ntext  \"b\"\nend_turn \"\" done=false"},
	{"no token: a beginning of it", spelled, true, "\n <tool_c", "text  \" <tool_c\"\nmax_tokens \"\" done=false"},
	{"no token: another tag", spelled, false, "<tool_box> " + text(xml("noop")), fmt.Sprintf("text  %q\nend_turn \"\" done=false", "<tool_box> "+xml("noop"))},
	{"no token: a stop within", Options{Tools: testTools, Stops: []string{"ol_c"}}, false, "<tool_call>", "text  \"<to\"\nstop_sequence \"ol_c\" done=true"},
	{"no token: a stop that ends with it", Options{Tools: testTools, Stops: []string{"call>", "noop"}}, false, text(xml("noop")), "tool noop \"{}\"\ntool_use \"\" done=false"},
	{"no token: a stop in a beginning of it", Options{Tools: testTools, Stops: []string{"ol_c"}}, false, "<tool_c", "text  \"<to\"\nstop_sequence \"ol_c\" done=true"},
	{"no token: begun", Options{Begun: true, Tools: testTools}, false, text(xml("noop")), fmt.Sprintf("text  %q\nend_turn \"\" done=false", xml("noop"))},
	{"no token: begun, and held", Options{Begun: true, Tools: testTools, Constrained: true}, false, text(xml("noop")), "tool noop \"{}\"\ntool_use \"\" done=false"},
	{"begun, then a call", begun, false, "\n" + xml("noop") + "\n\n b", "tool noop \"{}\"\ntext  \" b\"\ntool_use \"\" done=false"},
}

func TestSamples(t *testing.T) {
	if len(samples) == 0 {
		t.Fatal("no samples")
	}
	for _, s := range samples {
		s.want = strings.ReplaceAll(s.want, "§", callOpen)
		if got := parse(t, s.options, s.truncated, s.in); got != s.want {
			t.Errorf("%s:\n got %s\nwant %s", s.name, got, s.want)
		}
	}
}

// TestSplits cuts every sample at every place, into single characters and at
// random, and wants the same blocks each time.
func TestSplits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range samples {
		s.want = strings.ReplaceAll(s.want, "§", callOpen)
		var ends []int // where a character ends
		for i := range s.in {
			ends = append(ends, i)
		}
		for _, i := range ends {
			if got := parse(t, s.options, s.truncated, s.in[:i], s.in[i:]); got != s.want {
				t.Fatalf("%s cut at %d:\n got %s\nwant %s", s.name, i, got, s.want)
			}
		}
		if got := parse(t, s.options, s.truncated, strings.Split(s.in, "")...); got != s.want {
			t.Fatalf("%s by character:\n got %s\nwant %s", s.name, got, s.want)
		}
		for range 20 {
			if got := parse(t, s.options, s.truncated, randomCut(rng, s.in)...); got != s.want {
				t.Fatalf("%s at random:\n got %s\nwant %s", s.name, got, s.want)
			}
		}
	}
}

func randomCut(rng *rand.Rand, s string) []string {
	var pieces []string
	for s != "" {
		n := cutAt(s, 1+rng.IntN(12))
		if n == 0 {
			_, n = utf8.DecodeRuneInString(s)
		}
		pieces, s = append(pieces, s[:n]), s[n:]
	}
	return pieces
}

// TestHeldMax: a call of heldMax bytes is one, however much follows, a longer one comes out as text, and what follows is read on.
func TestHeldMax(t *testing.T) {
	const head, tail = `§{"name":"search","arguments":{"q":"`, `"}}</tool_call>`
	most := heldMax - len(written(head)+tail)
	value, noop := strings.Repeat("é", most/2)+strings.Repeat("x", most%2), block{kind: abi.BlockToolUse, name: "noop", text: "{}"}
	endless := head + value + strings.Repeat("x", 100)
	for _, c := range []struct {
		in    string
		pause int // where the first of two pieces ends
		want  block
	}{
		{head + value + tail, heldMax - 12, block{kind: abi.BlockToolUse, name: "search", text: `{"q":"` + value + `"}`}},
		{head + value + "x" + tail, 0, block{kind: abi.BlockText, text: written(head + value + "x" + tail)}},
		{endless, heldMax - 12, block{kind: abi.BlockText, text: written(endless)}},
	} {
		p := New(Options{Tools: testTools, Marked: true, NewID: func() string { return "id" }})
		rest := strings.Repeat("x", heldMax)
		events := feed(p, nil, c.in[:c.pause])
		events = p.Finish(feed(p, events, c.in[c.pause:]+xml("noop")+rest), false)
		if got := collect(t, events); !slices.Equal(got, []block{c.want, noop, {kind: abi.BlockText, text: rest}}) {
			t.Errorf("%d bytes, paused at %d: %d blocks, the first of %d bytes", len(c.in), c.pause, len(got), len(got[0].text))
		}
	}
}

// TestBlanksAreLookedAtOnce overwrites whitespace that is held and has been looked at: who
// looks at it again, as for every token of a long run of it, takes it for text or a marker.
func TestBlanksAreLookedAtOnce(t *testing.T) {
	const markers = callOpen + "STOP" + "</think>"
	cases := []struct {
		name    string
		options Options
		before  string
		want    string
	}{
		{"start", plainText, "", "text  \"        end\"\n"},
		{"start of thinking", thinking, "", "thinking  \"end\"\n"},
		{"answer", stops("STOP"), "</think>", "text  \"        end\"\n"},
		{"begun", Options{Begun: true, Stops: []string{"STOP"}}, "", "text  \"        end\"\n"},
		{"in an answer", stops("STOP"), "</think>a", "text  \"a        end\"\n"},
		{"in thinking", thinking, "a", "thinking  \"a        end\"\n"},
		{"call", withTools, "§", "text  \"<tool_call>        end\"\n"},
	}
	for _, c := range cases {
		p := New(c.options)
		events := feed(p, nil, c.before)
		var seen []byte
		for range 8 {
			events = p.Feed(events, strings.Repeat(" ", 1000))
			if p.state == stateCall {
				seen = p.buf[len(callOpen):p.call.inside]
			} else {
				seen = p.buf[:max(0, p.blank-len(callOpen))] // a marker may begin in the rest
			}
			copy(seen, strings.Repeat(markers, len(seen)))
		}
		if len(seen) < 7000 {
			t.Errorf("%s: %d bytes are known to be blank", c.name, len(seen))
		}
		copy(seen, strings.Repeat(" ", len(seen)))
		events = p.Finish(p.Feed(events, "end"), false)
		got := ""
		for _, b := range collect(t, events) {
			b.text = strings.ReplaceAll(b.text, strings.Repeat(" ", 1000), " ")
			got += fmt.Sprintln(b)
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestLongArguments wants arguments cut into deltas that are whole characters.
func TestLongArguments(t *testing.T) {
	value := strings.Repeat("aé☃", 5000)
	p := New(Options{Tools: testTools, Marked: true, NewID: func() string { return "toolu_1" }})
	events := p.Finish(feed(p, nil, xml("search", "q", value)), false)
	blocks := collect(t, events)
	if len(events) < 5 || len(blocks) != 1 || blocks[0].text != `{"q":"`+value+`"}` {
		t.Fatalf("%d events, %d blocks", len(events), len(blocks))
	}
}

// TestStreaming wants text out as soon as nothing can be made of it any more.
func TestStreaming(t *testing.T) {
	p := New(stops("STOP"))
	steps := []struct{ in, out string }{
		{"\n", ""}, {"hm ", "hm"}, {"so", " so"}, {"</th", ""}, {"ird", "</third"}, {"</think>", ""},
		{"\n\n", ""}, {"Yes", "Yes"}, {" <tool", " <tool"}, {"_call>", "_call>"}, {"STO", ""}, {"RE", "STORE"},
	}
	for i, s := range steps {
		var got string
		for _, e := range p.Feed(nil, s.in) {
			got += e.Text
		}
		if got != s.out {
			t.Errorf("step %d: %q gave %q, want %q", i, s.in, got, s.out)
		}
		if want := i < 5; p.InThinking() != want {
			t.Errorf("step %d: InThinking is %v", i, !want)
		}
	}
	p = New(plainText) // where no call takes them away, blanks are out at once
	for _, in := range []string{"a", " ", "\n\n", " b"} {
		if events := p.Feed(nil, in); len(events) == 0 || events[len(events)-1].Text != in {
			t.Errorf("%q gave %v", in, events)
		}
	}
}

// TestAtBlock: without a token for it a call may begin where a block does, not behind text, within a call or at the end.
func TestAtBlock(t *testing.T) {
	for _, c := range []struct {
		options       Options
		in            string
		held          string
		starts, calls bool
	}{
		{spelled, "", "", true, false}, {spelled, "<tool", "<tool", true, false}, {spelled, "a", "", false, false},
		{spelled, "<tool_call>{", "<tool_call>{", false, false}, {spelled, text(xml("noop")), "", true, true},
		{Options{Tools: testTools, SingleCall: true}, text(xml("noop")), "", false, true}, {withTools, "", "", false, false},
	} {
		c.options.NewID = func() string { return "id" }
		p := New(c.options)
		feed(p, nil, c.in)
		if held, starts := p.AtBlock(); string(held) != c.held || starts != c.starts || p.Called() != c.calls {
			t.Errorf("behind %q: %q is held, a block starts %v, a call was made %v", c.in, held, starts, p.Called())
		}
	}
}

// TestThoughts feeds tokens and counts those of thinking.
func TestThoughts(t *testing.T) {
	cases := []struct {
		name     string
		thinking bool
		tokens   []string
		want     int
	}{
		{"plain", true, []string{"hm", " so", "</think>", "\n\n", "yes"}, 3},
		{"the tag in pieces", true, []string{"hm", "</th", "ink", ">", "yes"}, 4},
		{"the tag in the middle of a token", true, []string{"hm", "so</think>yes", "no"}, 2},
		{"cut", true, []string{"hm", " so", "</th"}, 3},
		{"blank", true, []string{"\n", " ", "\n"}, 3},
		{"characters in pieces", true, []string{"", "", "é", "</think>", "yes"}, 4},
		{"none", false, []string{"yes", "</think>", "no"}, 0},
		{"opened by the model", false, []string{"<th", "ink>", "hm", "</think>", "yes"}, 2},
		{"a call ends it", true, []string{"hm", "§", "\n", "<function=search>", "</function>", "</tool_call>", "x"}, 2},
		{"a call cut off", true, []string{"hm", "§", "\n", "<function=search>"}, 2},
		{"no call on offer", true, []string{"hm", "§", "\n", "<function=nothing>", "</function>", "</tool_call>", "x"}, 2},
		{"a mention", true, []string{"hm", "§", "\n", "<func", "tion", " x", "so", "</think>", "yes"}, 8},
		{"two mentions", true, []string{"§", " ", "a", "§", "<", "b", "</think>", "yes"}, 7},
		{"a mention, then a call", true, []string{"§", " ", "a", "§", "{", "}", "</tool_call>"}, 4},
	}
	for _, c := range cases {
		o := Options{Thinking: c.thinking, Tools: testTools, Marked: true, NewID: func() string { return "id" }}
		p := New(o)
		for _, token := range c.tokens {
			p.Count()
			feed(p, nil, token)
		}
		p.Feed(nil, "") // what a decoder still held; no token
		p.Finish(nil, true)
		if got := p.Thoughts(); got != c.want {
			t.Errorf("%s: %d of %d tokens are thinking, want %d", c.name, got, len(c.tokens), c.want)
		}
	}
}

// FuzzParse wants no panic, whole events, the same blocks for any cut, and no
// text lost: what comes out is the input without tags and whitespace.
func FuzzParse(f *testing.F) {
	for _, s := range keySamples {
		f.Add(s.in, "END", true, true, uint64(3))
		f.Add(s.in, "", false, true, uint64(6))
	}
	for _, s := range samples {
		f.Add(s.in, "END", true, true, uint64(7))
		f.Add(s.in, "", false, true, uint64(8))
		f.Add(s.in, "\n", true, false, uint64(9))
		f.Add(s.in, "END", false, true, uint64(10))
		f.Add(s.in, "\n", false, false, uint64(15))
	}
	f.Fuzz(func(t *testing.T, in, stop string, think, tools bool, seed uint64) {
		in = strings.ToValidUTF8(in, "?")
		o := Options{Thinking: think, Stops: []string{strings.ToValidUTF8(stop, "?")}}
		if tools {
			o.Tools = testTools
		}
		o.Begun, o.Marked, o.KeyCalls = seed%5 == 0, seed%2 == 0, seed%3 == 0
		want := parse(t, o, false, in)
		rng := rand.New(rand.NewPCG(seed, 1))
		if got := parse(t, o, false, randomCut(rng, in)...); got != want {
			t.Fatalf("cut:\n got %s\nwhole %s", got, want)
		}
		o.Stops = nil // without calls and stops nothing but thinking tags and whitespace goes
		o.NewID = func() string { return "toolu_1" }
		p := New(o)
		var out strings.Builder
		for _, e := range p.Finish(feed(p, nil, in), false) {
			out.WriteString(e.Text)
		}
		reason, _ := p.Stop()
		if reason != abi.StopToolUse && bare(written(in)) != bare(out.String()) {
			t.Fatalf("in %q\nout %q", in, out.String())
		}
	})
}

// written is a piece of output as text, whoever wrote its markers.
func written(in string) string { return strings.NewReplacer("§", callOpen, "‹", "<").Replace(in) }

// bare drops what the parser may drop, until nothing of it is left: what
// remains does not depend on the order of dropping.
func bare(s string) string {
	drop := strings.NewReplacer("<think>", "", "</think>", "", " ", "", "\n", "", "\r", "", "\t", "")
	for {
		next := drop.Replace(s)
		if next == s {
			return s
		}
		s = next
	}
}

func BenchmarkFeed(b *testing.B) {
	b.ReportAllocs()
	p := New(Options{Tools: testTools, Stops: []string{"\n\nHuman:"}})
	var events []abi.Event
	for b.Loop() {
		events = p.Feed(events[:0], " token")
	}
}
