package extensions

import (
	"bytes"
	"testing"

	"corenode/wasm/abi"
)

// TestEventsInputIsKept: what a stream's calls have in common is encoded once, and
// every call still gets the facts, the state of the last one, and its own events.
func TestEventsInputIsKept(t *testing.T) {
	var got abi.EventsInput
	states := []string{"a", "a", "b", "longer", "c", "", "", "d"} // what the calls return
	next := 0
	native := func(_ abi.Op, in, dst []byte) []byte {
		var err error
		if got, err = abi.ParseEventsInput(bytes.Clone(in)); err != nil {
			t.Error(err)
		}
		next++
		return append(dst, okFrame(abi.Written{State: []byte(states[next-1]), Bytes: []byte("data")}.Append(nil))...)
	}
	h, _ := openWith(t, Options{}, []shippedModule{{slot: SlotChat, name: "chat", native: native, nativeAs: "builtin:chat"}})
	tr := h.Translate(SlotChat, "a", "", abi.Facts{ID: "id"})
	defer tr.Close()
	tr.kept = []byte("kept")
	facts, state := abi.Facts{ID: "id"}, ""
	for i, want := range states {
		event := abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Text: want}
		kept := ""
		switch i {
		case 0:
			event, kept = abi.Event{Kind: abi.EventStart}, "kept"
		case 3:
			facts = abi.Facts{ID: "id", Model: "model", Stream: true}
			tr.SetFacts(facts)
		case 7:
			event, kept = abi.Event{Kind: abi.EventEnd}, "kept"
		}
		if out, err := tr.Events([]byte("before "), []abi.Event{event}); err != nil || string(out) != "before data" {
			t.Fatalf("call %d: %q, %v", i, out, err)
		}
		if got.Facts != facts || string(got.State) != state || string(got.Kept) != kept ||
			!bytes.Equal(got.Events, abi.AppendFrame(nil, &event)) {
			t.Errorf("call %d got %+v, want state %q and %+v", i, got, state, facts)
		}
		state = want
	}
	if next != len(states) {
		t.Errorf("%d calls", next)
	}
}
