package server

import (
	"fmt"

	"corenode/engine/messages"
)

// countTokens serves POST /v1/messages/count_tokens: a permit, no tokens, no money.
func (x *exchange) countTokens() {
	var n int
	refusal := x.withRequest(messages.ParseCount, func(request *messages.Request, model Model) error {
		release, limits, err := x.s.deps.Backend.Enter(*x.who.Account)
		x.setLimits(limits)
		if err != nil {
			return err
		}
		defer release()
		n, err = model.Count(request)
		return err
	})
	if refusal != nil {
		x.fail(refusal)
		return
	}
	x.json(fmt.Appendf(nil, `{"input_tokens":%d}`, n))
}
