package piece

import (
	"testing"

	"corenode/wasm/abi"
)

// plain writes pieces between brackets and nothing else.
type plain struct{}

func (plain) Around([]byte, abi.Facts, abi.BlockKind) (before, after []byte) {
	return []byte("<"), []byte(">")
}

func (plain) Other(dst, own []byte, _ abi.EventsInput, _ abi.Frame) (bytes, next []byte) {
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
		in := abi.EventsInput{Facts: facts, State: c.state, Events: c.events}
		out, ok := quick(in.Append(nil), []byte("before"))
		if ok != c.ok {
			t.Errorf("%s: %v", c.name, ok)
		}
		if !ok {
			continue
		}
		frame, err := abi.ParseOutput(out[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		w, err := abi.ParseWritten(frame.Payload)
		if err != nil || string(w.Bytes) != "<b><c>" || string(w.State) != string(state) {
			t.Errorf("%s: %q and %q, %v", c.name, w.Bytes, w.State, err)
		}
	}
}
