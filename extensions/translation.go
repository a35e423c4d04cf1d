package extensions

import (
	"bytes"
	"time"

	"corenode/wasm/abi"
)

// Translation is one request's use of a translator. It is pinned to the
// generation that it opened on; what the module must remember between calls is
// kept here, so that any instance can serve the next call. It belongs to one
// goroutine.
type Translation struct {
	host       *Host
	slot       *slot
	generation *generation
	of         caller
	facts      abi.Facts
	kept       []byte // Translated.Kept
	state      []byte // Written.State
	answer     answer // the whole answer so far, if the module wants it or the native build may need it

	// spared: the native build understands the request that a foreign module
	// translates, would keep spare of it, and can take the answer over.
	spared bool
	spare  []byte
	wrote  bool // bytes of the stream have been given out
	broken bool // what the module wrote breaks the protocol: it is not asked for an error

	patience time.Duration // what its calls may yet wait for their turns

	// in is the input of Events: its first prefix bytes are the encoded facts and
	// state without kept and history, which most groups have in common. 0: not made.
	in     []byte
	prefix int
}

// Translate pins the generation that serves this account on a translator's
// slot, for one request, whose id the log names. Close gives it back.
func (h *Host) Translate(s Slot, account, request string, facts abi.Facts) *Translation {
	sl := h.slot(s)
	g, _ := sl.acquire(account)
	return &Translation{host: h, slot: sl, generation: g, of: caller{account, request}, facts: facts, patience: shareWaitMax}
}

// Close gives the generation back; more than once is harmless.
func (t *Translation) Close() {
	if t.generation != nil {
		t.generation.release()
		t.generation = nil
	}
}

// SetFacts tells what preparing the request found out: model and stream.
func (t *Translation) SetFacts(f abi.Facts) { t.facts, t.prefix = f, 0 }

// Request translates a body of the slot's protocol to one of the messages
// protocol, which the caller owns. The error is an *abi.Error: InvalidRequest
// with what the module says to the client, Overloaded when every instance is
// busy, Internal when the builtin fails too. A module that fails or declines, or
// whose slot is over its share of the processors, leaves the whole request to the
// builtin. It is Overloaded, too, for the share when the builtin does not
// understand a body that is a foreign module's.
func (t *Translation) Request(body []byte) (native []byte, err error) {
	s := takeScratch()
	defer putScratch(s)
	s.in = abi.RequestInput{Facts: t.facts, Body: body}.Append(s.in[:0])
	o, f := t.call(abi.OpRequest, s)
	if f != nil && f.cause == causeOverloaded && f != overShare {
		return nil, overloaded("extensions.Request", f)
	}
	foreign := f == overShare && !t.generation.shipped
	if (f != nil || o.Status == abi.StatusDecline) && t.useBuiltin() {
		o, f = t.call(abi.OpRequest, s)
	}
	switch {
	case foreign && (f != nil || o.Status != abi.StatusOK):
		return nil, overloaded("extensions.Request", overShare)
	case f != nil:
		return nil, &abi.Error{Kind: abi.Internal, Op: "extensions.Request", Msg: "internal error", Err: f}
	case o.Status == abi.StatusDecline:
		return nil, &abi.Error{Kind: abi.Internal, Op: "extensions.Request", Msg: "internal error", Err: errDeclined}
	case o.Status == abi.StatusError:
		r, _ := abi.ParseRefusal(o.Payload) // checkOutput decoded it before
		r = cleanRefusal(r)
		return nil, &abi.Error{Kind: abi.InvalidRequest, Op: "extensions.Request", Msg: r.Msg, Param: r.Param}
	}
	out, _ := abi.ParseTranslated(o.Payload)
	t.kept = bytes.Clone(out.Kept)
	native = bytes.Clone(out.Body)
	t.prepareSpare(s)
	return native, nil
}

// useBuiltin moves the request to the native build; false when it is there already.
func (t *Translation) useBuiltin() bool {
	b := t.slot.builtin
	if t.generation == b || b == nil {
		return false
	}
	t.generation.tally.fallbacks.Add(1)
	t.generation.release()
	b.acquire() // never retired
	t.generation = b
	return true
}

// Events translates the next event group of the stream and appends its bytes
// to dst. No EventError may be among them. What a module writes is checked; one
// that fails before any byte has left, or is over its share of the processors, is
// replaced by the native build, which gets the whole answer. After an error, which
// is Internal, the stream must be ended with Error.
func (t *Translation) Events(dst []byte, group []abi.Event) ([]byte, error) {
	before := len(dst)
	dst, held := t.groupTurn(dst)
	in, end := t.events(group)
	dst, err := t.groupCall(in, dst, end, held)
	t.wrote = t.wrote || len(dst) > before
	return dst, err
}

// groupTurn waits for the turn of an event group. When that would take too long,
// the native build takes the stream over, whose bytes so far are appended to dst.
// A stream that it cannot take over goes on: its groups are made larger, as
// nothing is lost while it waits.
func (t *Translation) groupTurn(dst []byte) (_ []byte, held time.Duration) {
	if held, ok := t.turn(abi.OpEvents); ok {
		return dst, held
	}
	if t.generation.shipped {
		t.useBuiltin() // it reads the same state
		return dst, 0
	}
	if out, ok := t.replay(dst); ok {
		return out, 0
	}
	return dst, t.generation.pool.throttle.space(t.generation.pool.mean(abi.OpEvents))
}

// turn waits for the turn of a call, for which held is taken from the share of
// its slot. It is not ok where something else is to answer instead.
func (t *Translation) turn(op abi.Op) (held time.Duration, ok bool) {
	g, patience := t.generation, t.patience
	switch {
	case g.pool == nil:
		return 0, true
	case op == abi.OpError: // the native build writes it
		patience = 0
	case op == abi.OpEvents && !g.shipped && !t.replayable(), op == abi.OpResponse && !g.shipped && !t.spared:
		return g.pool.throttle.space(g.pool.mean(op)), true
	}
	held, waited, ok := g.turn(op, patience)
	t.patience -= min(waited, t.patience)
	return held, ok
}

func (t *Translation) groupCall(in, dst []byte, end bool, held time.Duration) ([]byte, error) {
	if p := t.generation.pool; p != nil && t.slot.now.Load().shadow == nil {
		out, ok, f := t.direct(p, in, dst, end, held)
		if ok {
			return out, nil
		}
		return t.groupAgain(in, dst, f)
	}
	s := takeScratch()
	defer putScratch(s)
	s.in = append(s.in, in...)
	o, f := t.host.call(t.slot, t.generation, abi.OpEvents, t.of, held, s)
	if f != nil || o.Status != abi.StatusOK {
		return t.groupAgain(in, dst, f)
	}
	w, _ := abi.ParseWritten(o.Payload) // checkOutput decoded it before
	if f = t.silent(w, end); f != nil {
		f.input = len(in)
		t.host.failed(t.generation, abi.OpEvents, t.of, f)
		return t.groupAgain(in, dst, f)
	}
	return t.written(dst, w), nil
}

// direct is the call of nearly all event groups: it takes the result out of the
// guest's memory while it has the instance, and needs no scratch. Not ok is a
// fault or a decline.
func (t *Translation) direct(p *pool, in, dst []byte, end bool, held time.Duration) (out []byte, ok bool, f *fault) {
	g := t.generation
	i, f := p.take(t.of.account)
	if f != nil {
		p.throttle.settle(held, 0)
		t.host.failed(g, abi.OpEvents, t.of, f)
		return dst, false, f
	}
	frame, f := p.run(i, abi.OpEvents, in, g.manifest.budget(abi.OpEvents, len(in)), held)
	if f == nil && frame[0] == byte(abi.StatusOK) {
		w, _ := abi.ParseWritten(frame[abi.OutputHeader:]) // checkOutput decoded it before
		if f = t.silent(w, end); f == nil {
			dst, ok = t.written(dst, w), true
		}
	}
	p.put(i, f != nil)
	switch {
	case f != nil:
		f.input = len(in)
		t.host.failed(g, abi.OpEvents, t.of, f)
	case !ok:
		g.tally.declined.Add(1)
	}
	if a := t.slot.now.Load(); a.canary == g {
		t.host.compare(a, g, abi.OpEvents)
	}
	return dst, ok, f
}

// silent is the fault of a stream that ends without a byte.
func (t *Translation) silent(w abi.Written, end bool) *fault {
	if !end || t.wrote || len(w.Bytes) > 0 || t.generation.native != nil {
		return nil
	}
	return faultf(causeProtocol, "the stream is finished and it has written no byte of it")
}

// groupAgain is what follows an event group that failed with f or, without one,
// was declined.
func (t *Translation) groupAgain(in, dst []byte, f *fault) ([]byte, error) {
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
	w, _ := abi.ParseWritten(o.Payload)
	return t.written(dst, w), nil
}

// written takes over the result of an event group.
func (t *Translation) written(dst []byte, w abi.Written) []byte {
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

// Response translates a whole answer and appends the body to dst.
func (t *Translation) Response(dst []byte, events []abi.Event) ([]byte, error) {
	var whole answer
	whole.add(events)
	s := takeScratch()
	defer putScratch(s)
	in := abi.ResponseInput{Facts: t.facts, Kept: t.kept, Events: whole.frames}
	s.in = in.Append(s.in[:0])
	o, f := t.call(abi.OpResponse, s)
	if f == nil && o.Status == abi.StatusOK {
		return append(dst, o.Payload...), nil
	}
	if !t.generation.shipped && t.spared && t.useBuiltin() {
		in.Kept, t.kept = t.spare, t.spare
		s.in = in.Append(s.in[:0])
		if o, f = t.call(abi.OpResponse, s); f == nil && o.Status == abi.StatusOK {
			return append(dst, o.Payload...), nil
		}
	}
	o, err := t.again("extensions.Response", abi.OpResponse, s, f)
	if err != nil {
		return dst, err
	}
	return append(dst, o.Payload...), nil
}

// Error appends a failure as the client's protocol has it: the body of an
// error response, or with facts that say stream the frames that end a broken
// stream. It never fails: what the module cannot say, or must not because what
// it wrote breaks the protocol, the builtin says.
func (t *Translation) Error(dst []byte, e *abi.Error, status int) []byte {
	in := abi.ErrorInput{Facts: t.facts, State: t.state, Kept: t.kept, Status: status,
		Kind: e.Kind, Detail: e.Detail, Param: e.Param, Msg: e.Msg}
	if t.generation.manifest.History {
		in.History = t.answer.frames
	}
	s := takeScratch()
	defer putScratch(s)
	if !t.broken {
		s.in = t.generation.manifest.record(abi.OpError, in.Append(s.in[:0]))
		o, err := t.answerCall("extensions.Error", abi.OpError, s)
		if err == nil && (t.generation.native != nil || t.errorFits(o.Payload)) {
			return append(dst, o.Payload...)
		}
	}
	if !t.generation.shipped { // its state means nothing to the builtin
		in.State, in.Kept, in.History = t.builtinState()
	}
	s.in = in.Append(s.in[:0])
	t.generation.tally.fallbacks.Add(1)
	out, f := t.slot.builtin.do(abi.OpError, t.of, s.in, 0, s.out[:0])
	s.out = out
	if f != nil {
		t.host.log.Error("the builtin translator cannot write an error", "slot", t.slot.name, "err", f)
		return dst
	}
	if o, err := abi.ParseOutput(out); err == nil && o.Status == abi.StatusOK {
		dst = append(dst, o.Payload...)
	}
	return dst
}

// errorFits checks what a module wrote for a failure: the frames that end a
// stream, or a body. What does not fit is a fault.
func (t *Translation) errorFits(written []byte) bool {
	err := checkBody(written)
	if t.facts.Stream {
		if err = checkFrames(written); err == nil && len(written) == 0 {
			err = errNoFrames
		}
	}
	if err == nil {
		return true
	}
	t.host.failed(t.generation, abi.OpError, t.of, faultf(causeProtocol, "its error: %v", err))
	return false
}

// answerCall runs an op of the answer. A shipped module's failure is made good
// by its native build, which reads the same state; a foreign one's is an error.
func (t *Translation) answerCall(where string, op abi.Op, s *scratch) (abi.Output, error) {
	o, f := t.call(op, s)
	if f == nil && o.Status == abi.StatusOK {
		return o, nil
	}
	return t.again(where, op, s, f)
}

// again is what follows a call that failed with f or, without one, declined.
func (t *Translation) again(where string, op abi.Op, s *scratch, f *fault) (abi.Output, error) {
	t.broken = t.broken || f != nil && f.cause == causeProtocol
	if t.generation.shipped && t.useBuiltin() {
		t.broken = false // the native build reads the same state and may write the error too
		var o abi.Output
		if o, f = t.call(op, s); f == nil && o.Status == abi.StatusOK {
			return o, nil
		}
	}
	e := &abi.Error{Kind: abi.Internal, Op: where, Msg: "internal error", Err: errDeclined}
	if f != nil {
		e.Err = f
	}
	return abi.Output{}, e
}

// call runs one op on the pinned generation, when it is its turn. The output aliases s.
func (t *Translation) call(op abi.Op, s *scratch) (abi.Output, *fault) {
	held, ok := t.turn(op)
	if !ok {
		return abi.Output{}, overShare
	}
	return t.host.call(t.slot, t.generation, op, t.of, held, s)
}
