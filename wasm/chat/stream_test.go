package chat_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

// words are pieces of text with everything in them that JSON escapes.
var words = []string{"a", " token", "\"quoted\"", "\\", "\n\n", "é", "日本", "😀", "\x00", strings.Repeat("long ", 300)}

// story makes a stream of random blocks.
func story(r *rand.Rand) []abi.Event {
	all := []abi.Event{{Kind: abi.EventStart, Usage: abi.Usage{InputUncached: r.Int64N(100)}}}
	for i := range int32(r.IntN(5)) {
		block := abi.BlockKind(r.IntN(3))
		all = append(all, abi.Event{Kind: abi.EventBlockStart, Block: block, Index: i, ID: "toolu_" + words[r.IntN(8)], Name: "f"})
		for range r.IntN(6) {
			all = append(all, abi.Event{Kind: abi.EventDelta, Block: block, Index: i, Text: words[r.IntN(len(words))]})
		}
		all = append(all, abi.Event{Kind: abi.EventBlockStop, Block: block, Index: i})
	}
	return append(all, abi.Event{Kind: abi.EventEnd, Stop: abi.StopReason(r.IntN(5)),
		Usage: abi.Usage{InputUncached: 1, Output: r.Int64N(1 << 40)}})
}

// streamed runs events through h in groups of the given sizes, the rest alone.
func streamed(t *testing.T, h sdk.Handler, f abi.Facts, kept []byte, events []abi.Event, sizes []int) []byte {
	t.Helper()
	var out, state []byte
	for len(events) > 0 {
		n := 1
		if len(sizes) > 0 {
			n, sizes = min(sizes[0], len(events)), sizes[1:]
		}
		in := abi.EventsInput{Facts: f, State: state}
		for i := range events[:n] {
			in.Events = abi.AppendFrame(in.Events, &events[i])
			if k := events[i].Kind; k == abi.EventStart || k == abi.EventEnd {
				in.Kept = kept
			}
		}
		events = events[n:]
		frame, err := abi.ParseOutput(h(abi.OpEvents, in.Append(nil), nil))
		if err != nil || frame.Status != abi.StatusOK {
			t.Fatalf("output %+v, %v", frame, err)
		}
		w, err := abi.ParseWritten(frame.Payload)
		if err != nil {
			t.Fatal(err)
		}
		out, state = append(out, w.Bytes...), bytes.Clone(w.State)
	}
	return out
}

// TestRandomGroups cuts random streams in random places: the bytes do not
// show it, and the short way of Handler writes what the general one does.
func TestRandomGroups(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		events := story(r)
		f := abi.Facts{ID: "id", Created: r.Int64N(1 << 33), Model: words[r.IntN(len(words))], Stream: true}
		kept := []byte{byte(r.IntN(2))}
		want := streamed(t, general, f, kept, events, []int{len(events)})
		for range 8 {
			sizes := make([]int, len(events))
			for i := range sizes {
				sizes[i] = 1 + r.IntN(5)
			}
			for name, h := range map[string]sdk.Handler{"general": general, "handler": handler} {
				if got := streamed(t, h, f, kept, events, sizes); !bytes.Equal(got, want) {
					t.Fatalf("seed %d, groups of %v by %s:\n%s\nwant\n%s", seed, sizes, name, got, want)
				}
			}
		}
	}
}

// TestSteadyStreamTakesNoMemory is the promise of the event path.
func TestSteadyStreamTakesNoMemory(t *testing.T) {
	in := deltas(8)
	dst := make([]byte, 0, 16<<10)
	for name, h := range map[string]sdk.Handler{"general": general, "handler": handler} {
		if n := testing.AllocsPerRun(20, func() { dst = h(abi.OpEvents, in, dst[:0]) }); n != 0 {
			t.Errorf("%s: %v allocations for a group", name, n)
		}
	}
}
