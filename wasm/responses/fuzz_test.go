package responses

import (
	"encoding/json"
	"os"
	"testing"
	"unicode/utf8"

	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// FuzzRequest: whatever the body, the translation is JSON that the engine reads
// or refuses by name, or a refusal that names what is wrong.
func FuzzRequest(f *testing.F) {
	text, err := os.ReadFile("vectors/requests.json")
	if err != nil {
		f.Fatal(err)
	}
	var all []struct{ Body json.RawMessage }
	if err := json.Unmarshal(text, &all); err != nil {
		f.Fatal(err)
	}
	for _, v := range all {
		var body string
		if json.Unmarshal(v.Body, &body) != nil {
			body = string(v.Body)
		}
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		out, refusal := New().Request(abi.RequestInput{Body: body})
		if refusal != nil {
			if refusal.Kind != abi.InvalidRequest || refusal.Msg == "" {
				t.Errorf("refusal %v", refusal)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("%q is no JSON and was translated", body)
		}
		if !json.Valid(out.Body) || !utf8.Valid(out.Body) {
			t.Fatalf("the translation is no JSON: %q", out.Body)
		}
		if _, err := messages.ParseCount(out.Body); err != nil && abi.KindOf(err) != abi.InvalidRequest {
			t.Fatalf("the engine says %v", err)
		}
		object := New().Response(nil, abi.ResponseInput{Kept: out.Kept,
			Events: framesOf([]abi.Event{{Kind: abi.EventStart}, {Kind: abi.EventEnd}})})
		if !json.Valid(object) || len(out.Kept) > abi.KeptBytesMax {
			t.Fatalf("the echo is no JSON: %q", object)
		}
		for _, c := range object {
			if c == '\n' || c == '\r' {
				t.Fatalf("the echo breaks a line: %q", object)
			}
		}
	})
}

// FuzzEvents: whatever comes as state, history and frames, there is no panic,
// and frames whose texts are as the host makes them give whole JSON.
func FuzzEvents(f *testing.F) {
	kept := keptOf(f, toolsRequest)
	start := framesOf([]abi.Event{{Kind: abi.EventStart}, {Kind: abi.EventBlockStart, Block: abi.BlockToolUse, ID: "i", Name: "c"}})
	f.Add([]byte{}, []byte(kept), []byte(start), []byte(start), "text")
	f.Add(state{sequence: 7, flags: flagBegun | flagHeld}.append(nil), []byte{}, []byte{}, []byte{3, 2, 0, 0, 0, 0, 0, 0}, `{"input":1}`)
	f.Fuzz(func(t *testing.T, before, kept, history, events []byte, text string) {
		tr := New()
		facts := abi.Facts{ID: "id", Model: text}
		_, next := tr.Events(nil, nil, abi.EventsInput{Facts: facts, State: before, Kept: kept, History: history, Events: events})
		tr.Response(nil, abi.ResponseInput{Facts: facts, Kept: kept, Events: events})
		facts.Stream = len(events)%2 == 0
		tr.Error(nil, abi.ErrorInput{Facts: facts, State: next, Kept: kept, History: history, Param: text, Msg: text,
			Kind: abi.Kind(len(kept))})

		ok := keptOf(t, toolsRequest)
		name := []string{"f", "c", "n:g", searchTool}[len(text)%4]
		all := []abi.Event{{Kind: abi.EventStart}, {Kind: abi.EventBlockStart, Block: abi.BlockText},
			{Kind: abi.EventDelta, Block: abi.BlockText, Text: text}, {Kind: abi.EventBlockStop, Block: abi.BlockText},
			{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, Index: 1, ID: text, Name: name},
			{Kind: abi.EventDelta, Block: abi.BlockToolUse, Index: 1, Text: text},
			{Kind: abi.EventBlockStop, Block: abi.BlockToolUse, Index: 1}, {Kind: abi.EventEnd}}
		ends := []int{1 + len(events)%7, len(all)}
		sseEvents(t, string(streamed(t, abi.Facts{ID: "id", Model: text}, ok, all, ends)))
	})
}
