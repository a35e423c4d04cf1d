package responses

import (
	"bytes"
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

// FuzzQuick gives event groups to the short way: what it accepts, the general
// way answers with the same bytes.
func FuzzQuick(f *testing.F) {
	group := func(flags byte, blocks ...abi.BlockKind) []byte {
		var events []abi.Event
		for i, b := range blocks {
			events = append(events, abi.Event{Kind: abi.EventDelta, Block: b, Index: int32(i / 2), Text: "to\"ken"[:i%7]})
		}
		state := state{sequence: 99, flags: flagBegun | flags, custom: hashes(nil).add([]byte("patch"))}.append(nil)
		return abi.EventsInput{Facts: abi.Facts{ID: "0123", Model: "m"}, State: state, Events: framesOf(events)}.Append(nil)
	}
	taken := [][]byte{group(0), group(0, abi.BlockText), group(0, abi.BlockThinking, abi.BlockText, abi.BlockText, abi.BlockText),
		group(0, abi.BlockToolUse, abi.BlockToolUse)}
	for _, in := range taken {
		if _, ok := quick(in, nil); !ok {
			f.Errorf("it leaves %q to the general way", in)
		}
		f.Add(in)
	}
	f.Add(group(flagHeld, abi.BlockText))
	f.Add(group(flagHeld, abi.BlockText, abi.BlockToolUse))
	for cut := taken[1]; len(cut) > 0; {
		cut = cut[:len(cut)-1]
		f.Add(cut)
	}
	general := sdk.TranslatorHandler(New())
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, dst := range [][]byte{nil, []byte("before")} {
			got, ok := quick(in, dst)
			if !ok && !bytes.Equal(got, dst) {
				t.Fatalf("%q: it left %q", in, got)
			}
			if want := general(abi.OpEvents, in, dst[:len(dst):len(dst)]); ok && !bytes.Equal(got, want) {
				t.Fatalf("%q:\n%q\nwant\n%q", in, got, want)
			}
		}
	})
}

// TestEarly: a group is marked as early until there is an item: then the answer has begun for a client.
func TestEarly(t *testing.T) {
	var state []byte
	text := abi.BlockText
	events := []abi.Event{{Kind: abi.EventStart}, {Kind: abi.EventBlockStart, Block: text}, {Kind: abi.EventDelta, Block: text, Text: "x"}}
	for i, e := range events {
		in := abi.EventsInput{State: state, Events: framesOf([]abi.Event{e})}
		frame, err := abi.ParseOutput(Handler()(abi.OpEvents, in.Append(nil), []byte("before"))[len("before"):])
		if err != nil || frame.Early() != (i == 0) {
			t.Fatalf("group %d: early %t, %v", i, frame.Early(), err)
		}
		w, _ := abi.ParseWritten(frame.Payload)
		state = w.State
	}
	in := abi.ErrorInput{Msg: "x"}
	if frame, err := abi.ParseOutput(Handler()(abi.OpError, in.Append(nil), nil)); err != nil || frame.Early() {
		t.Errorf("an error is early: %t, %v", frame.Early(), err)
	}
}

// TestSteadyStreamTakesNoMemory is the promise of the event path.
func TestSteadyStreamTakesNoMemory(t *testing.T) {
	group := make([]abi.Event, 8)
	for i := range group {
		group[i] = abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Index: 1, Text: " token"}
	}
	in := abi.EventsInput{State: state{sequence: 100, flags: flagBegun}.append(nil), Events: framesOf(group)}.Append(nil)
	handle, dst := Handler(), make([]byte, 0, 16<<10)
	if n := testing.AllocsPerRun(20, func() { dst = handle(abi.OpEvents, in, dst[:0]) }); n != 0 {
		t.Errorf("%v allocations for a group", n)
	}
}
