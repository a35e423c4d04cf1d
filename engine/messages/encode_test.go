package messages

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"hash"
	"maps"
	"os"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

func testMAC() hash.Hash { return hmac.New(sha256.New, []byte("secret")) }

var update = flag.Bool("update", false, "rewrite golden files; read the diff before you commit it")

// answer is a whole answer: thinking, text and two calls, the second one without arguments.
func answer() []abi.Event {
	u := abi.Usage{InputUncached: 10, CacheRead: 4}
	end := u
	end.Output, end.Reasoning = 7, 3
	return []abi.Event{
		{Kind: abi.EventStart, Usage: u},
		{Kind: abi.EventBlockStart, Block: abi.BlockThinking},
		{Kind: abi.EventDelta, Block: abi.BlockThinking, Text: "so \""},
		{Kind: abi.EventDelta, Block: abi.BlockThinking, Text: "far\n"},
		{Kind: abi.EventBlockStop, Block: abi.BlockThinking, Signature: ".theirs"},
		{Kind: abi.EventBlockStart, Block: abi.BlockText, Index: 1},
		{Kind: abi.EventDelta, Block: abi.BlockText, Index: 1, Text: "hé \u2028<b>"},
		{Kind: abi.EventBlockStop, Block: abi.BlockText, Index: 1},
		{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, Index: 2, ID: "toolu_1", Name: "f"},
		{Kind: abi.EventDelta, Block: abi.BlockToolUse, Index: 2, Text: `{"a":`},
		{Kind: abi.EventDelta, Block: abi.BlockToolUse, Index: 2, Text: `1}`},
		{Kind: abi.EventBlockStop, Block: abi.BlockToolUse, Index: 2},
		{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, Index: 3, ID: "toolu_2", Name: "g"},
		{Kind: abi.EventBlockStop, Block: abi.BlockToolUse, Index: 3},
		{Kind: abi.EventEnd, Stop: abi.StopToolUse, Usage: end},
	}
}

// frames takes an SSE stream apart and checks each frame's form.
func frames(t *testing.T, stream string) (out []map[string]any) {
	t.Helper()
	for frame := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		event, data, ok := strings.Cut(frame, "\n")
		if !ok || !strings.HasPrefix(event, "event: ") || !strings.HasPrefix(data, "data: ") {
			t.Fatalf("frame %q", frame)
		}
		var obj map[string]any
		if err := json.Unmarshal([]byte(data[6:]), &obj); err != nil {
			t.Fatalf("frame %q: %v", frame, err)
		}
		if obj["type"] != event[7:] {
			t.Fatalf("event %q carries type %v", event, obj["type"])
		}
		out = append(out, obj)
	}
	return out
}

// TestStreamEqualsMessage rebuilds the message from the stream as SDKs do; it
// must be the one that AppendMessage writes.
func TestStreamEqualsMessage(t *testing.T) {
	e := NewEncoder("msg_1", "m", testMAC)
	var stream []byte
	for _, ev := range answer() {
		stream = e.AppendEvents(stream, []abi.Event{ev})
	}
	var built map[string]any
	var blocks []map[string]any
	partial := map[int]string{}
	for _, f := range frames(t, string(stream)) {
		switch f["type"] {
		case "message_start":
			built = f["message"].(map[string]any)
		case "content_block_start":
			blocks = append(blocks, f["content_block"].(map[string]any))
		case "content_block_delta":
			i := int(f["index"].(float64))
			b, d := blocks[i], f["delta"].(map[string]any)
			switch d["type"] {
			case "thinking_delta":
				b["thinking"] = b["thinking"].(string) + d["thinking"].(string)
			case "signature_delta":
				b["signature"] = d["signature"]
			case "text_delta":
				b["text"] = b["text"].(string) + d["text"].(string)
			case "input_json_delta":
				partial[i] += d["partial_json"].(string)
			}
		case "message_delta":
			maps.Copy(built, f["delta"].(map[string]any))
			built["usage"] = f["usage"]
		}
	}
	for i, text := range partial {
		var input any
		if err := json.Unmarshal([]byte(text), &input); err != nil {
			t.Fatal(err)
		}
		blocks[i]["input"] = input
	}
	built["content"] = blocks

	whole := NewEncoder("msg_1", "m", testMAC).AppendMessage(nil, answer())
	var want any
	if err := json.Unmarshal(whole, &want); err != nil {
		t.Fatalf("%s: %v", whole, err)
	}
	a, _ := json.Marshal(built)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("stream gives\n%s\nmessage is\n%s", a, b)
	}
	mac := testMAC()
	mac.Write([]byte("so \"far\n"))
	if got, want := blocks[0]["signature"], base64.StdEncoding.EncodeToString(mac.Sum(nil))+".theirs"; got != want {
		t.Errorf("signature %v, want %v", got, want)
	}
}

// TestStreamIsGolden: the stream is what its file says, to the byte, with a keep-alive after the first event.
func TestStreamIsGolden(t *testing.T) {
	e := NewEncoder("msg_1", "m", testMAC)
	events := answer()
	got := AppendPing(e.AppendEvents(nil, events[:1]))
	got = e.AppendEvents(got, events[1:])
	const path = "testdata/stream.golden"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != string(got) {
		t.Errorf("the stream differs from %s (err %v); run with -update and read the diff\n%s", path, err, got)
	}
}

func TestMessageShape(t *testing.T) {
	got := string(NewEncoder("msg_1", "m", testMAC).AppendMessage(nil, []abi.Event{
		{Kind: abi.EventStart},
		{Kind: abi.EventBlockStart, Block: abi.BlockText},
		{Kind: abi.EventDelta, Block: abi.BlockText, Text: "x"},
		{Kind: abi.EventBlockStop, Block: abi.BlockText},
		{Kind: abi.EventEnd, Stop: abi.StopStopSequence, StopSequence: "END", Usage: abi.Usage{InputUncached: 1, Output: 2, Reasoning: 1}},
	}))
	want := `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"x"}],` +
		`"stop_reason":"stop_sequence","stop_sequence":"END","usage":{"input_tokens":1,"cache_read_input_tokens":0,"output_tokens":2,` +
		`"output_tokens_details":{"thinking_tokens":1}}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEmptyAnswer(t *testing.T) {
	got := string(NewEncoder("i", "m", testMAC).AppendMessage(nil,
		[]abi.Event{{Kind: abi.EventStart}, {Kind: abi.EventEnd, Stop: abi.StopEndTurn}}))
	if !json.Valid([]byte(got)) || !strings.Contains(got, `"content":[]`) {
		t.Errorf("got %s", got)
	}
}

// TestCallThatIsNoObject: whatever an engine gives as the arguments of a call, the answer is JSON.
func TestCallThatIsNoObject(t *testing.T) {
	for text, want := range map[string]string{
		` {"a":1,"a":"\ud83d"}`: ` {"a":1,"a":"\ud83d"}`, "": "{}", `{"city": "Par`: "{}", `["x"]`: "{}", `{}}`: "{}", ` `: "{}", `null`: "{}",
	} {
		got := string(NewEncoder("i", "m", testMAC).AppendMessage(nil, []abi.Event{
			{Kind: abi.EventStart},
			{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, ID: "toolu_1", Name: "f"},
			{Kind: abi.EventDelta, Block: abi.BlockToolUse, Text: text},
			{Kind: abi.EventBlockStop, Block: abi.BlockToolUse},
			{Kind: abi.EventEnd, Stop: abi.StopMaxTokens},
		}))
		if !json.Valid([]byte(got)) || !strings.Contains(got, `"input":`+want+`}]`) {
			t.Errorf("%q: got %s", text, got)
		}
	}
}
