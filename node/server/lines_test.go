package server

import (
	"crypto/sha256"
	"encoding/json"
	"hash"
	"strings"
	"testing"

	"corenode/engine/messages"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// separators end a line for Python's str.splitlines, which is how clients on httpx cut a
// stream into lines. JSON allows them in a string as they are.
const separators = "a\u0085b\u2028c\u2029d"

// pythonLines cuts a text as str.splitlines does. An empty line more at the end is no difference here.
func pythonLines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", r)
	})
}

// checkLines fails where a line of a stream is none of its protocol, or its JSON is broken, and
// where what the separators stood in did not come whole.
func checkLines(t *testing.T, protocol, stream string, wants int) {
	t.Helper()
	lines := pythonLines(stream)
	found := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "event: ") || line == "data: [DONE]" {
			continue
		}
		data := strings.TrimPrefix(line, "data: ")
		var any any
		if err := json.Unmarshal([]byte(data), &any); err != nil {
			t.Errorf("%s: %v in the line %q", protocol, err, line)
			continue
		}
		again, err := json.Marshal(any)
		if err != nil {
			t.Fatal(err)
		}
		// A call's arguments may be JSON within a string of JSON.
		text := strings.NewReplacer(`\\u`, `\u`, "\u0085", `\u0085`).Replace(string(again))
		found += strings.Count(text, `a\u0085b\u2028c\u2029d`)
	}
	if found < wants {
		t.Errorf("%s: %d texts of %d are whole: %q", protocol, found, wants, lines)
	}
}

// separated is an answer with separators in its thinking, its text and its calls.
func separated() []abi.Event {
	block := func(index int32, kind abi.BlockKind, id, name, text string) []abi.Event {
		return []abi.Event{
			{Kind: abi.EventBlockStart, Block: kind, Index: index, ID: id, Name: name},
			{Kind: abi.EventDelta, Block: kind, Index: index, Text: text},
			{Kind: abi.EventBlockStop, Block: kind, Index: index},
		}
	}
	all := []abi.Event{{Kind: abi.EventStart}}
	all = append(all, block(0, abi.BlockThinking, "", "", "think "+separators)...)
	all = append(all, block(1, abi.BlockText, "", "", "text "+separators)...)
	all = append(all, block(2, abi.BlockToolUse, "call_"+separators, "look", `{"key `+separators+`":"value `+separators+`"}`)...)
	all = append(all, block(3, abi.BlockToolUse, "call_2", "free", `{"input":"free `+separators+`"}`)...)
	return append(all, abi.Event{Kind: abi.EventEnd, Stop: abi.StopStopSequence, StopSequence: "stop " + separators})
}

// lineAsks are a streamed request of each protocol, in which X stands for separators, and how often
// its answer has them whole at least.
var lineAsks = map[string]struct {
	route abi.Route
	body  string
	wants int
}{
	"chat": {body: `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, wants: 5},
	"responses": {wants: 20, body: `{"model":"m","stream":true,"input":"hi","instructions":"X","metadata":{"X":"X"},
		"tools":[{"type":"function","name":"look","description":"X","parameters":{"type":"object","properties":{"X":{}}}},
			{"type":"custom","name":"free","description":"X"}],
		"text":{"format":{"type":"json_schema","name":"n","description":"X","schema":{"type":"object","description":"X"}}}}`},
	"completions": {body: `{"model":"m","stream":true,"prompt":"X","echo":true}`, wants: 2},
	"ollama":      {body: `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, wants: 5},
	"generate-content": {wants: 5, body: `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],
		"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}`,
		route: abi.Route{Index: 1, Params: []abi.Pair{{Name: "model", Value: "m"}}, Query: []abi.Pair{{Name: "alt", Value: "sse"}}}},
}

// TestLinesOfStreams: whatever a model, a client or an operator wrote, a stream has its own lines
// alone, also for a client that takes more characters for the end of one.
func TestLinesOfStreams(t *testing.T) {
	for _, m := range builtin.Modules() {
		if m.Kind != "translator" {
			continue
		}
		ask := lineAsks[m.Protocol]
		stream := &builtinTranslation{m: m, facts: abi.Facts{ID: "a", Created: 1, Stream: true, Model: "model " + separators}}
		out := stream.call(abi.OpRequest, abi.RequestInput{Facts: stream.facts, Route: &ask.route,
			Body: []byte(strings.ReplaceAll(ask.body, "X", separators))}.Append(nil))
		translated, err := abi.ParseTranslated(out.Payload)
		if err != nil || out.Status != abi.StatusOK {
			t.Fatalf("%s: status %d, %v, %q", m.Protocol, out.Status, err, out.Payload)
		}
		stream.kept = translated.Kept
		var text []byte
		for _, e := range separated() {
			if text, err = stream.Events(text, []abi.Event{e}); err != nil {
				t.Fatalf("%s: %v", m.Protocol, err)
			}
		}
		checkLines(t, m.Protocol, string(text), ask.wants)
		broken := abi.Error{Kind: abi.Overloaded, Param: "messages." + separators, Msg: "no " + separators}
		checkLines(t, m.Protocol+" broken", string(stream.Error(nil, &broken, 529)), 1)
	}
	e := messages.NewEncoder("id", "model "+separators, func() hash.Hash { return sha256.New() })
	text := e.AppendEvents(nil, separated())
	checkLines(t, "messages", string(text), 7)
	broken := abi.Error{Kind: abi.Overloaded, Msg: "no " + separators}
	checkLines(t, "messages broken", string(familyMessages.appendBroken(nil, &broken)), 1)
}
