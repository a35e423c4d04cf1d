package guest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"

	"corenode/extensions/meter"
	"corenode/wasm/abi"
)

// Instance is one memory of a module with its functions. It belongs to whoever
// made it or took it out of the pool, for one call at a time; a fault ends it.
type Instance struct {
	manifest  *Manifest
	tried     bool // as in start
	shipped   bool // as in Options
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

	at, room uint32                // the guest's input buffer: it stays in place until a larger one is asked for
	account  string                // whose data the memory may hold
	ticks    uint64                // of the last call
	done     Work                  // since the pool took it over last
	begun    [len(opsCounted)]bool // operations that it was called for
	owed     time.Duration         // processor time that is not yet taken from the share of its slot
	draws    uint64                // the state of a generator that picks calls to be timed
	touched  bool                  // it answered a call since its memory was fresh
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

// run makes one call and counts it; index is the op's opIndex. The output frame aliases the memory: it
// stays until the next call. After a fault the instance must not be called again.
func (i *Instance) run(op abi.Op, index int, in []byte) (frame []byte, f *Fault) {
	budget := i.manifest.Budget(op, len(in))
	i.arm(budget)
	i.touched = true
	frame, f = i.enter(op, in)
	i.ticks = uint64(max(0, budget-i.remaining()))
	done := &i.done[index]
	done.Calls++
	done.Ticks += i.ticks
	done.BytesIn += uint64(len(in))
	done.BytesOut += uint64(len(frame))
	return frame, f
}

// enter is a call without its accounts.
func (i *Instance) enter(op abi.Op, in []byte) ([]byte, *Fault) {
	if f := i.write(in); f != nil {
		return nil, f
	}
	i.stack[0], i.stack[1] = uint64(op), uint64(len(in))
	if err := i.call.CallWithStack(i.ctx, i.stack[:]); err != nil {
		return nil, i.diagnose(err)
	}
	frame, f := i.frame(i.stack[0], abi.OutputHeader+outputBytesMax(op, len(in)))
	if f == nil && op == abi.OpEvents && !i.tried && checkGroup(frame, i.manifest.written()) {
		return frame, nil
	}
	if f == nil {
		f = CheckOutput(op, frame)
	}
	if f == nil && op == abi.OpRequest && !i.shipped {
		f = i.manifest.checkAsked(frame)
	}
	if f == nil && !i.tried {
		f = checkWritten(op, frame, i.shipped, i.manifest.written())
	}
	if f != nil {
		return nil, f
	}
	return frame, nil
}

// arm gives the next call its budget.
func (i *Instance) arm(ticks int64) {
	left, budget := meter.Arm(ticks, 0)
	i.left.Set(left)
	i.linear.denied = false
	if budget != i.beyond || i.passed != i.linear.safepoints {
		i.budget.Set(budget)
		i.beyond, i.passed = budget, i.linear.safepoints
	}
}

// remaining is what is left of what arm gave.
func (i *Instance) remaining() int64 {
	budget := i.beyond
	if i.passed != i.linear.safepoints {
		budget = i.budget.Get()
	}
	return meter.Remaining(i.left.Get(), budget)
}

// size is that of the memory, in bytes.
func (i *Instance) size() int { return int(i.linear.used) }

// write puts in into the guest's buffer, which it asks to be larger if needed.
func (i *Instance) write(in []byte) *Fault {
	if n := uint32(len(in)); n > i.room || i.room == 0 {
		if f := i.reserve(max(n+n/4, inputRoom)); f != nil {
			return f
		}
	}
	copy(i.linear.bytes(i.at, i.room), in)
	return nil
}

func (i *Instance) reserve(n uint32) *Fault {
	i.stack[0] = uint64(n)
	if err := i.buf.CallWithStack(i.ctx, i.stack[:]); err != nil {
		return i.diagnose(err)
	}
	at := uint32(i.stack[0])
	if at == 0 || i.linear.bytes(at, n) == nil {
		return Faultf(CauseProtocol, "buf(%d) gave %d, which is no place in a memory of %d bytes", n, at, i.memory.Size())
	}
	i.at, i.room = at, n
	return nil
}

// frame returns the output that packed points to. It aliases the memory.
func (i *Instance) frame(packed uint64, limit int) ([]byte, *Fault) {
	at, n := uint32(packed>>32), uint32(packed)
	if packed == 0 {
		return nil, Faultf(CauseProtocol, "it gave no output")
	}
	if uint64(n) > uint64(limit) {
		return nil, Faultf(CauseProtocol, "its output of %d bytes is over the %d that this call may give", n, limit)
	}
	frame := i.linear.bytes(at, n)
	if frame == nil {
		return nil, Faultf(CauseProtocol, "its output of %d bytes at %d lies outside its memory of %d bytes", n, at, i.memory.Size())
	}
	return frame, nil
}

// diagnose says what ended a call. The engine's text begins with the reason,
// then lists the guest's stack.
func (i *Instance) diagnose(err error) *Fault {
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = strings.TrimSuffix(strings.TrimPrefix(text, "wasm error: "), " (recovered by wazero)")
	var exit guestExit
	switch {
	case meter.Cause(i.cause.Get()) == meter.CauseTicks:
		return Faultf(CauseTicks, "the call used up its ticks")
	case meter.Cause(i.cause.Get()) == meter.CauseDepth, strings.Contains(text, "stack overflow"):
		return Faultf(CauseDepth, "its calls are nested too deep")
	case i.linear.denied:
		return Faultf(CauseMemory, "it asked for more than the %d bytes of memory it may have, then: %s", len(i.linear.reserved), text)
	case errors.As(err, &exit):
		return Faultf(CauseTrap, "its program ended: %s", exit.Error())
	}
	return Faultf(CauseTrap, "%s", text)
}

// image copies the state of an instance that saw no input yet.
func (i *Instance) image() *image {
	view, _ := i.memory.Read(0, i.memory.Size())
	m := &image{memory: append([]byte(nil), view...), at: i.at, room: i.room}
	for _, g := range i.globals {
		m.globals = append(m.globals, g.Get())
	}
	return m
}

// restore makes the memory fresh again; false when it has grown, and a new
// instance must be made instead.
func (i *Instance) restore(m *image) bool {
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

// Call does one op under the budget of every call. It appends the output frame
// to dst and tells the ticks it took. After an error, which is a *Fault, the
// instance is only to be closed.
func (i *Instance) Call(op abi.Op, in, dst []byte) (out []byte, ticks int64, err error) {
	in = i.manifest.Record(op, in)
	frame, f := i.run(op, opIndex(op), in)
	ticks = int64(i.ticks)
	if f != nil {
		return dst, ticks, f
	}
	return append(dst, frame...), ticks, nil
}

// MemoryBytes is the size of the memory.
func (i *Instance) MemoryBytes() int64 { return int64(i.memory.Size()) }

// Close ends the instance.
func (i *Instance) Close() { _ = i.module.Close(i.ctx) } // closing in memory does not fail
