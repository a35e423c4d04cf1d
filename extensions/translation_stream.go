package extensions

import (
	"bytes"
	"time"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// Events translates the next event group of the stream and appends its bytes
// to dst. No EventError may be among them. What a module writes is checked; one
// that fails before any byte has left, or is over its share of the processors, is
// replaced by the native build, which gets the whole answer. After an error, which
// is Internal, the stream must be ended with Error.
func (t *Translation) Events(dst []byte, group []abi.Event) ([]byte, error) {
	before := len(dst)
	t.captured.Events(t.facts, group)
	dst, advance := t.admitGroup(dst)
	in, end := t.events(group)
	dst, err := t.groupCall(in, dst, end, advance)
	t.wrote = t.wrote || len(dst) > before
	return dst, err
}

// admitGroup waits until an event group is admitted. When that would take too long,
// the native build takes the stream over, whose bytes so far are appended to dst.
// A stream that it cannot take over goes on: its groups are made larger, as
// nothing is lost while it waits.
func (t *Translation) admitGroup(dst []byte) (_ []byte, advance time.Duration) {
	if advance, ok := t.admit(abi.OpEvents); ok {
		return dst, advance
	}
	if t.generation.shipped {
		t.useBuiltin() // it reads the same state
		return dst, 0
	}
	if out, ok := t.replay(dst); ok {
		return out, 0
	}
	return dst, t.generation.throttle.delay(t.generation.pool.Mean(abi.OpEvents))
}

func (t *Translation) groupCall(in, dst []byte, end bool, advance time.Duration) ([]byte, error) {
	if t.generation.pool != nil && t.slot.now.Load().shadow == nil {
		out, ok, f := t.direct(in, dst, end, advance)
		if ok {
			return out, nil
		}
		return t.groupAgain(in, dst, f)
	}
	s := takeScratch()
	defer putScratch(s)
	s.in = append(s.in, in...)
	o, f := t.host.call(t.slot, t.generation, abi.OpEvents, t.of, advance, s, func(o abi.Output) *guest.Fault {
		if o.Status != abi.StatusOK {
			return nil
		}
		w, _ := abi.ParseWritten(o.Payload) // CheckOutput decoded it before
		return t.silent(w, end)
	})
	if f != nil || o.Status != abi.StatusOK {
		return t.groupAgain(in, dst, f)
	}
	return t.written(dst, o), nil
}

// direct is the call of nearly all event groups: it takes the result out of the
// guest's memory while it has the instance, and needs no scratch. Not ok is a
// fault or a decline.
func (t *Translation) direct(in, dst []byte, end bool, advance time.Duration) (out []byte, ok bool, f *guest.Fault) {
	g := t.generation
	f = g.pool.Call(abi.OpEvents, t.of.account, in, advance, func(frame []byte) *guest.Fault {
		o, _ := abi.ParseOutput(frame) // its output was checked
		if o.Status != abi.StatusOK {
			return nil
		}
		w, _ := abi.ParseWritten(o.Payload)
		if f := t.silent(w, end); f != nil {
			return f
		}
		dst, ok = t.written(dst, o), true
		return nil
	})
	switch {
	case f != nil:
		f.Input = len(in)
		t.host.failed(g, abi.OpEvents, t.of, f)
	case !ok:
		g.tally.declined.Add(1)
	}
	if a := t.slot.now.Load(); a.canary == g {
		t.host.compareCanary(a, g, abi.OpEvents)
	}
	return dst, ok, f
}

// silent is the fault of a stream that ends without a byte.
func (t *Translation) silent(w abi.Written, end bool) *guest.Fault {
	if !end || t.wrote || len(w.Bytes) > 0 || t.generation.native != nil {
		return nil
	}
	return guest.Faultf(guest.CauseProtocol, "the stream is finished and it has written no byte of it")
}

// groupAgain is what follows an event group that failed with f or, without one,
// was declined.
func (t *Translation) groupAgain(in, dst []byte, f *guest.Fault) ([]byte, error) {
	if out, ok := t.replay(dst); ok {
		return out, nil
	}
	s := takeScratch()
	defer putScratch(s)
	s.in = append(s.in, in...)
	o, err := t.again("extensions.Events", abi.OpEvents, s, f)
	if err != nil {
		return dst, err
	}
	return t.written(dst, o), nil
}

// Early says whether nothing of the answer was in what Events gave so far.
func (t *Translation) Early() bool { return t.early }

// written takes over the result of an event group.
func (t *Translation) written(dst []byte, o abi.Output) []byte {
	w, _ := abi.ParseWritten(o.Payload)
	t.early = o.Early()
	if !bytes.Equal(w.State, t.state) {
		if len(w.State) != len(t.state) || t.prefix == 0 {
			t.prefix = 0
		} else {
			copy(t.in[t.prefix-behindState-len(w.State):], w.State)
		}
		t.state = append(t.state[:0], w.State...)
	}
	return append(dst, w.Bytes...)
}

// behindState is what stands behind the state in Translation.in: kept and
// history, empty, which are a length of 0 each.
const behindState = 2 * 4

// inputKeep is the most that a stream's input buffer may hold to be kept.
const inputKeep = 8 << 10

// events encodes the input of Events, which stays until the next group. end
// says that the group ends the answer.
func (t *Translation) events(group []abi.Event) (in []byte, end bool) {
	var start, stop bool
	for i := range group {
		switch group[i].Kind {
		case abi.EventStart:
			start = true
		case abi.EventBlockStop:
			stop = true
		case abi.EventEnd:
			end = true
		}
	}
	history := t.generation.manifest.History
	if t.keepsAnswer() {
		t.answer.add(group)
	}
	if start || end || stop && history {
		in := abi.EventsInput{Facts: t.facts, State: t.state}
		if start || end {
			in.Kept = t.kept
		}
		if history && (stop || end) {
			in.History = t.answer.frames
		}
		t.in, t.prefix = in.Append(t.in[:0]), 0
	} else {
		if t.prefix == 0 {
			if cap(t.in) > inputKeep { // it held a history
				t.in = nil
			}
			t.in = abi.EventsInput{Facts: t.facts, State: t.state}.Append(t.in[:0])
			t.prefix = len(t.in)
		}
		t.in = t.in[:t.prefix]
	}
	for i := range group {
		t.in = abi.AppendFrame(t.in, &group[i])
	}
	return t.in, end
}
