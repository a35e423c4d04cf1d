package vector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
	"corenode/wasm/tariff"
)

// native makes a Call of a handler.
func native(h sdk.Handler) Call {
	return func(op abi.Op, in []byte) ([]byte, error) { return h(op, in, nil), nil }
}

// parrot is a small translator: a body {"model", "say"} becomes a message, and
// an answer is written as one line per event. Its state counts the events.
type parrot struct {
	groups  bool // its defect: it numbers groups, not events
	torn    bool // its defect: it writes half an event
	history bool // it writes a block again at its end
	returns bool // it ends lines with a carriage return too
}

func (p parrot) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	var asked struct{ Model, Say string }
	if json.Unmarshal(in.Body, &asked) != nil {
		return abi.Translated{}, &abi.Error{Kind: abi.InvalidRequest, Msg: "the body is no JSON object"}
	}
	if asked.Say == "" {
		return abi.Translated{}, &abi.Error{Kind: abi.InvalidRequest, Param: "say", Msg: "say is missing"}
	}
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, asked.Model, asked.Say)
	return abi.Translated{Body: []byte(body), Kept: []byte(asked.Say)}, nil
}

func (p parrot) Events(dst, state []byte, in abi.EventsInput) (written, next []byte) {
	n, _ := strconv.Atoi(string(in.State))
	if p.groups {
		n++
	}
	all := in.Events
	for f, more := all.Next(); more; f, more = all.Next() {
		if !p.groups {
			n++
		}
		dst = fmt.Appendf(dst, "data: %d %s", n, line(f))
		switch f.Kind {
		case abi.EventStart:
			dst = fmt.Appendf(dst, " to %s", in.Kept)
		case abi.EventBlockStop:
			if p.history {
				dst = fmt.Appendf(dst, " of %q", blockText(in.History, f.Index))
			}
		}
		dst = append(dst, "\n\n"...)
	}
	if p.returns {
		dst = bytes.ReplaceAll(dst, []byte("\n"), []byte("\r\n"))
	}
	if p.torn {
		dst = bytes.TrimSuffix(dst, []byte("\n"))
	}
	return dst, strconv.AppendInt(state, int64(n), 10)
}

// blockText is what the history says of one block.
func blockText(history abi.Frames, index int) (text []byte) {
	for f, more := history.Next(); more; f, more = history.Next() {
		if f.Kind == abi.EventDelta && f.Index == index {
			text = append(text, f.Payload...)
		}
	}
	return text
}

func line(f abi.Frame) string {
	switch f.Kind {
	case abi.EventBlockStart:
		id, name := f.Tool()
		return fmt.Sprintf("block %d kind %d %s %s", f.Index, f.Block, id, name)
	case abi.EventDelta:
		return fmt.Sprintf("%d+%s", f.Index, f.Payload)
	case abi.EventEnd:
		return fmt.Sprintf("end %s %+v", f.Stop, f.Usage())
	case abi.EventStart:
		return fmt.Sprintf("start %+v", f.Usage())
	}
	return "stop " + strconv.Itoa(f.Index)
}

func (p parrot) Response(dst []byte, in abi.ResponseInput) []byte {
	dst = fmt.Appendf(dst, `{"to":%q,"events":[`, in.Kept)
	all := in.Events
	comma := ""
	for f, more := all.Next(); more; f, more = all.Next() {
		dst = fmt.Appendf(dst, "%s%q", comma, line(f))
		comma = ","
	}
	return append(dst, "]}"...)
}

func (p parrot) Error(dst []byte, in abi.ErrorInput) []byte {
	if in.Facts.Stream {
		return fmt.Appendf(dst, "data: %s broke after %s events: %s\n\n", in.Facts.ID, in.State, in.Msg)
	}
	return fmt.Appendf(dst, `{"error":{"status":%d,"code":%q,"message":%q}}`, in.Status, in.Kind, in.Msg)
}

// billing is the shipped tariff behind the interface of modules.
type billing struct{}

func (billing) Quote(in abi.QuoteInput) (abi.Quote, error) {
	upper, minimum, err := tariff.Quote(in.Prices, in.Input, in.OutputMax)
	return abi.Quote{Upper: upper, Minimum: minimum}, err
}

func (billing) Charge(in abi.ChargeInput) (abi.Charge, error) {
	return tariff.Rate(in.Prices, in.Usage)
}

// doorman is an admission policy.
type doorman struct{}

func (doorman) Decide(in abi.AdmissionInput) abi.Decision {
	n := in.Counters
	switch {
	case n.AccountRequestsMax > 0 && n.AccountRequests >= n.AccountRequestsMax:
		return abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, RetryAfterMS: 1500, Msg: "too many at once"}
	case 2*n.NodeRequests >= n.NodeRequestsMax && n.NodeRequestsMax > 0:
		return abi.Decision{Verdict: abi.Queue, Priority: -3}
	}
	return abi.Decision{Verdict: abi.Allow}
}
