package extensions

import (
	"bytes"

	"corenode/wasm/abi"
)

// replayBytesMax bounds the answer that is kept so that the native build can
// take a stream over from a foreign module. A longer one stays with its module.
const replayBytesMax = 1 << 20

// prepareSpare asks the native build what it would keep of the request in s.in,
// which a foreign module has translated: with that it can take the answer over.
// A body that it refuses is of another dialect, whose answer it cannot write.
// A native build takes a fraction of the module's time.
func (t *Translation) prepareSpare(s *scratch) {
	b := t.slot.builtin
	if t.generation.shipped || b == nil {
		return
	}
	out, f := b.doNative(abi.OpRequest, s.in, s.out[:0])
	s.out = out
	if f != nil {
		return
	}
	if o, err := abi.ParseOutput(out); err == nil && o.Status == abi.StatusOK {
		translated, _ := abi.ParseTranslated(o.Payload) // doNative decoded it before
		t.spared, t.spare = true, bytes.Clone(translated.Kept)
	}
}

// keepsAnswer says whether the answer so far is needed: by a module that wants
// it, or in case the native build has to take over.
func (t *Translation) keepsAnswer() bool {
	if t.generation.manifest.History {
		return true
	}
	if t.spared && len(t.answer.frames) > replayBytesMax {
		t.spared, t.answer = false, answer{}
	}
	return t.spared && !t.generation.shipped
}

// builtinInput is the answer so far as the native build has it from the begin.
func (t *Translation) builtinInput() abi.EventsInput {
	in := abi.EventsInput{Facts: t.facts, Kept: t.spare, Events: t.answer.frames}
	if t.slot.builtin.manifest.History {
		in.History = t.answer.frames
	}
	return in
}

// replay moves a foreign module's stream, of which no byte has left, to the
// native build, which gets the answer so far and writes the state from now on.
// Its bytes are appended to dst. A stream that the module has begun stays with
// it: what it holds back, or would write differently, nobody else knows. Not ok:
// it cannot be moved, and nothing has changed.
func (t *Translation) replay(dst []byte) (out []byte, ok bool) {
	if !t.replayable() {
		return dst, false
	}
	s := takeScratch()
	defer putScratch(s)
	var w abi.Written
	if len(t.answer.frames) > 0 {
		s.in = t.builtinInput().Append(s.in[:0])
		o, f := t.host.call(t.slot, t.slot.builtin, abi.OpEvents, t.of, 0, s, nil)
		if f != nil || o.Status != abi.StatusOK {
			return dst, false
		}
		w, _ = abi.ParseWritten(o.Payload) // CheckOutput decoded it before
		t.early = o.Early()
	}
	t.useBuiltin()
	t.kept, t.state, t.prefix, t.broken = t.spare, append(t.state[:0], w.State...), 0, false
	return append(dst, w.Bytes...), true
}

// builtinState is what the native build needs to write the error of a foreign
// module's request: the state that it would be in had it written the answer
// so far. All is nil where it does not understand the request.
func (t *Translation) builtinState() (state, kept []byte, history abi.Frames) {
	if !t.spared {
		return nil, nil, nil
	}
	if len(t.answer.frames) == 0 {
		return nil, t.spare, nil
	}
	in := t.builtinInput()
	out, f := t.slot.builtin.doNative(abi.OpEvents, in.Append(nil), nil)
	if f != nil {
		return nil, t.spare, nil
	}
	if o, err := abi.ParseOutput(out); err == nil && o.Status == abi.StatusOK {
		w, _ := abi.ParseWritten(o.Payload)
		return w.State, t.spare, in.History
	}
	return nil, t.spare, nil
}
