package responses

import (
	"encoding/json"
	"testing"

	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// TestRoundTrip sends the output of a response back as input, as agents do with
// every turn: the engine reads the blocks it once produced.
func TestRoundTrip(t *testing.T) {
	want := []messages.Block{
		{Type: messages.Thinking, Text: "I \"think\"\nlong. ☃"},
		{Type: messages.Text, Text: "Two calls:\t\\"},
		{Type: messages.ToolUse, ID: "toolu_1", Name: "f", Input: []byte(`{"a":"\"\\\n","b":[1,2.50]}`)},
		{Type: messages.ToolUse, ID: "toolu_2", Name: "c", Input: []byte(`{"input":"*** \"x\"\n\\"}`)},
		{Type: messages.ToolUse, ID: "toolu_3", Name: "n:g", Input: []byte(`{}`)},
		{Type: messages.ToolUse, ID: "toolu_4", Name: searchTool, Input: []byte(`{"q":"\"\\\n☃"}`)},
	}
	all := []abi.Event{{Kind: abi.EventStart}}
	for i, b := range want {
		e := abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockThinking, Index: int32(i), ID: b.ID, Name: b.Name}
		text := b.Text
		switch b.Type {
		case messages.Text:
			e.Block = abi.BlockText
		case messages.ToolUse:
			e.Block, text = abi.BlockToolUse, string(b.Input)
		}
		all = append(all, e, abi.Event{Kind: abi.EventDelta, Block: e.Block, Index: e.Index, Text: text},
			abi.Event{Kind: abi.EventBlockStop, Block: e.Block, Index: e.Index})
	}
	all = append(all, abi.Event{Kind: abi.EventEnd, Stop: abi.StopToolUse})
	object := New().Response(nil, abi.ResponseInput{Kept: keptOf(t, toolsRequest), Events: framesOf(all)})
	var response struct{ Output json.RawMessage }
	if err := json.Unmarshal(object, &response); err != nil {
		t.Fatal(err)
	}
	body := `{"model":"m","input":[{"role":"user","content":"q"},` + string(response.Output[1:])
	out, refusal := New().Request(abi.RequestInput{Body: []byte(body[:len(body)-1] + `,{"role":"user","content":"r"}]}`)})
	if refusal != nil {
		t.Fatalf("%v\n%s", refusal, body)
	}
	native, err := messages.ParseCount(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(native.Messages) != 3 || native.Messages[1].Role != "assistant" {
		t.Fatalf("the engine reads %+v", native.Messages)
	}
	got := native.Messages[1].Blocks
	if len(got) != len(want) {
		t.Fatalf("the engine reads %+v", got)
	}
	for i := range want {
		a, b := got[i], want[i]
		if a.Type != b.Type || a.Text != b.Text || a.ID != b.ID || a.Name != b.Name || string(a.Input) != string(b.Input) {
			t.Errorf("block %d is %+v, was %+v", i, a, b)
		}
	}
}
