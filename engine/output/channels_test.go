package output

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// speak feeds an answer in channels, marks as tokens and the text between them cut into pieces of n bytes.
func speak(t testing.TB, o Options, text string, n int, truncated bool) (blocks []block, p *Parser) {
	t.Helper()
	calls := 0
	o.Channels, o.NewID = true, func() string { calls++; return fmt.Sprint("id", calls) }
	p = New(o)
	var events []abi.Event
	for text != "" {
		at, mark := len(text), ""
		for _, m := range []string{MarkStart, MarkChannel, MarkConstrain, MarkMessage, MarkEnd} {
			if i := strings.Index(text, m); i >= 0 && i < at {
				at, mark = i, m
			}
		}
		for piece := text[:at]; piece != ""; {
			k := cutAt(piece, n)
			p.Count()
			events = p.Feed(events, piece[:k])
			piece = piece[k:]
		}
		if mark != "" {
			p.Count()
			events = p.Mark(events, mark)
		}
		text = text[at+len(mark):]
	}
	events = p.Finish(events, truncated)
	if more := p.Mark(nil, MarkStart); len(more) > 0 {
		t.Errorf("a mark behind the end gave %v", more)
	}
	return collect(t, events), p
}

// TestChannels: every message becomes the block that its header says, however its text is cut.
func TestChannels(t *testing.T) {
	tools := []Tool{{Name: "get_weather"}, {Name: "a.b"}}
	const thought = "<|channel|>analysis<|message|> I think \n<|end|>"
	for _, c := range []struct {
		text string
		o    Options
		cut  bool
		want []string
		stop abi.StopReason
	}{
		{thought + "<|start|>assistant<|channel|>final<|message|>Hello\n\n there.", Options{}, false,
			[]string{`thinking  "I think"`, `text  "Hello\n\n there."`}, abi.StopEndTurn},
		{thought + `<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}`, Options{Tools: tools}, false,
			[]string{`thinking  "I think"`, `tool get_weather "{\"city\":\"Paris\"}"`}, abi.StopToolUse},
		{`<|start|>assistant to=functions.a.b<|channel|>commentary json<|message|>{}<|end|>`, Options{Tools: tools}, false,
			[]string{`tool a.b "{}"`}, abi.StopToolUse},
		{`<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.a.b<|message|>{"x":[1]}`, Options{Tools: tools}, false,
			[]string{`text  "I look."`, `tool a.b "{\"x\":[1]}"`}, abi.StopToolUse},
		{`<|channel|>commentary to=functions.nobody<|message|>{"x":1}`, Options{Tools: tools}, false, []string{`text  "{\"x\":1}"`}, abi.StopEndTurn},
		{`<|channel|>commentary to=functions.a.b<|message|>{"x":1`, Options{Tools: tools}, false, []string{`text  "{\"x\":1"`}, abi.StopEndTurn},
		{`<|channel|>commentary to=functions.a.b<|message|>{"x":1`, Options{Tools: tools}, true, []string{`text  "{\"x\":1"`}, abi.StopMaxTokens},
		{`<|channel|>commentary to=functions.a.b<|message|>{"x":1}`, Options{Tools: tools}, true, []string{`text  "{\"x\":1}"`}, abi.StopMaxTokens},
		{`<|channel|>final<|message|>one STOP two<|end|><|start|>assistant<|channel|>final<|message|>three`, Options{Stops: []string{"STOP"}}, false, []string{`text  "one "`}, abi.StopStopSequence},
		{`<|channel|>analysis<|message|>STOP`, Options{Stops: []string{"STOP"}}, true, []string{`thinking  "STOP"`}, abi.StopMaxTokens},
		{`{"y":2}`, Options{Tools: tools, Opened: true, Header: "<|channel|>commentary to=functions.a.b "}, false, []string{`tool a.b "{\"y\":2}"`}, abi.StopToolUse},
		{`a.b <|constrain|>json<|message|>{}`, Options{Tools: tools, Header: "<|channel|>commentary to=functions."}, false, []string{`tool a.b "{}"`}, abi.StopToolUse},
		{"The end.", Options{Opened: true, Header: "<|channel|>final"}, false, []string{`text  "The end."`}, abi.StopEndTurn},
		{"  goes on", Options{Begun: true}, false, []string{`text  "  goes on"`}, abi.StopEndTurn},
		{"  goes on STOP", Options{Begun: true, Stops: []string{"STOP"}}, false, []string{`text  "  goes on "`}, abi.StopStopSequence},
		{"I forgot.<|start|>assistant<|channel|>final<|message|>Yes.", Options{}, false, []string{`text  "I forgot."`, `text  "Yes."`}, abi.StopEndTurn},
		{"<|channel|>analysis<|message|>Hm<|channel|>final<|message|>Yes.", Options{}, false, []string{`thinking  "Hm"`, `text  "Yes."`}, abi.StopEndTurn},
		{`<|channel|>final<|message|><tool_call>{"name":"a.b"}</tool_call>`, Options{Tools: tools}, false,
			[]string{`text  "<tool_call>{\"name\":\"a.b\"}</tool_call>"`}, abi.StopEndTurn},
		{"<|start|>assistant<|message|>No channel.", Options{}, false, []string{`text  "No channel."`}, abi.StopEndTurn},
		{"<|start|>assist", Options{}, true, nil, abi.StopMaxTokens},
		{"<|channel|>final<|message|>It ST<|end|>", Options{Stops: []string{"STOP"}}, false, []string{`text  "It ST"`}, abi.StopEndTurn},
		{"<|channel|>final<|message|>Hello.\n<|end|>", Options{Tools: tools}, false, []string{`text  "Hello.\n"`}, abi.StopEndTurn},
		{`<|channel|>commentary to=functions.a.b<|message|>[1]`, Options{Tools: tools}, false, []string{`text  "[1]"`}, abi.StopEndTurn},
		{"I forgot.<|end|>Yes.", Options{}, false, []string{`text  "I forgot."`, `text  "Yes."`}, abi.StopEndTurn},
		{"<|channel|>analysis to=functions.nobody<|message|>x", Options{Tools: tools}, false, []string{`text  "x"`}, abi.StopEndTurn},
		{"I forgot.", Options{}, false, []string{`text  "I forgot."`}, abi.StopEndTurn},
		{"<|channel|>fin", Options{}, true, nil, abi.StopMaxTokens},
	} {
		for _, n := range []int{1, 3, 1000} {
			blocks, p := speak(t, c.o, c.text, n, c.cut)
			var got []string
			for _, b := range blocks {
				got = append(got, b.String())
			}
			if reason, _ := p.Stop(); !slices.Equal(got, c.want) || reason != c.stop {
				t.Errorf("%q in pieces of %d: %q, stop %v; want %q, %v", c.text, n, got, reason, c.want, c.stop)
			}
		}
	}
}

// TestMessage: the header says where the text behind it belongs.
func TestMessage(t *testing.T) {
	for header, want := range map[string]struct {
		tool string
		text bool
	}{
		"<|channel|>final": {"", true}, "<|channel|>analysis": {"", false}, "<|channel|>commentary to=functions.f": {"f", false},
		"<|channel|>commentary to=functions.g": {"", true},
	} {
		p := New(Options{Channels: true, Opened: true, Header: header, Tools: []Tool{{Name: "f"}}})
		if tool, text := p.Message(); tool != want.tool || text != want.text {
			t.Errorf("%s: to %q, text %v", header, tool, text)
		}
	}
	p := New(Options{Channels: true, Header: "<|channel|>final"})
	if tool, text := p.Message(); tool != "" || text {
		t.Errorf("within a header: to %q, text %v", tool, text)
	}
}

// TestChannelThoughts: the tokens of an analysis are thinking, those of headers and answers are not.
func TestChannelThoughts(t *testing.T) {
	_, p := speak(t, Options{}, "<|channel|>analysis<|message|>abcd<|end|><|start|>assistant<|channel|>final<|message|>ef", 1, false)
	if p.Thoughts() != 5 {
		t.Errorf("%d tokens of thinking, want four and the one that ends them", p.Thoughts())
	}
}

// TestChannelBounds: a header and a call that go on for too long come out as text, all of it once.
func TestChannelBounds(t *testing.T) {
	const to = `<|channel|>commentary to=functions.f<|message|>`
	call := `{"a":"` + strings.Repeat("x", heldMax) + `"}`
	long := strings.Repeat("x", heldMax+1024) // whole pieces
	for text, want := range map[string]string{
		strings.Repeat("h", headerMax+1) + "STOP":        strings.Repeat("h", headerMax+1),
		to + call[:heldMax] + call[9:2000] + "STOP":      call[:heldMax] + call[9:2000],
		to + call + "<|end|><|channel|>final<|message|>": call,
		strings.Repeat("h", headerMax) + "<|message|>a":  "a",
		to + long + "\n\n a":                             long + "\n\n a",
		to + long + "STOP":                               long,
	} {
		blocks, _ := speak(t, Options{Tools: []Tool{{Name: "f"}}, Stops: []string{"STOP"}}, text, 1024, false)
		if len(blocks) != 1 || blocks[0].kind != abi.BlockText || blocks[0].text != want {
			t.Errorf("%d blocks of %.20q", len(blocks), text)
		}
	}
}
