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
	f.Add(taken[1][:len(taken[1])-1])
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
