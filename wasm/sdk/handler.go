package sdk

import (
	"encoding/binary"

	"corenode/wasm/abi"
)

// TranslatorHandler makes a Handler of a Translator.
func TranslatorHandler(t Translator) Handler {
	return func(op abi.Op, in, dst []byte) []byte {
		switch op {
		case abi.OpRequest:
			return request(t, in, dst)
		case abi.OpEvents:
			return events(t, in, dst)
		case abi.OpResponse:
			r, err := abi.ParseResponseInput(in)
			if err != nil {
				return decline(dst)
			}
			return ok(dst, func(dst []byte) []byte { return t.Response(dst, r) })
		case abi.OpError:
			e, err := abi.ParseErrorInput(in)
			if err != nil {
				return decline(dst)
			}
			return ok(dst, func(dst []byte) []byte { return t.Error(dst, e) })
		}
		return decline(dst)
	}
}

func request(t Translator, in, dst []byte) []byte {
	r, err := abi.ParseRequestInput(in)
	if err != nil {
		return decline(dst)
	}
	out, refusal := t.Request(r)
	if refusal != nil {
		return refuse(dst, refusal)
	}
	return ok(dst, out.Append)
}

// events writes the state's place first and the bytes after it, so that
// neither is copied: the state is small and comes back last, hence its room is
// made before the bytes are known.
func events(t Translator, in, dst []byte) []byte {
	e, err := abi.ParseEventsInput(in)
	if err != nil {
		return decline(dst)
	}
	var room [256]byte
	start := len(dst)
	dst = abi.BeginOutput(dst, abi.StatusOK, 0)
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, e.State...) // most calls keep the state's size
	body := len(dst)
	dst, next := t.Events(dst, room[:0], e)
	if len(next) == body-at-4 {
		copy(dst[at+4:], next)
	} else {
		dst = shift(dst, at+4, body, next)
	}
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(next)))
	abi.EndOutput(dst, start)
	return dst
}

// shift replaces dst[from:to] with s.
func shift(dst []byte, from, to int, s []byte) []byte {
	tail := len(dst) - to
	if grow := len(s) - (to - from); grow > 0 {
		for range grow {
			dst = append(dst, 0)
		}
	}
	copy(dst[from+len(s):], dst[to:to+tail])
	copy(dst[from:], s)
	return dst[:from+len(s)+tail]
}

// BillingHandler makes a Handler of a Billing. An error of it is a fault: the
// node charges the built-in tariff instead, provisionally.
func BillingHandler(b Billing) Handler {
	return func(op abi.Op, in, dst []byte) []byte {
		switch op {
		case abi.OpQuote:
			q, err := abi.ParseQuoteInput(in)
			if err != nil {
				return decline(dst)
			}
			quote, err := b.Quote(q)
			if err != nil {
				return decline(dst)
			}
			return ok(dst, quote.Append)
		case abi.OpCharge:
			c, err := abi.ParseChargeInput(in)
			if err != nil {
				return decline(dst)
			}
			charge, err := b.Charge(c)
			if err != nil {
				return decline(dst)
			}
			return ok(dst, charge.Append)
		}
		return decline(dst)
	}
}

// AdmissionHandler makes a Handler of an Admission.
func AdmissionHandler(a Admission) Handler {
	return func(op abi.Op, in, dst []byte) []byte {
		d, err := abi.ParseAdmissionInput(in)
		if op != abi.OpDecide || err != nil {
			return decline(dst)
		}
		return ok(dst, a.Decide(d).Append)
	}
}

func ok(dst []byte, payload func([]byte) []byte) []byte {
	start := len(dst)
	dst = payload(abi.BeginOutput(dst, abi.StatusOK, 0))
	abi.EndOutput(dst, start)
	return dst
}

func decline(dst []byte) []byte { return abi.BeginOutput(dst, abi.StatusDecline, 0) }

func refuse(dst []byte, e *abi.Error) []byte {
	start := len(dst)
	dst = abi.Refusal{Param: e.Param, Msg: e.Msg}.Append(abi.BeginOutput(dst, abi.StatusError, e.Kind))
	abi.EndOutput(dst, start)
	return dst
}
