package capture

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"corenode/wasm/abi"
)

// Side is one of the two builds that are compared.
type Side struct {
	History bool // its manifest asks for the answer so far
	// Held is what a charge that holds those counters holds of the build's own; nil leaves the input as it is.
	Held func(held []abi.Counter) []int64
	// Call makes one call, on an instance of the account's own. An error is a fault,
	// after which the side is not called again for that request. The frame is the caller's.
	Call func(account string, op abi.Op, in []byte) (frame []byte, ticks int64, err error)
}

// made is what a side gave for one request.
type made struct {
	answers []answer
	fault   string // "" = none
}

// answer is what came of one call, or of all event groups of a stream together.
type answer struct {
	op      abi.Op
	stream  bool
	frame   []byte
	charge  abi.Charge // of a charge that went well, as charged says
	charged bool
	native  []byte // of a request that went well: its body in the messages protocol
	ticks   int64
	free    int  // of a stream: the event groups by which nothing of the answer was written, so that a break costs nothing
	shown   bool // something was
}

// run runs a request on a side, each call with what the side itself made of those before.
func (r *Request) run(s Side) made {
	n := runner{side: s, account: r.Account}
	for _, c := range r.calls {
		if n.refusal != nil && !n.follows(c) || !n.do(c) {
			break
		}
	}
	return n.made
}

// runner is one run of one request.
type runner struct {
	made
	side        Side
	account     string
	state, kept []byte
	history     abi.Frames // the answer so far, one delta a block
	open        int        // where the delta frame at its end begins, plus one; 0 = none
	stream      int        // the stream's place in answers, plus one; 0 = none yet
	said        bool       // the events so far have content
	refusal     *abi.Refusal
	kind        abi.Kind // of the refusal
}

// follows says whether a call is the error that a node makes of the refusal, and none that came of something else: then its
// status is that of the refusal too.
func (n *runner) follows(c call) bool {
	e, err := abi.ParseErrorInput(c.in)
	return c.op == abi.OpError && err == nil && e.Kind == n.kind
}

// do makes one call; false ends the run.
func (n *runner) do(c call) bool {
	in, stream, err := n.input(c)
	if err != nil {
		n.fault = err.Error()
		return false
	}
	frame, ticks, err := n.side.Call(n.account, c.op, in)
	if err != nil {
		n.fault = fmt.Sprintf("%s: %v", c.op, err)
		return false
	}
	out, err := abi.ParseOutput(frame)
	if err != nil {
		n.fault = fmt.Sprintf("%s: the output frame: %v", c.op, err)
		return false
	}
	a := answer{op: c.op, stream: stream, frame: frame, ticks: ticks}
	if out.Status != abi.StatusOK {
		n.answers = append(n.answers, a)
		if refusal, err := abi.ParseRefusal(out.Payload); err == nil && out.Status == abi.StatusError {
			n.refusal, n.kind = &refusal, out.Kind // its error follows
		}
		return n.refusal != nil
	}
	switch {
	case c.op == abi.OpRequest:
		t, _ := abi.ParseTranslated(out.Payload) // the side has looked
		a.native, n.kept = t.Body, t.Kept
	case c.op == abi.OpCharge:
		a.charge, _ = abi.ParseCharge(out.Payload)
		a.charged = true
	case c.op == abi.OpEvents:
		w, _ := abi.ParseWritten(out.Payload)
		n.state = w.State
		n.written(a, w.Bytes)
		s := &n.answers[n.stream-1]
		if s.shown = s.shown || n.said && len(w.Bytes) > 0 && !out.Early(); !s.shown {
			s.free++
		}
		return true
	case c.op == abi.OpError && stream:
		n.written(a, out.Payload)
		return true
	}
	n.answers = append(n.answers, a)
	return true
}

// input is a call's input with what this side made.
func (n *runner) input(c call) (in []byte, stream bool, err error) {
	switch c.op {
	case abi.OpEvents:
		e, err := abi.ParseEventsInput(c.in)
		start, stop, end := n.take(e.Events)
		e.State = n.state
		if start || end {
			e.Kept = n.kept
		}
		if n.side.History && (stop || end) {
			e.History = n.history
		}
		return e.Append(nil), true, err
	case abi.OpResponse:
		e, err := abi.ParseResponseInput(c.in)
		e.Kept = n.kept
		return e.Append(nil), false, err
	case abi.OpCount:
		e, err := abi.ParseCountInput(c.in)
		e.Kept = n.kept
		return e.Append(nil), false, err
	case abi.OpError:
		e, err := abi.ParseErrorInput(c.in)
		e.Kept, e.State = n.kept, n.state
		if n.side.History {
			e.History = n.history
		}
		if n.refusal != nil {
			e.Detail, e.Param, e.Msg = abi.Detail{}, n.refusal.Param, n.refusal.Msg
		}
		return e.Append(nil), e.Facts.Stream, err
	case abi.OpCharge:
		if n.side.Held == nil {
			break
		}
		e, err := abi.ParseChargeInput(c.in)
		e.Held = n.side.Held(c.held)
		return e.Append(nil), false, err
	}
	return c.in, false, nil
}

// frameHeader is what stands before a frame's payload, its length last.
const frameHeader = 8

// take adds an event group to the answer so far and says what is in it. Content is what a node takes for it.
func (n *runner) take(events abi.Frames) (start, stop, end bool) {
	for {
		before := events
		f, ok := events.Next()
		if !ok {
			return start, stop, end
		}
		start, stop, end = start || f.Kind == abi.EventStart, stop || f.Kind == abi.EventBlockStop, end || f.Kind == abi.EventEnd
		n.said = n.said || f.Kind == abi.EventDelta && len(f.Payload) > 0 || f.Kind == abi.EventBlockStart && f.Block == abi.BlockToolUse
		if !n.side.History {
			continue
		}
		if f.Kind == abi.EventDelta && n.open > 0 {
			n.history = append(n.history, f.Payload...)
			frame := n.history[n.open-1:]
			binary.LittleEndian.PutUint32(frame[4:], uint32(len(frame)-frameHeader))
			continue
		}
		n.open = 0
		if f.Kind == abi.EventDelta {
			n.open = len(n.history) + 1
		}
		n.history = append(n.history, before[:len(before)-len(events)]...)
	}
}

// written adds bytes to the stream, which is one answer however it was cut.
func (n *runner) written(a answer, text []byte) {
	if n.stream == 0 {
		a.frame = bytes.Clone(text)
		n.answers = append(n.answers, a)
		n.stream = len(n.answers)
		return
	}
	s := &n.answers[n.stream-1]
	s.frame = append(s.frame, text...)
	s.ticks += a.ticks
}
