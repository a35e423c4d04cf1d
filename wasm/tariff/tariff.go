// Package tariff is the shipped billing policy: three prices per model, twice
// that above 200,000 tokens of context. It is pure integer arithmetic, built
// both into the node and as a Wasm module; each is the other's oracle.
//
// No result is ever rounded: prices are whole nano-dollars per token, and an
// amount that does not fit 63 bits is an error.
package tariff

import (
	"errors"
	"math"
	"math/bits"

	"corenode/wasm/abi"
)

// LongContext is the largest true context total, in tokens, at the plain
// rates. One token more and the whole request costs twice as much.
const LongContext = 200_000

const longFactor = 2

var (
	// ErrUsage means that a usage record has a negative or inconsistent field.
	ErrUsage = errors.New("usage is negative or inconsistent")
	// ErrOverflow means that an amount does not fit 63 bits.
	ErrOverflow = errors.New("the amount does not fit")
	// ErrPrice means that a price is below zero.
	ErrPrice = errors.New("a price is below zero")
)

// Prices, Line and Charge are those of the boundary. The lines of this tariff
// are "input", "cached_input" and "output", in this order, with the tier's
// factor in Price and Amount = Tokens * Price. Tier 1 is the plain rates, 2 long context.
type (
	Prices = abi.Prices
	Line   = abi.Line
	Charge = abi.Charge
)

// Tier returns the tier of a true context total, and the factor of its rates.
func Tier(inputTokens int64) (tier int, factor abi.Nano) {
	if inputTokens > LongContext {
		return 2, longFactor
	}
	return 1, 1
}

// Quote bounds the charge of a request before it runs. upper is the most it
// can cost with outputMax produced tokens: no prompt token cached, unless
// cached ones are the dearer. minimum is what an account must have to start
// it: the whole prompt uncached and one token of output.
func Quote(p Prices, inputTokens, outputMax int64) (upper, minimum abi.Nano, err error) {
	most, err := Rate(Prices{Input: max(p.Input, p.Cached), Cached: p.Cached, Output: p.Output},
		abi.Usage{InputUncached: inputTokens, Output: outputMax})
	if err != nil {
		return 0, 0, err
	}
	least, err := Rate(p, abi.Usage{InputUncached: inputTokens, Output: 1})
	return most.Total, least.Total, err
}

// Rate returns the charge of what a request used.
func Rate(p Prices, u abi.Usage) (Charge, error) {
	if min(p.Input, p.Cached, p.Output) < 0 {
		return Charge{}, ErrPrice
	}
	input, err := checkUsage(u)
	if err != nil {
		return Charge{}, err
	}
	tier, factor := Tier(input)
	c := Charge{Tier: tier, Lines: []Line{
		{Unit: "input", Tokens: u.InputUncached + u.CacheWrite, Price: p.Input},
		{Unit: "cached_input", Tokens: u.CacheRead, Price: p.Cached},
		{Unit: "output", Tokens: u.Output, Price: p.Output},
	}}
	for i := range c.Lines {
		line := &c.Lines[i]
		var fits [3]bool
		line.Price, fits[0] = multiply(line.Price, factor)
		line.Amount, fits[1] = multiply(line.Price, abi.Nano(line.Tokens))
		c.Total, fits[2] = add(c.Total, line.Amount)
		if fits != [3]bool{true, true, true} {
			return Charge{}, ErrOverflow
		}
	}
	return c, nil
}

// checkUsage returns the true context total of a usage record that makes sense.
func checkUsage(u abi.Usage) (input int64, err error) {
	if min(u.InputUncached, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning) < 0 || u.Reasoning > u.Output {
		return 0, ErrUsage
	}
	sum, fits := add(abi.Nano(u.InputUncached), abi.Nano(u.CacheRead))
	total, fitsToo := add(sum, abi.Nano(u.CacheWrite))
	if !fits || !fitsToo {
		return 0, ErrUsage
	}
	return int64(total), nil
}

// multiply is for a and b of zero or more.
func multiply(a, b abi.Nano) (abi.Nano, bool) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return abi.Nano(low), high == 0 && low <= math.MaxInt64
}

// add is for a and b of zero or more.
func add(a, b abi.Nano) (abi.Nano, bool) {
	sum := a + b
	return sum, sum >= 0
}
