package server

import (
	"errors"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// generate serves POST /v1/messages, and the endpoints of the protocols that a
// translator makes messages of.
func (x *exchange) generate() {
	prepared, refusal := x.prepare()
	if refusal != nil {
		x.fail(refusal)
		return
	}
	if refusal := x.openFilter(); refusal != nil {
		x.fail(refusal)
		return
	}
	call := account.Call{RequestID: x.id, Account: *x.who.Account, Key: x.who.key(), Request: prepared,
		SessionID: string(x.ctx.Request.Header.PeekCanonical([]byte("X-Session-Id"))), Protocol: x.protocol(), Peer: x.who.Peer,
		Priority: x.who.priority(&x.ctx.Request.Header)}
	if x.translation != nil {
		x.translator = x.translation.Module()
		call.Translator = x.translator
	}
	x.prepared, x.inputTokens, x.outputMax = time.Now(), prepared.InputTokens(), prepared.MaxTokens
	prepared.Trace = x.furtherTrace()
	stream, limits, err := x.s.deps.Backend.Generate(call)
	x.setLimits(limits)
	if err != nil {
		if refused, ok := errors.AsType[*account.Refused](err); ok {
			x.settled = refused.Settled
		}
		x.fail(abi.AsError(err))
		return
	}
	x.admitted = time.Now()
	if x.stream {
		x.beginStream(stream, prepared.Model)
		return
	}
	x.plain(stream, prepared.Model)
}
