package generatecontent

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/engine/messages"
	"corenode/extensions/vector"
	"corenode/extensions/vector/vectortest"
	"corenode/wasm/abi"
)

// bodies are the requests of the golden vectors.
func bodies(f *testing.F) (all [][]byte) {
	for _, name := range []string{"vectors/requests.json", "vectors/refusals.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		var vectors []struct{ Body json.RawMessage }
		if err := json.Unmarshal(text, &vectors); err != nil {
			f.Fatal(err)
		}
		for _, v := range vectors {
			all = append(all, v.Body)
		}
	}
	return all
}

// FuzzRequest gives bodies that nobody wrote by every route: no panic, errors of
// the client's kind only, and what is accepted is read by the engine or refused
// for what only that checks.
func FuzzRequest(f *testing.F) {
	for i, body := range bodies(f) {
		f.Add(i%3, "sse", body)
		f.Add(1, "", body)
	}
	f.Fuzz(func(t *testing.T, route int, alt string, body []byte) {
		before := bytes.Clone(body)
		in := abi.RequestInput{Body: body, Route: &abi.Route{Index: route, Params: []abi.Pair{{Name: "model", Value: "m"}},
			Query: []abi.Pair{{Name: "alt", Value: alt}}}}
		out, err := New().Request(in)
		if vectortest.Refused(t, before, body, out, err) {
			return
		}
		if len(out.Kept) == 0 {
			t.Fatalf("%q keeps nothing", body)
		}
		q, refused := messages.ParseCount(out.Body)
		if refused != nil {
			if abi.KindOf(refused) != abi.InvalidRequest || strings.Contains(refused.Error(), "not valid JSON") {
				t.Fatalf("%q became %q: %v", body, out.Body, refused)
			}
			return
		}
		array := bytes.Contains(out.Body, []byte(`"stream_array":true`))
		if q.Model != "m" || len(q.Messages) == 0 || q.Stream != (routeOf(in.Route) == routeStream) || array != (q.Stream && alt != "sse") {
			t.Fatalf("%q became %q", body, out.Body)
		}
	})
}

// FuzzInput gives the module any bytes as the input of every op: what it writes
// is JSON, or whole events of it.
func FuzzInput(f *testing.F) {
	files, err := vector.ReadDir("vectors")
	if err != nil {
		f.Fatal(err)
	}
	add := func(op abi.Op, in []byte) ([]byte, error) {
		f.Add(uint32(op), bytes.Clone(in))
		return native(op, in)
	}
	for _, file := range files {
		for i := range file.Vectors {
			if err := file.Vectors[i].Run(add, true); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Fuzz(func(t *testing.T, op uint32, in []byte) {
		out, _ := native(abi.Op(op), in)
		frame, err := abi.ParseOutput(out)
		if err != nil {
			t.Fatalf("op %d, %q: %v", op, in, err)
		}
		if frame.Status != abi.StatusOK || !utf8.Valid(in) { // the host escapes what it sends
			return
		}
		switch abi.Op(op) {
		case abi.OpEvents:
			if _, err := abi.ParseWritten(frame.Payload); err != nil {
				t.Fatalf("%q: %v, wrote %q", in, err, frame.Payload)
			}
		case abi.OpError, abi.OpModels, abi.OpCount:
			if !json.Valid(frame.Payload) {
				t.Fatalf("%q: %q", in, frame.Payload)
			}
		}
	})
}

// FuzzAnswer writes any texts as an answer, cut anywhere, as a stream and as a
// whole. Both are JSON and say the same.
func FuzzAnswer(f *testing.F) {
	f.Add("Hm.", "Yes \"x\"\n", `{"city":"Paris"}`, uint8(2), true)
	f.Add("", "", `{"city":`, uint8(0), false)
	f.Add("☃", "\x00\xff", ``, uint8(9), true)
	f.Fuzz(func(t *testing.T, thinking, text, arguments string, cut uint8, thoughts bool) {
		k := []byte{0}
		if thoughts {
			k[0] = byte(keptThoughts)
		}
		valid := func(s string) string { return strings.ToValidUTF8(s, "?") }
		var all []abi.Event
		block := func(b abi.BlockKind, text string) {
			i := int32(len(all))
			all = append(all, abi.Event{Kind: abi.EventBlockStart, Block: b, Index: i, ID: "toolu_1", Name: "f"},
				abi.Event{Kind: abi.EventDelta, Block: b, Index: i, Text: valid(text)},
				abi.Event{Kind: abi.EventBlockStop, Block: b, Index: i})
		}
		all = append(all, abi.Event{Kind: abi.EventStart})
		block(abi.BlockThinking, thinking)
		block(abi.BlockText, text)
		block(abi.BlockToolUse, arguments)
		all = append(all, abi.Event{Kind: abi.EventEnd, Stop: abi.StopToolUse, Usage: abi.Usage{InputUncached: 3, Output: 9, Reasoning: 2}})
		var frames, state, stream []byte
		at := min(int(cut), len(all))
		for _, group := range [][]abi.Event{all[:at], all[at:]} {
			var events []byte
			for i := range group {
				events = abi.AppendFrame(events, &group[i])
			}
			frames = append(frames, events...)
			stream, state = New().Events(stream, nil, abi.EventsInput{State: state, Kept: k, History: frames, Events: events})
		}
		streamed := []any{}
		for event := range strings.SplitSeq(string(stream), "\n\n") {
			if event == "" {
				continue
			}
			var one response
			if err := json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &one); err != nil {
				t.Fatalf("%v: %q", err, event)
			}
			streamed = append(streamed, one.parts()...)
		}
		var whole response
		body := New().Response(nil, abi.ResponseInput{Kept: k, Events: frames})
		if err := json.Unmarshal(body, &whole); err != nil {
			t.Fatalf("%v: %q", err, body)
		}
		a, _ := json.Marshal(streamed)
		b, _ := json.Marshal(append([]any{}, whole.parts()...))
		if !bytes.Equal(a, b) {
			t.Fatalf("the stream says %s, the whole %s", a, b)
		}
	})
}

// response is what a client reads.
type response struct {
	Candidates []struct {
		Content struct{ Parts []map[string]any }
	}
}

// parts are those that say something.
func (r *response) parts() (all []any) {
	for _, p := range r.Candidates[0].Content.Parts {
		if p["text"] != "" {
			all = append(all, p)
		}
	}
	return all
}
