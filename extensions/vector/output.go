package vector

import (
	"bytes"
	"errors"
	"fmt"

	"corenode/wasm/abi"
)

// result does one call and reads its output as what a vector can want.
func (r *runner) result(op abi.Op, in []byte) (*want, error) {
	out, err := r.output(op, in)
	if err != nil {
		return nil, err
	}
	if out.Status != abi.StatusOK {
		return refused(op, out)
	}
	w, err := read(op, r.v.facts().Stream, out.Payload)
	if err != nil {
		return nil, fmt.Errorf("op %s: %w", op, err)
	}
	return w, nil
}

// refused reads an output that is no result.
func refused(op abi.Op, out abi.Output) (*want, error) {
	switch {
	case out.Status == abi.StatusDecline && len(out.Payload) > 0:
		return nil, fmt.Errorf("op %s: declined with a payload of %d bytes", op, len(out.Payload))
	case out.Status == abi.StatusDecline:
		return &want{Decline: true}, nil
	case op != abi.OpRequest && op != abi.OpModels && op != abi.OpRewrite:
		return nil, fmt.Errorf("op %s: refused, which only request and models may", op)
	case !mayRefuse(op.String(), out.Kind):
		return nil, fmt.Errorf("op %s: refused with kind %s, which must be invalid_request", op, out.Kind)
	}
	refused, err := abi.ParseRefusal(out.Payload)
	if err != nil {
		return nil, fmt.Errorf("op %s: the refusal: %w", op, err)
	}
	return &want{Refusal: &refusal{Kind: out.Kind.String(), Param: refused.Param, Msg: &refused.Msg}}, nil
}

// read decodes an op's result. Nothing in it aliases the payload.
func read(op abi.Op, stream bool, payload []byte) (*want, error) {
	switch op {
	case abi.OpRequest:
		t, err := abi.ParseTranslated(payload)
		body, kept := content(bytes.Clone(t.Body)), content(bytes.Clone(t.Kept))
		return &want{Body: &body, Kept: &kept}, err
	case abi.OpResponse, abi.OpError, abi.OpModels, abi.OpCount, abi.OpRewrite:
		if stream && op == abi.OpError {
			text := lines(bytes.Clone(payload))
			return &want{Stream: &text}, nil
		}
		body := content(bytes.Clone(payload))
		return &want{Body: &body}, nil
	case abi.OpQuote:
		q, err := abi.ParseQuote(payload)
		w := &quoteWant{Upper: int64(q.Upper), Minimum: int64(q.Minimum), CoveredUpper: int64(q.CoveredUpper),
			CoveredMinimum: int64(q.CoveredMinimum)}
		for _, t := range q.Takes {
			w.Takes = append(w.Takes, takeWant(t))
		}
		return &want{Quote: w}, err
	case abi.OpCharge:
		c, err := abi.ParseCharge(payload)
		w := &chargeWant{Total: int64(c.Total), Tier: c.Tier, Lines: make([]lineWant, len(c.Lines)), Taken: c.Taken}
		for i, l := range c.Lines {
			w.Lines[i] = lineWant{l.Unit, l.Tokens, int64(l.Price), int64(l.Amount)}
		}
		return &want{Charge: w}, err
	case abi.OpDecide:
		d, err := abi.ParseDecision(payload)
		if err != nil {
			return nil, err
		}
		w := &decisionWant{Verdict: verdicts[d.Verdict], Priority: d.Priority, RetryAfterMS: d.RetryAfterMS, Msg: d.Msg}
		if d.Verdict == abi.Deny || d.Verdict == abi.Reserve && d.Kind != abi.Internal {
			w.Kind = d.Kind.String()
		}
		for _, t := range d.Takes {
			w.Takes = append(w.Takes, takeWant(t))
		}
		return &want{Decision: w}, nil
	}
	return nil, errors.New("no vector does this op")
}

// describe tells in words why there is no result.
func describe(w *want) string {
	if w.Refusal == nil {
		return "declined"
	}
	return fmt.Sprintf("refused, %s: %s", w.Refusal.Param, *w.Refusal.Msg)
}
