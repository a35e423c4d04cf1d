package check

import (
	"fmt"
	"math"
	"math/rand/v2"

	"corenode/wasm/abi"
)

// chargesMax is how many random requests are quoted and charged.
const chargesMax = 500

// money quotes and charges random requests and holds the charges to the rules
// that the host holds them to.
func (st *study) money(s *Stage) {
	if st.Kind != "billing" {
		s.Skipped = true
		return
	}
	l := st.lab(st.o.Config)
	defer l.close()
	random := rand.New(rand.NewPCG(1, 2)) // the same requests in every study
	declined, cheaper := 0, 0
	var found wrongs
	for range chargesMax {
		q, u := randomRequest(random)
		quoted, ok, problem := quoteOf(l, q)
		if problem != nil {
			found.add(s, problem, "quote", asQuote(q))
			continue
		}
		if !ok {
			declined++
			continue
		}
		total, ok, problem := chargeOf(l, chargeInput(q, u), quoted.Upper, st.Free)
		if problem != nil {
			found.add(s, problem, "charge", asCharge(q, u))
			continue
		}
		if !ok {
			declined++
			continue
		}
		more := u
		more.Output++
		if dearer, ok, _ := chargeOf(l, chargeInput(q, more), -1, st.Free); ok && dearer < total {
			cheaper++
		}
	}
	if cheaper > 0 {
		s.note("in %d of %d requests one more token of output makes the charge smaller", cheaper, chargesMax)
	}
	if declined > 0 {
		s.note("%d of %d usual requests are declined, which the built-in tariff then charges", declined, chargesMax)
	}
	s.Summary = fmt.Sprintf("%d random requests quoted and charged", chargesMax)
	if declined == chargesMax {
		s.fix("answer quote and charge", "every request is declined")
	}
}

// wrong is a rule of billing that a call broke.
type wrong struct{ what, fix string }

func wrongf(fix, format string, args ...any) *wrong { return &wrong{fmt.Sprintf(format, args...), fix} }

// wrongs counts what was found by what is to be done about it.
type wrongs map[string]int

// wrongsShown bounds the findings with one remedy: more of them say nothing new.
const wrongsShown = 2

// add lists a finding with the input as a golden vector has it, so that an
// author can put it into one.
func (n *wrongs) add(s *Stage, p *wrong, op, input string) {
	if *n == nil {
		*n = wrongs{}
	}
	(*n)[p.fix]++
	if (*n)[p.fix] > wrongsShown {
		s.Passed = false
		s.More++
		return
	}
	s.fix(p.fix, "%s\n{\"name\": \"found by check\", \"op\": %q, %q: %s}", p.what, op, op, input)
}

func asPrices(p abi.Prices) string {
	return fmt.Sprintf(`"prices": {"input": %d, "cached": %d, "output": %d}`, p.Input, p.Cached, p.Output)
}

func asQuote(q abi.QuoteInput) string {
	return fmt.Sprintf(`{"account": %q, "at": %d, %s, "input": %d, "output_max": %d}`, q.Account, q.At, asPrices(q.Prices), q.Input, q.OutputMax)
}

func asCharge(q abi.QuoteInput, u abi.Usage) string {
	return fmt.Sprintf(`{"account": %q, "at": %d, %s, "usage": {"input_uncached": %d, "cache_read": %d, "cache_write": %d, "output": %d, "reasoning": %d}}`,
		q.Account, q.At, asPrices(q.Prices), u.InputUncached, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning)
}

// randomRequest is a request whose usage is within its quote. Sizes are spread
// over all orders of magnitude, and around the limit of long contexts.
func randomRequest(random *rand.Rand) (abi.QuoteInput, abi.Usage) {
	size := func(most int64) int64 {
		n := random.Int64N(most + 1)
		return n >> random.Int64N(18)
	}
	q := abi.QuoteInput{
		Prices: abi.Prices{Input: abi.Nano(1 + size(5000)), Cached: abi.Nano(1 + size(500)), Output: abi.Nano(1 + size(50_000))},
		Input:  1 + size(262_143), OutputMax: 1 + size(262_143),
		At: asked.Created + size(1e8), Model: "core-1.1", Account: "acct_0123456789abcdef",
	}
	if random.IntN(8) == 0 {
		q.Input = 199_999 + random.Int64N(4)
	}
	u := abi.Usage{CacheRead: random.Int64N(q.Input + 1), Output: random.Int64N(q.OutputMax + 1)}
	u.InputUncached = q.Input - u.CacheRead
	u.CacheWrite = random.Int64N(u.InputUncached + 1)
	u.InputUncached -= u.CacheWrite
	u.Reasoning = random.Int64N(u.Output + 1)
	return q, u
}

func chargeInput(q abi.QuoteInput, u abi.Usage) abi.ChargeInput {
	return abi.ChargeInput{Prices: q.Prices, Usage: u, At: q.At, Model: q.Model, Account: q.Account}
}

// unitFix is the remedy where money is above what any request costs.
const unitFix = "count in nano-dollars; a usual request costs cents"

// quoteOf asks for a quote; ok is false when the module declines.
func quoteOf(l *lab, in abi.QuoteInput) (q abi.Quote, ok bool, p *wrong) {
	out, problem := l.payload(abi.OpQuote, in.Append(nil))
	if problem != "" || out == nil {
		return q, false, unanswered(problem)
	}
	q, err := abi.ParseQuote(out)
	switch {
	case err != nil:
		return q, false, wrongf("write the record as the kit does", "the quote is no such record")
	case q.Minimum < 0 || q.Upper < q.Minimum:
		return q, false, wrongf("a quote is 0 <= minimum <= upper", "the quote has minimum %d, upper %d", q.Minimum, q.Upper)
	case q.Upper > abi.ChargeMax:
		return q, false, wrongf(unitFix, "the quote's upper of %d is above %d, the most that a request may cost", q.Upper, abi.ChargeMax)
	}
	return q, true, nil
}

// chargeOf asks for a charge; upper < 0 is no bound.
func chargeOf(l *lab, in abi.ChargeInput, upper abi.Nano, free bool) (total abi.Nano, ok bool, p *wrong) {
	out, problem := l.payload(abi.OpCharge, in.Append(nil))
	if problem != "" || out == nil {
		return 0, false, unanswered(problem)
	}
	c, err := abi.ParseCharge(out)
	if err != nil {
		return 0, false, wrongf("write the record as the kit does", "the charge is no such record")
	}
	if problem = chargeProblem(c); problem != "" {
		return 0, false, wrongf("every line is tokens, price and amount of zero or more, and the total is their sum", "%s", problem)
	}
	switch {
	case c.Total > abi.ChargeMax:
		return c.Total, true, wrongf(unitFix, "the total of %d is above %d, the most that a request may cost", c.Total, abi.ChargeMax)
	case upper >= 0 && c.Total > upper:
		return c.Total, true, wrongf("quote the dearest use of the tokens, at the same time, for the same account",
			"the total of %d is above the quote's upper of %d", c.Total, upper)
	case c.Total == 0 && !free && in.Usage != (abi.Usage{}) && costs(in):
		return 0, true, wrongf(`charge something, or say "free": true in the manifest if it is meant`, "nothing is charged for tokens that were used")
	}
	return c.Total, true, nil
}

func unanswered(problem string) *wrong {
	if problem == "" {
		return nil // it declines
	}
	return wrongf("answer every usual request, or decline it", "%s", problem)
}

// costs says whether prices and usage ask for anything at all.
func costs(in abi.ChargeInput) bool {
	p, u := in.Prices, in.Usage
	return p.Input > 0 && u.InputUncached+u.CacheWrite > 0 || p.Cached > 0 && u.CacheRead > 0 || p.Output > 0 && u.Output > 0
}

func chargeProblem(c abi.Charge) string {
	var sum abi.Nano
	for i, line := range c.Lines {
		if min(line.Tokens, int64(line.Price), int64(line.Amount)) < 0 {
			return fmt.Sprintf("line %d is negative: %+v", i, line)
		}
		if line.Amount > math.MaxInt64-sum {
			return "the lines add up to more than 63 bits"
		}
		sum += line.Amount
	}
	if c.Total != sum || c.Tier < 0 {
		return fmt.Sprintf("the total is %d and the lines add up to %d, in tier %d", c.Total, sum, c.Tier)
	}
	return ""
}

// payload is what a call gives; nil without a problem means that it declined.
func (l *lab) payload(op abi.Op, in []byte) (payload []byte, problem string) {
	frame, _, err := l.call(op, in)
	if err != nil {
		return nil, err.Error()
	}
	out, err := abi.ParseOutput(frame)
	switch {
	case err != nil:
		return nil, "the output is no output frame"
	case out.Status == abi.StatusDecline:
		return nil, ""
	case out.Status == abi.StatusError:
		return nil, "it refuses, which only a request may be"
	case out.Payload == nil:
		return []byte{}, ""
	}
	return out.Payload, ""
}
