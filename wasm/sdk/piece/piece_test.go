package piece

import (
	"bytes"
	"testing"

	"corenode/wasm/abi"
)

// plain writes pieces between brackets and nothing else.
type plain struct{}

func (plain) Around([]byte, *abi.Facts, abi.BlockKind) (before, after []byte) {
	return []byte("<"), []byte(">")
}

func (plain) Other(dst, own []byte, _ *abi.EventsInput, _ abi.Frame) (bytes, next []byte) {
	return dst, own
}

// TestShortWay: after the first piece, groups of nothing but pieces take the short
// way, and a group with anything else does not.
func TestShortWay(t *testing.T) {
	piece := func(text string) abi.Frames {
		return abi.AppendFrame(nil, &abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Text: text})
	}
	facts := abi.Facts{ID: "id", Model: "m"}
	_, state := Events(plain{}, nil, nil, abi.EventsInput{Facts: facts, Events: piece("a")})
	stop := abi.AppendFrame(nil, &abi.Event{Kind: abi.EventBlockStop, Block: abi.BlockText})
	for _, c := range []struct {
		name   string
		state  []byte
		events abi.Frames
		ok     bool
	}{
		{"two pieces", state, append(piece("b"), piece("c")...), true},
		{"no state", nil, piece("b"), false},
		{"a stop behind them", state, append(piece("b"), stop...), false},
		{"thinking", state, abi.AppendFrame(nil, &abi.Event{Kind: abi.EventDelta, Block: abi.BlockThinking, Text: "b"}), false},
	} {
		in := abi.EventsInput{Facts: facts, State: c.state, Events: c.events}.Append(nil)
		before := []byte("before")
		end := quick(in, before)
		for room := 0; end == noRoom; room++ {
			before = append(make([]byte, 0, room), "before"...)
			end = quick(in, before)
		}
		if end > 0 != c.ok {
			t.Errorf("%s: %d", c.name, end)
		}
		if end <= 0 {
			continue
		}
		frame, err := abi.ParseOutput(before[len("before"):end])
		if err != nil {
			t.Fatal(err)
		}
		w, err := abi.ParseWritten(frame.Payload)
		if err != nil || string(w.Bytes) != "<b><c>" || string(w.State) != string(state) {
			t.Errorf("%s: %q and %q, %v", c.name, w.Bytes, w.State, err)
		}
	}
}

// wide writes pieces behind more than a state may carry.
type wide struct{ plain }

func (wide) Around([]byte, *abi.Facts, abi.BlockKind) (before, after []byte) {
	return bytes.Repeat([]byte("<"), aroundBytesMax), []byte(">")
}

// TestWideState: what stands around a piece and is too long for a state is made again for each group.
func TestWideState(t *testing.T) {
	var state []byte
	for range 2 {
		in := abi.EventsInput{State: state, Events: abi.AppendFrame(nil, &abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Text: "a"})}
		out, next := Events(wide{}, nil, nil, in)
		if len(out) != aroundBytesMax+2 || len(next) != stateHeader {
			t.Errorf("%d bytes and a state of %d", len(out), len(next))
		}
		state = next
	}
}

// TestCalls: what a call is given is an object whatever the model wrote, on one line; only one that is there to its end is whole.
func TestCalls(t *testing.T) {
	for _, row := range []struct {
		arguments, object string
		whole             bool
	}{
		{"", "{}", true}, {` {"a":1} `, ` {"a":1} `, true}, {"{\"a\":\n1}", `{"a": 1}`, true},
		{`{"a":`, "{}", false}, {`[1]`, "{}", false}, {` `, "{}", false}, {`{} {}`, "{}", false},
	} {
		var events abi.Frames
		for i, text := range []string{`{"other":0}`, row.arguments} {
			events = abi.AppendFrame(events, &abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, Index: int32(i), ID: "id", Name: "f"})
			if text != "" {
				events = abi.AppendFrame(events, &abi.Event{Kind: abi.EventDelta, Block: abi.BlockToolUse, Index: int32(i), Text: text})
			}
		}
		call := FindCall(events, 1)
		if got := string(call.AppendArguments(nil)); got != row.object || call.Whole() != row.whole || string(call.ID) != "id" {
			t.Errorf("%q: %s, whole %t, of %s", row.arguments, got, call.Whole(), call.ID)
		}
	}
}
