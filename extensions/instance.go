package extensions

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"

	"corenode/extensions/meter"
	"corenode/wasm/abi"
)

// instance is one memory of a module with its functions. It belongs to whoever
// took it out of the pool, for one call at a time; a fault ends it.
type instance struct {
	tried     bool // as in starter
	shipped   bool // as in starter
	ctx       context.Context
	module    api.Module
	memory    api.Memory
	linear    *linear
	buf, call api.Function
	left      api.MutableGlobal   // ticks until the next safepoint; see package meter
	budget    api.MutableGlobal   // ticks beyond those; the guest changes it at safepoints only
	beyond    uint64              // what budget was set to last
	passed    uint64              // safepoints by then
	cause     api.Global          // why the meter stopped it
	globals   []api.MutableGlobal // all of the guest's own mutable state outside the memory
	stack     [2]uint64           // arguments and results

	at, room uint32 // the guest's input buffer: it stays in place until a larger one is asked for
	account  string // whose data the memory may hold
	ticks    uint64 // of the last call
	done     work
	owed     time.Duration // processor time that is not yet taken from the share of its slot
	draws    uint64        // the state of a generator that picks calls to be timed
	touched  bool          // it answered a call since its memory was fresh
}

// inputRoom is the input buffer that an instance begins with, so that most
// calls ask for none.
const inputRoom = 16 << 10

// image is an instance's state after init, before it saw any input.
type image struct {
	memory   []byte
	globals  []uint64
	at, room uint32
}

// run makes one call and counts it. The output frame aliases the memory: it
// stays until the next call. After a fault the instance must not be called again.
func (i *instance) run(op abi.Op, in []byte, budget int64) (frame []byte, f *fault) {
	i.arm(budget)
	i.touched = true
	frame, f = i.enter(op, in)
	i.ticks = uint64(max(0, budget-i.remaining()))
	done := &i.done[opIndex(op)]
	done.calls++
	done.ticks += i.ticks
	done.bytesIn += uint64(len(in))
	done.bytesOut += uint64(len(frame))
	return frame, f
}

// enter is a call without its accounts.
func (i *instance) enter(op abi.Op, in []byte) ([]byte, *fault) {
	if f := i.write(in); f != nil {
		return nil, f
	}
	i.stack[0], i.stack[1] = uint64(op), uint64(len(in))
	if err := i.call.CallWithStack(i.ctx, i.stack[:]); err != nil {
		return nil, i.diagnose(err)
	}
	frame, f := i.frame(i.stack[0], abi.OutputHeader+outputMax(op, len(in)))
	if f == nil {
		f = checkOutput(op, frame)
	}
	if f == nil && !i.tried {
		f = checkWritten(op, frame, i.shipped)
	}
	if f != nil {
		return nil, f
	}
	return frame, nil
}

// arm gives the next call its budget.
func (i *instance) arm(ticks int64) {
	left, budget := meter.Arm(ticks, 0)
	i.left.Set(left)
	i.linear.denied = false
	if budget != i.beyond || i.passed != i.linear.safepoints {
		i.budget.Set(budget)
		i.beyond, i.passed = budget, i.linear.safepoints
	}
}

// remaining is what is left of what arm gave.
func (i *instance) remaining() int64 {
	budget := i.beyond
	if i.passed != i.linear.safepoints {
		budget = i.budget.Get()
	}
	return meter.Remaining(i.left.Get(), budget)
}

// size is that of the memory, in bytes.
func (i *instance) size() int { return int(i.linear.used) }

// write puts in into the guest's buffer, which it asks to be larger if needed.
func (i *instance) write(in []byte) *fault {
	if n := uint32(len(in)); n > i.room || i.room == 0 {
		if f := i.reserve(max(n+n/4, inputRoom)); f != nil {
			return f
		}
	}
	copy(i.linear.bytes(i.at, i.room), in)
	return nil
}

func (i *instance) reserve(n uint32) *fault {
	i.stack[0] = uint64(n)
	if err := i.buf.CallWithStack(i.ctx, i.stack[:]); err != nil {
		return i.diagnose(err)
	}
	at := uint32(i.stack[0])
	if at == 0 || i.linear.bytes(at, n) == nil {
		return faultf(causeProtocol, "buf(%d) gave %d, which is no place in a memory of %d bytes", n, at, i.memory.Size())
	}
	i.at, i.room = at, n
	return nil
}

// frame returns the output that packed points to. It aliases the memory.
func (i *instance) frame(packed uint64, most int) ([]byte, *fault) {
	at, n := uint32(packed>>32), uint32(packed)
	if packed == 0 {
		return nil, faultf(causeProtocol, "it gave no output")
	}
	if uint64(n) > uint64(most) {
		return nil, faultf(causeProtocol, "its output of %d bytes is over the %d that this call may give", n, most)
	}
	frame := i.linear.bytes(at, n)
	if frame == nil {
		return nil, faultf(causeProtocol, "its output of %d bytes at %d lies outside its memory of %d bytes", n, at, i.memory.Size())
	}
	return frame, nil
}

// diagnose says what ended a call. The engine's text begins with the reason,
// then lists the guest's stack.
func (i *instance) diagnose(err error) *fault {
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = strings.TrimSuffix(strings.TrimPrefix(text, "wasm error: "), " (recovered by wazero)")
	var exit guestExit
	switch {
	case meter.Cause(i.cause.Get()) == meter.CauseTicks:
		return faultf(causeTicks, "the call used up its ticks")
	case meter.Cause(i.cause.Get()) == meter.CauseDepth, strings.Contains(text, "stack overflow"):
		return faultf(causeDepth, "its calls are nested too deep")
	case i.linear.denied:
		return faultf(causeMemory, "it asked for more than the %d bytes of memory it may have, then: %s", len(i.linear.reserved), text)
	case errors.As(err, &exit):
		return faultf(causeTrap, "its program ended: %s", exit.Error())
	}
	return faultf(causeTrap, "%s", text)
}

// image copies the state of an instance that saw no input yet.
func (i *instance) image() *image {
	view, _ := i.memory.Read(0, i.memory.Size())
	m := &image{memory: append([]byte(nil), view...), at: i.at, room: i.room}
	for _, g := range i.globals {
		m.globals = append(m.globals, g.Get())
	}
	return m
}

// restore makes the memory fresh again; false when it has grown, and a new
// instance must be made instead.
func (i *instance) restore(m *image) bool {
	if int(i.memory.Size()) != len(m.memory) {
		return false
	}
	i.memory.Write(0, m.memory)
	for n, g := range i.globals {
		g.Set(m.globals[n])
	}
	i.at, i.room, i.touched, i.account = m.at, m.room, false, ""
	return true
}

func (i *instance) close() { _ = i.module.Close(i.ctx) } // closing in memory does not fail

// checkOutput decodes an output as its user will, so that a malformed one is
// found while the instance that gave it is still in hand.
func checkOutput(op abi.Op, frame []byte) *fault {
	o, err := abi.ParseOutput(frame)
	if err != nil {
		return faultf(causeProtocol, "its output of %d bytes is no output frame", len(frame))
	}
	switch o.Status {
	case abi.StatusDecline:
		return nil
	case abi.StatusError:
		if op != abi.OpRequest {
			return faultf(causeProtocol, "it refuses in op %v, which only a request may be", op)
		}
		_, err = abi.ParseRefusal(o.Payload)
	default:
		err = checkPayload(op, o.Payload)
	}
	if err != nil {
		return faultf(causeProtocol, "its output for op %v, %d bytes, does not decode", op, len(frame))
	}
	return nil
}

func checkPayload(op abi.Op, payload []byte) (err error) {
	switch op {
	case abi.OpRequest:
		_, err = abi.ParseTranslated(payload)
	case abi.OpEvents:
		_, err = abi.ParseWritten(payload)
	case abi.OpQuote:
		_, err = abi.ParseQuote(payload)
	case abi.OpCharge:
		_, err = abi.ParseCharge(payload)
	case abi.OpDecide:
		_, err = abi.ParseDecision(payload)
	}
	return err
}

// checkWritten checks what a translator wrote for clients, or of their requests,
// in a frame that checkOutput took. An error is checked by Translation.Error, which
// knows whether a stream or a body is to be written. The requests of modules that
// ship are not looked at: their code is ours, and a body may be long.
func checkWritten(op abi.Op, frame []byte, shipped bool) *fault {
	if frame[0] != byte(abi.StatusOK) {
		return nil
	}
	var err error
	switch payload := frame[abi.OutputHeader:]; op {
	case abi.OpRequest:
		if !shipped {
			t, _ := abi.ParseTranslated(payload)
			err = checkRequest(t.Body)
		}
	case abi.OpEvents:
		w, _ := abi.ParseWritten(payload)
		err = checkFrames(w.Bytes)
	case abi.OpResponse:
		err = checkBody(payload)
	}
	if err != nil {
		return faultf(causeProtocol, "its output for op %v, %d bytes: %v", op, len(frame), err)
	}
	return nil
}
