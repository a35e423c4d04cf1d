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
	facts := abi.Facts{ID: "0123", Model: "m"}
	group := func(sequence uint64, flags byte, blocks ...abi.BlockKind) []byte {
		var events []abi.Event
		w := writer{facts: facts, state: state{sequence: sequence, flags: flagBegun | flags, custom: hashes(nil).add([]byte("patch"))}}
		for i, b := range blocks {
			w.prepare(b, i/4)
			events = append(events, abi.Event{Kind: abi.EventDelta, Block: b, Index: int32(i / 4), Text: "to\"ken, and many more of them"[:i%7*4]})
		}
		return abi.EventsInput{Facts: facts, State: w.state.append(nil), Events: framesOf(events)}.Append(nil)
	}
	text := abi.BlockText
	taken := [][]byte{group(99, 0, text), group(0, 0, text, text, text, text), group(9_999, 0, text, text, text),
		group(99_999_998, 0, abi.BlockThinking), group(99, 0, abi.BlockToolUse, abi.BlockToolUse)}
	for _, in := range taken {
		if end := quick(in, make([]byte, 0, 4<<10)); end <= 0 {
			f.Errorf("it leaves %q to the general way", in)
		}
		f.Add(in)
	}
	f.Add(group(99, 0))
	f.Add(group(99_999_999, 0, text, text))
	f.Add(group(99, 0, text, text, text, text, text))
	f.Add(group(99, flagHeld, text))
	f.Add(group(99, flagHeld, text, abi.BlockToolUse))
	for cut := taken[1]; len(cut) > 0; {
		cut = cut[:len(cut)-1]
		f.Add(cut)
	}
	general := sdk.TranslatorHandler(New())
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, before := range []string{"", "before"} {
			dst := append(make([]byte, 0, len(before)+len(in)%64), before...)
			end := quick(in, dst)
			for end == noRoom {
				dst = append(make([]byte, 0, 2*cap(dst)+len(in)), before...)
				end = quick(in, dst)
			}
			if want := general(abi.OpEvents, in, []byte(before)); end > 0 && !bytes.Equal(dst[:end], want) {
				t.Fatalf("%q:\n%q\nwant\n%q", in, dst[:end], want)
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
	events := framesOf(group)
	_, begun := New().Events(nil, nil, abi.EventsInput{State: state{sequence: 100, flags: flagBegun}.append(nil), Events: events})
	in := abi.EventsInput{State: begun, Events: events}.Append(nil)
	handle, dst := Handler(), make([]byte, 0, 16<<10)
	if n := testing.AllocsPerRun(20, func() { dst = handle(abi.OpEvents, in, dst[:0]) }); n != 0 {
		t.Errorf("%v allocations for a group", n)
	}
}

// TestFirstGroupTakesLittleMemory: in a guest an allocation costs as much as several events.
func TestFirstGroupTakesLittleMemory(t *testing.T) {
	group := []abi.Event{{Kind: abi.EventStart}, {Kind: abi.EventBlockStart, Block: abi.BlockText}}
	for range 8 {
		group = append(group, abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Text: " token"})
	}
	in := abi.EventsInput{Facts: abi.Facts{ID: "0198c0ffee1234567890abcdef012345", Model: "core-1.1"}, Events: framesOf(group)}.Append(nil)
	handle, dst := Handler(), make([]byte, 0, 16<<10)
	if n := testing.AllocsPerRun(20, func() { dst = handle(abi.OpEvents, in, dst[:0]) }); n > 6 {
		t.Errorf("%v allocations for a group", n)
	}
}
