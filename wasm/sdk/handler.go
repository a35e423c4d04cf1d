package sdk

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

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

// RouterHandler makes a Handler of a Router.
func RouterHandler(r Router) Handler {
	translate := TranslatorHandler(r)
	return func(op abi.Op, in, dst []byte) []byte {
		switch op {
		case abi.OpModels:
			return models(r, in, dst)
		case abi.OpCount:
			c, err := abi.ParseCountInput(in)
			if err != nil {
				return decline(dst)
			}
			return ok(dst, func(dst []byte) []byte { return r.Count(dst, c) })
		}
		return translate(op, in, dst)
	}
}

// models throws away what was written of a body before the refusal.
func models(r Router, in, dst []byte) []byte {
	m, err := abi.ParseModelsInput(in)
	if err != nil {
		return decline(dst)
	}
	start := len(dst)
	dst, refusal := r.Models(abi.BeginOutput(dst, abi.StatusOK, 0), m)
	if refusal != nil {
		return refuse(dst[:start], refusal)
	}
	abi.EndOutput(dst, start)
	return dst
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

// events makes room for the state before the bytes, as large as the state was:
// one that keeps its size is written in place, one that changes it moves the
// bytes. The room's capacity ends where the bytes begin, so only a state that
// grows takes memory, and a steady stream takes none.
func events(t Translator, in, dst []byte) []byte {
	e, err := abi.ParseEventsInput(in)
	if err != nil {
		return decline(dst)
	}
	start := len(dst)
	dst = abi.BeginOutput(dst, abi.StatusOK, 0)
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, e.State...)
	body := len(dst)
	dst, next := t.Events(dst, dst[at+4:at+4:body], e)
	dst = replace(dst, at+4, body, next)
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(next)))
	abi.EndOutput(dst, start)
	return dst
}

// replace puts s in the place of dst[from:to]. s may lie within that place.
func replace(dst []byte, from, to int, s []byte) []byte {
	if len(s) == to-from {
		copy(dst[from:], s)
		return dst
	}
	tail := len(dst) - to
	grow := len(s) - (to - from)
	if grow > 0 {
		dst = append(dst, s[:grow]...) // any bytes: all of them are written below
	} else {
		copy(dst[from:], s) // first, or the tail is written over the end of an s that lies there
	}
	copy(dst[from+len(s):], dst[to:to+tail])
	if grow > 0 {
		copy(dst[from:], s)
	}
	return dst[:from+len(s)+tail]
}

// BillingHandler makes a Handler of a Billing. An error of it declines: the
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
		decision := a.Decide(d)
		decision.Msg = clip(decision.Msg)
		return ok(dst, decision.Append)
	}
}

// RewriteHandler makes a Handler of a Rewrite.
func RewriteHandler(r Rewrite) Handler {
	return func(op abi.Op, in, dst []byte) []byte {
		request, err := abi.ParseRewriteInput(in)
		if op != abi.OpRewrite || err != nil {
			return decline(dst)
		}
		body, refusal := r.Rewrite(request)
		if refusal != nil {
			return refuse(dst, refusal)
		}
		return ok(dst, func(dst []byte) []byte { return append(dst, body...) })
	}
}

// FilterHandler makes a Handler of a Filter. An error of it that is not ErrDecline is a fault.
func FilterHandler(f Filter) Handler {
	return func(op abi.Op, in, dst []byte) []byte {
		piece, err := abi.ParseFilterInput(in)
		if op != abi.OpFilter || err != nil {
			return decline(dst)
		}
		filtered, err := f.Filter(piece)
		if declined(err) {
			return decline(dst)
		}
		return ok(dst, filtered.Append)
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
	refusal := abi.Refusal{Param: clip(e.Param), Msg: clip(e.Message())}
	dst = refusal.Append(abi.BeginOutput(dst, abi.StatusError, e.Kind))
	abi.EndOutput(dst, start)
	return dst
}

// clip makes of text, in which clients may have put anything, what a refusal
// may hold: UTF-8 of at most abi.RefusalBytesMax bytes.
func clip(text string) string {
	if len(text) > abi.RefusalBytesMax {
		end := abi.RefusalBytesMax - utf8.UTFMax
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return strings.ToValidUTF8(text, "?")
}
