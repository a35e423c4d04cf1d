package engine

import (
	"testing"

	"corenode/wasm/abi"
)

// TestClosedQueue: the memory of a closed queue has nothing of its answer, and what is pushed behind its end is in no other queue.
func TestClosedQueue(t *testing.T) {
	push := func(o *Output, text string) { o.Push(abi.Event{Kind: abi.EventDelta, Text: text}) }
	ended := NewOutput(8)
	push(ended, "read")
	read := ended.Drain(nil)
	push(ended, "unread")
	unread := ended.events
	ended.Close(read)
	for _, b := range [][]abi.Event{read, unread} {
		if e := b[:1][0]; e.Text != "" || e.Kind != 0 {
			t.Errorf("a buffer that was given away has %+v", e)
		}
	}
	push(ended, "late")
	ended.Close(nil)
	for range 4 {
		o := NewOutput(8)
		push(ended, "after the end")
		push(o, "own")
		if got := o.Drain(nil); len(got) != 1 || got[0].Text != "own" {
			t.Fatalf("another queue has %+v", got)
		}
	}
	if got := ended.Drain(nil); len(got) != 4 {
		t.Errorf("what was pushed behind the end: %+v", got)
	}
}

// TestLongQueuesAreNotKept: a stream passes no queue on that a long answer needed and it did not.
func TestLongQueuesAreNotKept(t *testing.T) {
	for range 8 {
		stream, long := NewOutput(8), make([]abi.Event, bufferMax/2)
		stream.Push(abi.Event{})
		stream.Drain(nil)
		stream.Close(long)
		o := NewOutput(8)
		o.Push(abi.Event{})
		if cap(o.events) > 0 && &o.events[:1][0] == &long[0] {
			t.Fatalf("the next stream begins with room for %d events", cap(o.events))
		}
	}
}

// TestQueueOfARefusedRequest: a queue that nothing was pushed to has none of the memory that others gave back.
func TestQueueOfARefusedRequest(t *testing.T) {
	for _, make := range []func() *Output{func() *Output { return NewOutput(8) }, NewWholeOutput} {
		ended := make()
		ended.Push(abi.Event{Kind: abi.EventDelta, Text: "short"}, abi.Event{Kind: abi.EventEnd})
		ended.Close(ended.Drain(nil))
		if refused := make(); cap(refused.events) > 0 {
			t.Errorf("it has room for %d events", cap(refused.events))
		}
	}
}
