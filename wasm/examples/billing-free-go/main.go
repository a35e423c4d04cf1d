// Command first-free is a billing module: the first tokens of each request are
// free, the others have the listed prices. The operator's configuration says how
// many:
//
//	{"free_tokens": 1000}
//
// Input comes before output, what was computed before what was cached. A request
// that may stay within the free tokens has a minimum of 0: an account without money
// gets it, holds what it has, and owes the rest if the answer becomes long. Above
// 200,000 tokens of context the prices are twice the listed ones, as in the built-in
// tariff.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

func init() {
	f := &firstFree{}
	sdk.ServeConfigurable(sdk.BillingHandler(f), f)
}

func main() {}

type firstFree struct{ tokens int64 }

// Configure may use encoding/json: it runs once, not for every request.
func (f *firstFree) Configure(config []byte) error {
	var c struct {
		FreeTokens int64 `json:"free_tokens"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(config)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return err
	}
	if c.FreeTokens < 0 {
		return fmt.Errorf("free_tokens is %d, want zero or more", c.FreeTokens)
	}
	f.tokens = c.FreeTokens
	return nil
}

// longContext is the largest context, in tokens, at the listed prices. The prices
// in an input are those of the listing, whatever its context is.
const longContext = 200_000

// errAmount declines: the node charges its built-in tariff instead.
var errAmount = errors.New("a number is below zero or does not fit")

// Quote is a charge of the most that the request may use, and of the least.
func (f *firstFree) Quote(in abi.QuoteInput) (abi.Quote, error) {
	dear := in.Prices
	dear.Input = max(dear.Input, dear.Cached) // the dearest way to read the prompt
	upper, err := f.Charge(abi.ChargeInput{Prices: dear, Usage: abi.Usage{InputUncached: in.Input, Output: in.OutputMax}})
	if err != nil {
		return abi.Quote{}, err
	}
	least, err := f.Charge(abi.ChargeInput{Prices: in.Prices, Usage: abi.Usage{InputUncached: in.Input, Output: min(in.OutputMax, 1)}})
	return abi.Quote{Upper: upper.Total, Minimum: least.Total}, err
}

// Charge rates what was used.
func (f *firstFree) Charge(in abi.ChargeInput) (abi.Charge, error) {
	u, rates := in.Usage, in.Prices
	charge := abi.Charge{Tier: 1}
	if u.Input() > longContext {
		charge.Tier, rates = 2, abi.Prices{Input: 2 * rates.Input, Cached: 2 * rates.Cached, Output: 2 * rates.Output}
	}
	left := f.tokens
	for _, part := range []struct {
		unit   string
		tokens int64
		price  abi.Nano
	}{
		{"input", u.InputUncached + u.CacheWrite, rates.Input},
		{"cached_input", u.CacheRead, rates.Cached},
		{"output", u.Output, rates.Output},
	} {
		if part.tokens < 0 || part.price < 0 {
			return abi.Charge{}, errAmount
		}
		free := min(part.tokens, left)
		left -= free
		high, amount := bits.Mul64(uint64(part.tokens-free), uint64(part.price))
		line := abi.Line{Unit: part.unit, Tokens: part.tokens - free, Price: part.price, Amount: abi.Nano(amount)}
		if charge.Total += line.Amount; high > 0 || line.Amount < 0 || charge.Total < 0 {
			return abi.Charge{}, errAmount
		}
		charge.Lines = append(charge.Lines, line)
	}
	if free := f.tokens - left; free > 0 {
		charge.Lines = append(charge.Lines, abi.Line{Unit: "free", Tokens: free})
	}
	return charge, nil
}
