package compare

import (
	"strings"
	"time"

	"corenode/wasm/abi"
)

// Report is what an operator sees of a shadow.
type Report struct {
	Module  string    `json:"module" doc:"name@version."`
	Digest  string    `json:"digest"`
	Percent int       `json:"percent" doc:"Of the requests whose calls are repeated; 0: it is a shadow no more."`
	Since   time.Time `json:"since"`
	Beside  []string  `json:"beside" doc:"The modules that answered the requests, at most four, in the order in which they came."`
	Dropped uint64    `json:"dropped" doc:"Calls that there was no time to repeat."`

	Operations []Operation  `json:"operations"`
	Charges    *Charges     `json:"charges,omitempty"` // of a billing module
	First      []Difference `json:"first" doc:"The first calls that differ, at most ten."`
}

// Operation counts the repeated calls of one operation.
type Operation struct {
	Op     string `json:"op"`
	Calls  uint64 `json:"calls"`
	Differ uint64 `json:"differ" doc:"In any byte; those that failed too."`
	Failed uint64 `json:"failed" doc:"The shadow gave no answer."`
}

// Difference is one call that differs, without its texts.
type Difference struct {
	Op      string   `json:"op"`
	Model   string   `json:"model,omitempty"`
	Account string   `json:"account,omitempty"`
	Asked   []Number `json:"asked,omitempty" doc:"Of a charge or quote: what was used, or may be."`
	Old     Answer   `json:"old"`
	New     Answer   `json:"new"`
	Byte    int      `json:"byte" doc:"The first byte of the answers that differs."`
}

// Answer is one side of a difference.
type Answer struct {
	Status  string   `json:"status" doc:"ok, or ok, early where it says that nothing of the answer is written yet, error, decline, or fault and its cause."`
	Bytes   int      `json:"bytes"`
	Numbers []Number `json:"numbers,omitempty"` // of a charge, a quote or a decision
	Lines   []Line   `json:"lines,omitempty"`   // of a charge
}

// Number is a named number.
type Number struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// Line is one line of a charge.
type Line struct {
	Unit          string   `json:"unit"`
	Tokens        int64    `json:"tokens"`
	PriceNanoUSD  abi.Nano `json:"price_nano_usd" doc:"Of one token."`
	AmountNanoUSD abi.Nano `json:"amount_nano_usd"`
}

func differenceOf(call Call) Difference {
	d := Difference{Op: call.Op.String(), Account: call.Account, Old: answerOf(call.Op, call.Old), New: answerOf(call.Op, call.New)}
	if call.Fault != "" {
		d.New = Answer{Status: "fault: " + call.Fault}
	}
	for d.Byte < min(len(call.Old), len(call.New)) && call.Old[d.Byte] == call.New[d.Byte] {
		d.Byte++
	}
	switch call.Op {
	case abi.OpCharge:
		if in, err := abi.ParseChargeInput(call.In); err == nil {
			d.Model = strings.Clone(in.Model)
			d.Asked = usage(in.Usage)
		}
	case abi.OpQuote:
		if in, err := abi.ParseQuoteInput(call.In); err == nil {
			d.Model = strings.Clone(in.Model)
			d.Asked = []Number{{"input", in.Input}, {"output_max", in.OutputMax}}
		}
	case abi.OpDecide:
		if in, err := abi.ParseAdmissionInput(call.In); err == nil {
			d.Model = strings.Clone(in.Model)
			d.Asked = []Number{{"prompt_tokens", in.PromptTokens}, {"output_max", in.OutputMax}}
		}
	}
	return d
}

func usage(u abi.Usage) []Number {
	return present(Number{"input", u.InputUncached}, Number{"cached_input", u.CacheRead}, Number{"cache_write", u.CacheWrite},
		Number{"output", u.Output}, Number{"reasoning", u.Reasoning})
}

// present are the numbers that are not 0.
func present(all ...Number) (some []Number) {
	for _, n := range all {
		if n.Value != 0 {
			some = append(some, n)
		}
	}
	return some
}

// answerOf takes the numbers out of an output frame and leaves its texts.
func answerOf(op abi.Op, frame []byte) Answer {
	a := Answer{Bytes: len(frame), Status: "no output frame"}
	out, err := abi.ParseOutput(frame)
	if err != nil {
		return a
	}
	switch a.Status = "ok"; out.Status {
	case abi.StatusError:
		a.Status = "error"
		return a
	case abi.StatusDecline:
		a.Status = "decline"
		return a
	}
	switch op {
	case abi.OpEvents:
		if out.Early() {
			a.Status = "ok, early"
		}
	case abi.OpCharge:
		if c, err := abi.ParseCharge(out.Payload); err == nil {
			a.Numbers = []Number{{"total_nano_usd", int64(c.Total)}, {"tier", int64(c.Tier)}}
			for _, l := range c.Lines {
				a.Lines = append(a.Lines, Line{Unit: printable(l.Unit), Tokens: l.Tokens, PriceNanoUSD: l.Price, AmountNanoUSD: l.Amount})
			}
			for _, n := range c.Taken {
				a.Numbers = append(a.Numbers, Number{"taken", n})
			}
		}
	case abi.OpQuote:
		if q, err := abi.ParseQuote(out.Payload); err == nil {
			a.Numbers = []Number{{"upper_nano_usd", int64(q.Upper)}, {"minimum_nano_usd", int64(q.Minimum)}}
			for _, t := range q.Takes {
				a.Numbers = append(a.Numbers, Number{"takes", t.Max})
			}
		}
	case abi.OpDecide:
		if d, err := abi.ParseDecision(out.Payload); err == nil {
			a.Numbers = append([]Number{{"verdict", int64(d.Verdict)}},
				present(Number{"priority", int64(d.Priority)}, Number{"kind", int64(d.Kind)},
					Number{"retry_after_ms", int64(d.RetryAfterMS)})...)
		}
	}
	return a
}

// printable is the name of a unit without what a terminal would act on.
func printable(unit string) string {
	clean := []byte(unit)
	for i, b := range clean {
		if b < ' ' || b > '~' {
			clean[i] = '?'
		}
	}
	return string(clean)
}
