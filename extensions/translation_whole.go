package extensions

import (
	"bytes"
	"time"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

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
	in := abi.RequestInput{Facts: t.facts, Route: t.route, Body: body}
	s.in = in.Append(s.in[:0])
	t.captured.Add(abi.OpRequest, in.Append)
	o, f := t.call(abi.OpRequest, s, nil)
	if f != nil && f.Cause == guest.CauseOverloaded && f != overQuota {
		return nil, overloaded("extensions.Request", f)
	}
	foreign := f == overQuota && (!t.generation.shipped || t.slot.builtin == nil)
	if (f != nil || o.Status == abi.StatusDecline) && t.useBuiltin() {
		o, f = t.call(abi.OpRequest, s, nil)
	}
	switch {
	case foreign && (f != nil || o.Status != abi.StatusOK):
		return nil, overloaded("extensions.Request", overQuota)
	case f != nil, o.Status == abi.StatusDecline:
		return nil, t.failure("extensions.Request", f)
	case o.Status == abi.StatusError:
		return nil, refusal("extensions.Request", o)
	}
	out, _ := abi.ParseTranslated(o.Payload)
	t.kept = bytes.Clone(out.Kept)
	native = bytes.Clone(out.Body)
	t.prepareSpare(s)
	return native, nil
}

// Response translates a whole answer and appends the body to dst.
func (t *Translation) Response(dst []byte, events []abi.Event) ([]byte, error) {
	var whole answer
	whole.add(events)
	s := takeScratch()
	defer putScratch(s)
	in := abi.ResponseInput{Facts: t.facts, Kept: t.kept, Events: whole.frames}
	s.in = in.Append(s.in[:0])
	t.captured.Add(abi.OpResponse, in.Append)
	o, f := t.call(abi.OpResponse, s, nil)
	if f == nil && o.Status == abi.StatusOK {
		return append(dst, o.Payload...), nil
	}
	if !t.generation.shipped && t.spared && t.useBuiltin() {
		in.Kept, t.kept = t.spare, t.spare
		s.in = in.Append(s.in[:0])
		if o, f = t.call(abi.OpResponse, s, nil); f == nil && o.Status == abi.StatusOK {
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
// stream. What the module cannot say, or must not because what it wrote breaks the
// protocol, the builtin says; where there is none, nothing is appended.
func (t *Translation) Error(dst []byte, e *abi.Error, status int) []byte {
	in := abi.ErrorInput{Facts: t.facts, State: t.state, Kept: t.kept, Status: status,
		Kind: e.Kind, Detail: e.Detail, Param: e.Param, Msg: e.Msg}
	if e.Reason == abi.ReasonNone && e.RetryAfter > 0 {
		in.Detail = abi.Detail{Reason: abi.ReasonWait, Value: int64((e.RetryAfter + time.Millisecond - 1) / time.Millisecond)}
	}
	t.captured.Add(abi.OpError, in.Append)
	if t.generation.manifest.History {
		in.History = t.answer.frames
	}
	s := takeScratch()
	defer putScratch(s)
	if !t.broken {
		s.in = t.generation.manifest.Record(abi.OpError, in.Append(s.in[:0]))
		var err error
		o, f := t.call(abi.OpError, s, t.misfit)
		if f != nil || o.Status != abi.StatusOK {
			o, err = t.again("extensions.Error", abi.OpError, s, f)
		}
		if err == nil {
			return append(dst, o.Payload...)
		}
	}
	if t.slot.builtin == nil {
		return dst
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

// misfit is the fault of a module that wrote for a failure neither the frames that end a
// stream nor a body.
func (t *Translation) misfit(o abi.Output) *guest.Fault {
	if o.Status != abi.StatusOK || t.generation.native != nil {
		return nil
	}
	if err := t.generation.manifest.CheckError(o.Payload, t.facts.Stream); err != nil {
		return guest.Faultf(guest.CauseProtocol, "its error: %v", err)
	}
	return nil
}
