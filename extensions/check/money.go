package check

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"corenode/extensions/probe"
	"corenode/wasm/abi"
)

// chargesMax is how many random requests are quoted and charged.
const chargesMax = 500

// money quotes and charges random requests and holds the charges to the rules
// that the host holds them to.
func (ck *checker) money(s *Stage) {
	if ck.Kind != "billing" {
		s.Skipped = true
		return
	}
	b := ck.sandbox(ck.o.Config)
	defer b.close()
	random := rand.New(rand.NewPCG(1, 2)) // the same requests in every check
	declined, cheaper := 0, 0
	var found wrongs
	for range chargesMax {
		q, u := randomRequest(random)
		quoted, ok, problem := probe.Quote(b.frame, q, ck.Counters)
		if problem != nil {
			found.add(s, problem, "quote", asQuote(q))
			continue
		}
		if !ok {
			declined++
			continue
		}
		in := chargeInput(q, u)
		in.Held = randomHeld(random, quoted.Takes)
		total, ok, problem := probe.Charge(b.frame, in, probe.UpperOf(&quoted, in.Held), ck.Free)
		if problem != nil {
			found.add(s, problem, "charge", asCharge(in))
			continue
		}
		if !ok {
			declined++
			continue
		}
		more := in
		more.Usage.Output++
		if dearer, ok, _ := probe.Charge(b.frame, more, -1, ck.Free); ok && dearer < total {
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

// wrongs counts what was found by what is to be done about it.
type wrongs map[string]int

// wrongsShown bounds the findings with one remedy: more of them say nothing new.
const wrongsShown = 2

// add lists a finding with the input as a golden vector has it, so that an
// author can put it into one.
func (n *wrongs) add(s *Stage, p *probe.Problem, op, input string) {
	if *n == nil {
		*n = wrongs{}
	}
	(*n)[p.Fix]++
	if (*n)[p.Fix] > wrongsShown {
		s.Passed = false
		s.More++
		return
	}
	s.fix(p.Fix, "%s\n{\"name\": \"found by check\", \"op\": %q, %q: %s}", p.What, op, op, input)
}

func asPrices(p abi.Prices) string {
	return fmt.Sprintf(`"prices": {"input": %d, "cached": %d, "output": %d}`, p.Input, p.Cached, p.Output)
}

func asQuote(q abi.QuoteInput) string {
	return fmt.Sprintf(`{"account": %q, "at": %d, %s, "input": %d, "output_max": %d}`, q.Account, q.At, asPrices(q.Prices),
		q.Input, q.OutputMax)
}

func asCharge(in abi.ChargeInput) string {
	u := in.Usage
	held := ""
	if len(in.Held) > 0 {
		text, _ := json.Marshal(in.Held) // numbers always encode
		held = `, "held": ` + string(text)
	}
	return fmt.Sprintf(`{"account": %q, "at": %d, %s, "usage": `+
		`{"input_uncached": %d, "cache_read": %d, "cache_write": %d, "output": %d, "reasoning": %d}%s}`,
		in.Account, in.At, asPrices(in.Prices), u.InputUncached, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning, held)
}

// randomHeld is what admission may have given of what a quote asked for: all, a part or nothing.
func randomHeld(random *rand.Rand, takes []abi.Take) (held []int64) {
	for _, t := range takes {
		most := min(t.Limit, t.Max)
		held = append(held, [...]int64{0, random.Int64N(most + 1), most, most}[random.IntN(4)])
	}
	return held
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
		At: probe.Asked.Created + size(1e8), Model: "core-1.1", Account: "acct_0123456789abcdef",
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
