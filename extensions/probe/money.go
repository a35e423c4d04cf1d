package probe

import (
	"fmt"
	"math"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// What must be done about money.
const (
	fixUnit   = "count in nano-dollars; a usual request costs cents"
	fixRecord = "write the record as the kit does"
	fixSums   = "every line is tokens, price and amount of zero or more, and the total is their sum"
	fixUpper  = "quote the dearest use of the tokens, at the same time, for the same account"
	fixTakes  = "name each counter of the manifest in its order, zero or more of it; what is covered costs no more"
	fixTaken  = "take zero or more of each counter, and no more than the request holds"
	fixFree   = `charge something, or say "free": true in the manifest if it is meant`
)

// CheckQuote holds a quote of a module with so many counters to what every quote must satisfy.
func CheckQuote(q abi.Quote, counters int) *Problem {
	if len(q.Takes) != counters {
		return problemf(fixTakes, "the quote takes of %d counters, the manifest has %d", len(q.Takes), counters)
	}
	for i, t := range q.Takes {
		if min(t.Limit, t.Max) < 0 || max(t.Limit, t.Max) > abi.CounterMax {
			return problemf(fixTakes, "the quote takes %d of counter %d, whose limit is %d", t.Max, i, t.Limit)
		}
	}
	if q.CoveredMinimum < 0 || q.CoveredUpper < q.CoveredMinimum ||
		counters > 0 && (q.CoveredUpper > q.Upper || q.CoveredMinimum > q.Minimum) {
		return problemf(fixTakes, "covered, the quote has minimum %d and upper %d, else %d and %d",
			q.CoveredMinimum, q.CoveredUpper, q.Minimum, q.Upper)
	}
	if q.Minimum >= 0 && q.Upper >= q.Minimum && q.Upper <= abi.ChargeMax {
		return nil
	}
	fix := "a quote is 0 <= minimum <= upper"
	if q.Upper > abi.ChargeMax {
		fix = fixUnit
	}
	return problemf(fix, "the quote has minimum %d and upper %d, want 0 <= minimum <= upper <= %d", q.Minimum, q.Upper, abi.ChargeMax)
}

// CheckDecision holds what a decision of a module with so many counters takes of them to
// what every one must satisfy.
func CheckDecision(d abi.Decision, counters int) *Problem {
	if d.Verdict != abi.Reserve {
		return nil
	}
	if len(d.Takes) != counters || counters == 0 {
		return problemf(fixTakes, "the decision takes of %d counters, the manifest has %d", len(d.Takes), counters)
	}
	for i, t := range d.Takes {
		if min(t.Limit, t.Max) < 0 || max(t.Limit, t.Max) > abi.CounterMax {
			return problemf(fixTakes, "the decision takes %d of counter %d, whose limit is %d", t.Max, i, t.Limit)
		}
	}
	return nil
}

// CheckCharge holds a charge to what every charge must satisfy. upper is that
// of the quote when no more was used than quoted, else negative; free is the
// manifest's.
func CheckCharge(c abi.Charge, in abi.ChargeInput, upper abi.Nano, free bool) *Problem {
	if p := CheckSums(c); p != nil {
		return p
	}
	if len(c.Taken) != len(in.Held) {
		return problemf(fixTaken, "the charge takes of %d counters, the request holds of %d", len(c.Taken), len(in.Held))
	}
	for i, n := range c.Taken {
		if n < 0 || n > in.Held[i] {
			return problemf(fixTaken, "the charge takes %d of counter %d, the request holds %d", n, i, in.Held[i])
		}
	}
	switch {
	case upper >= 0 && c.Total > upper:
		return problemf(fixUpper, "the charge of %d is above the quote of %d", c.Total, upper)
	case c.Total == 0 && !free && in.Usage != (abi.Usage{}) && !costsNothing(in):
		return problemf(fixFree, "nothing is charged for tokens that were used, and the manifest does not say free")
	}
	return nil
}

// UpperOf is what a quote promised a request that holds so much of each counter; -1 without one.
func UpperOf(q *abi.Quote, held []int64) abi.Nano {
	switch {
	case q == nil:
		return -1
	case len(held) == 0:
		return q.Upper
	}
	for i, t := range q.Takes {
		if i < len(held) && held[i] < t.Max {
			return q.Upper
		}
	}
	return q.CoveredUpper
}

// CheckSums checks that nothing in a charge is negative and that its lines make
// its total, which is at most abi.ChargeMax.
func CheckSums(c abi.Charge) *Problem {
	var sum abi.Nano
	for i, l := range c.Lines {
		if l.Tokens < 0 || l.Price < 0 || l.Amount < 0 {
			return problemf(fixSums, "line %d (%q) is negative: %d tokens, price %d, amount %d", i, l.Unit, l.Tokens, l.Price, l.Amount)
		}
		if l.Amount > abi.ChargeMax-sum {
			return problemf(fixUnit, "the lines add up to more than %d, the most that a request may cost", abi.ChargeMax)
		}
		sum += l.Amount
	}
	if c.Total < 0 || c.Total != sum {
		return problemf(fixSums, "the total is %d, the lines add up to %d", c.Total, sum)
	}
	if c.Tier < 0 {
		return problemf(fmt.Sprintf("a tier is 0 to %d", math.MaxInt32), "the tier is %d, which as a number without a sign is %d", c.Tier,
			uint32(c.Tier))
	}
	return nil
}

// costsNothing says whether the builtin tariff asks nothing either: a model
// that is free by its prices.
func costsNothing(in abi.ChargeInput) bool {
	p, u := in.Prices, in.Usage
	return (p.Input == 0 || u.InputUncached+u.CacheWrite == 0) && (p.Cached == 0 || u.CacheRead == 0) &&
		(p.Output == 0 || u.Output == 0)
}

// Quote asks for a quote and checks it; ok is false when the module declines.
func Quote(call vector.Call, in abi.QuoteInput, counters int) (q abi.Quote, ok bool, p *Problem) {
	out, p := payload(call, abi.OpQuote, in.Append(nil))
	if p != nil || out == nil {
		return q, false, p
	}
	q, err := abi.ParseQuote(out)
	if err != nil {
		return q, false, problemf(fixRecord, "the quote is no such record")
	}
	p = CheckQuote(q, counters)
	return q, p == nil, p
}

// Charge asks for a charge and checks it as CheckCharge does.
func Charge(call vector.Call, in abi.ChargeInput, upper abi.Nano, free bool) (total abi.Nano, ok bool, p *Problem) {
	out, p := payload(call, abi.OpCharge, in.Append(nil))
	if p != nil || out == nil {
		return 0, false, p
	}
	c, err := abi.ParseCharge(out)
	if err != nil {
		return 0, false, problemf(fixRecord, "the charge is no such record")
	}
	p = CheckCharge(c, in, upper, free)
	return c.Total, p == nil, p
}

// payload is what a call gives; nil without a problem means that it declined.
func payload(call vector.Call, op abi.Op, in []byte) ([]byte, *Problem) {
	const fix = "answer every usual request, or decline it"
	frame, err := call(op, in)
	if err != nil {
		return nil, problemf(fix, "%v", err)
	}
	out, err := abi.ParseOutput(frame)
	switch {
	case err != nil:
		return nil, problemf(fix, "the output is no output frame")
	case out.Status == abi.StatusDecline:
		return nil, nil
	case out.Status == abi.StatusError:
		return nil, problemf(fix, "it refuses, which only a request may be")
	case out.Payload == nil:
		return []byte{}, nil
	}
	return out.Payload, nil
}
