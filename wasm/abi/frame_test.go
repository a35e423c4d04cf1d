package abi

import (
	"bytes"
	"encoding/json"
	"testing"
)

// every has one event of each kind that has a frame, with all that it carries.
var every = []Event{
	{Kind: EventStart, Usage: Usage{InputUncached: 1, CacheRead: 2, CacheWrite: 3}},
	{Kind: EventBlockStart, Block: BlockThinking},
	{Kind: EventDelta, Block: BlockThinking, Text: "why\n"},
	{Kind: EventBlockStop, Block: BlockThinking},
	{Kind: EventBlockStart, Block: BlockToolUse, Index: 1, ID: "toolu_1\"", Name: "look\\up"},
	{Kind: EventDelta, Block: BlockToolUse, Index: 1, Text: `{"q":"é"}`},
	{Kind: EventBlockStop, Block: BlockToolUse, Index: 1},
	{Kind: EventBlockStart, Block: BlockText, Index: 65535},
	{Kind: EventEnd, Stop: StopStopSequence, StopSequence: "\n\n", Usage: Usage{1, 2, 3, 4, 5}},
	{Kind: EventEnd, Stop: StopEndTurn},
}

func unescape(t *testing.T, b []byte) string {
	t.Helper()
	var s string
	if err := json.Unmarshal([]byte(`"`+string(b)+`"`), &s); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return s
}

func TestFramesRoundTrip(t *testing.T) {
	var b []byte
	for i := range every {
		b = AppendFrame(b, &every[i])
	}
	rest := Frames(b)
	for i, want := range every {
		f, ok := rest.Next()
		if !ok {
			t.Fatalf("frame %d is missing", i)
		}
		got := Event{Kind: f.Kind, Index: int32(f.Index), Usage: f.Usage()}
		switch f.Kind {
		case EventEnd:
			got.Stop, got.StopSequence = f.Stop, unescape(t, f.StopSequence())
		case EventBlockStart, EventBlockStop, EventDelta:
			got.Block = f.Block
			if f.Kind == EventDelta {
				got.Text = unescape(t, f.Payload)
			} else if id, name := f.Tool(); f.Block == BlockToolUse {
				got.ID, got.Name = unescape(t, id), unescape(t, name)
			}
		}
		if got != want {
			t.Errorf("frame %d: %+v, want %+v", i, got, want)
		}
	}
	if f, ok := rest.Next(); ok || len(rest) != 0 {
		t.Errorf("after the last: %+v, %d bytes left", f, len(rest))
	}
}

// TestFrameBytes pins the layout of a frame.
func TestFrameBytes(t *testing.T) {
	cases := []struct {
		e    Event
		want string
	}{
		{Event{Kind: EventDelta, Block: BlockText, Index: 258, Text: "a\"b"}, "\x02\x01\x02\x01\x04\x00\x00\x00a\\\"b"},
		{Event{Kind: EventBlockStart, Block: BlockToolUse, ID: "id", Name: "name"}, "\x01\x02\x00\x00\x08\x00\x00\x00\x02\x00idname"},
		{Event{Kind: EventBlockStart, Block: BlockText, ID: "not shown"}, "\x01\x01\x00\x00\x00\x00\x00\x00"},
		{Event{Kind: EventEnd, Stop: StopMaxTokens, StopSequence: "x"}, "\x04\x02\x00\x00\x29\x00\x00\x00" + string(make([]byte, 40)) + "x"},
	}
	for _, c := range cases {
		if got := AppendFrame(nil, &c.e); string(got) != c.want {
			t.Errorf("%+v: %q, want %q", c.e, got, c.want)
		}
	}
}

func TestMalformedFrames(t *testing.T) {
	for _, b := range []string{"", "\x02", "\x02\x01\x00\x00\x01\x00\x00", "\x02\x01\x00\x00\x01\x00\x00\x00", "\x02\x01\x00\x00\xff\xff\xff\xffx"} {
		rest := Frames(b)
		if f, ok := rest.Next(); ok || string(rest) != b {
			t.Errorf("%q: %+v, and %q is left", b, f, rest)
		}
	}
	short := Frame{Payload: make([]byte, usageBytes-1)}
	if short.Usage() != (Usage{}) || short.StopSequence() != nil {
		t.Errorf("a short usage: %+v, %q", short.Usage(), short.StopSequence())
	}
	for _, payload := range []string{"", "\x01", "\x02\x00x", "\xff\xffx"} {
		if id, name := (Frame{Payload: []byte(payload)}).Tool(); id != nil || name != nil {
			t.Errorf("tool %q: %q, %q", payload, id, name)
		}
	}
}

// TestFrameNeighbors: what a reader appends to a payload must not reach the next frame.
func TestFrameNeighbors(t *testing.T) {
	b := AppendFrame(AppendFrame(nil, &Event{Kind: EventDelta, Text: "one"}), &Event{Kind: EventDelta, Text: "two"})
	before := bytes.Clone(b)
	rest := Frames(b)
	f, _ := rest.Next()
	_ = append(f.Payload, "xxxxxxxx"...)
	if !bytes.Equal(b, before) {
		t.Error("a payload's capacity goes beyond its frame")
	}
}

func TestDecodingTakesNoMemory(t *testing.T) {
	in := EventsInput{Facts: Facts{ID: "r", Model: "m", Stream: true}, State: []byte("state"), Events: Frames(AppendFrame(nil, &every[2]))}
	b := in.Append(nil)
	var bytesRead int
	if n := testing.AllocsPerRun(100, func() {
		in, err := ParseEventsInput(b)
		if err != nil {
			t.Fatal(err)
		}
		for f, ok := in.Events.Next(); ok; f, ok = in.Events.Next() {
			bytesRead += len(f.Payload)
		}
	}); n != 0 || bytesRead == 0 {
		t.Errorf("%v allocations an event group, %d bytes read", n, bytesRead)
	}
}

// TestElapsedFrame: an end that says how long the answer took is two frames, the
// second of which is the one that it is without.
func TestElapsedFrame(t *testing.T) {
	end := Event{Kind: EventEnd, Stop: StopEndTurn, Usage: Usage{Output: 7}}
	plain := AppendFrame(nil, &end)
	end.Elapsed = &Elapsed{Total: 10, Prompt: 4, Generation: 6}
	both := Frames(AppendFrame(nil, &end))
	f, ok := both.Next()
	if !ok || f.Kind != EventElapsed || f.Elapsed() != *end.Elapsed || !bytes.Equal(both, plain) {
		t.Errorf("%+v, then %q, want %q", f, both, plain)
	}
	if f.Usage() != (Usage{}) || (Frame{Kind: EventElapsed, Payload: f.Payload[1:]}).Elapsed() != (Elapsed{}) {
		t.Error("an elapsed frame has a usage, or is read cut short")
	}
}
