package extensions

import (
	"encoding/binary"

	"corenode/wasm/abi"
)

// answer is the events of an answer as frames, with the deltas of a block
// merged into one. It is as large as the answer.
type answer struct {
	frames []byte
	open   int // where the delta frame of the open block begins, plus one; 0 = none
}

// frameHeader is what stands before a frame's payload, its length last.
const frameHeader = 8

func (a *answer) add(events []abi.Event) {
	for i := range events {
		e := &events[i]
		switch {
		case e.Kind == abi.EventError:
		case e.Kind == abi.EventDelta && a.open > 0:
			a.frames = abi.AppendEscaped(a.frames, e.Text)
			frame := a.frames[a.open-1:]
			binary.LittleEndian.PutUint32(frame[4:], uint32(len(frame)-frameHeader))
		default:
			at := len(a.frames)
			a.frames = abi.AppendFrame(a.frames, e)
			a.open = 0
			if e.Kind == abi.EventDelta {
				a.open = at + 1
			}
		}
	}
}
