package server

import (
	"fmt"

	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// countTokens serves POST /v1/messages/count_tokens: a permit, no tokens, no money.
func (x *exchange) countTokens() {
	defer x.body.release()
	b, refusal := x.readBody()
	if refusal != nil {
		x.fail(refusal)
		return
	}
	n, refusal := x.count(b)
	if refusal != nil {
		x.fail(refusal)
		return
	}
	x.json(fmt.Appendf(nil, `{"input_tokens":%d}`, n))
}

func (x *exchange) count(b *body) (int, *abi.Error) {
	if refusal := x.s.gate.enter(x.who.Account.ID, x.who.Account.Concurrency); refusal != nil {
		return 0, refusal
	}
	defer x.s.gate.leave(x.who.Account.ID)
	request, model, refusal := x.parse(b, messages.ParseCount)
	if refusal != nil {
		return 0, refusal
	}
	release, limits, err := x.s.deps.Backend.Enter(*x.who.Account)
	x.setLimits(limits)
	if err != nil {
		return 0, abi.AsError(err)
	}
	defer release()
	n, err := model.Count(request)
	if err != nil {
		return 0, abi.AsError(err)
	}
	return n, nil
}
