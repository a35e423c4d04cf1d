// Command free-tier is a billing module with a counter: the first tokens of each month are
// free, those after them have the listed prices. The operator's configuration says how many:
//
//	{"tokens": 1000000}
//
// A quote asks for all the tokens that the request may use; what it gets of them is the
// node's to say, which counts for each account and month. Input comes before output. A
// request that gets all it asked for needs no money.
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
	f := &freeTier{}
	sdk.ServeConfigurable(sdk.BillingHandler(f), f)
}

func main() {}

type freeTier struct{ tokens int64 }

// Configure may use encoding/json: it runs once, not for every request.
func (f *freeTier) Configure(config []byte) error {
	c := struct {
		Tokens int64 `json:"tokens"`
	}{1_000_000}
	decoder := json.NewDecoder(strings.NewReader(string(config)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return err
	}
	if c.Tokens < 0 || c.Tokens > abi.CounterMax {
		return fmt.Errorf("tokens is %d, want 0 to %d", c.Tokens, abi.CounterMax)
	}
	f.tokens = c.Tokens
	return nil
}

// Quote bounds the charge where nothing is free; where all of it is, it is 0.
func (f *freeTier) Quote(in abi.QuoteInput) (abi.Quote, error) {
	dear := in.Prices
	dear.Input = max(dear.Input, dear.Cached) // the dearest way to read the prompt
	upper, err := rate(dear, abi.Usage{InputUncached: in.Input, Output: in.OutputMax}, 0)
	if err != nil {
		return abi.Quote{}, err
	}
	least, err := rate(in.Prices, abi.Usage{InputUncached: in.Input, Output: min(in.OutputMax, 1)}, 0)
	return abi.Quote{Upper: upper.Total, Minimum: least.Total,
		Takes: []abi.Take{{Limit: f.tokens, Max: in.Input + in.OutputMax}}}, err
}

// Charge rates what was used beyond the free tokens that the request holds.
func (f *freeTier) Charge(in abi.ChargeInput) (abi.Charge, error) {
	free := int64(0)
	if len(in.Held) > 0 {
		free = min(in.Held[0], in.Usage.Input()+in.Usage.Output)
	}
	charge, err := rate(in.Prices, in.Usage, free)
	if len(in.Held) > 0 {
		charge.Taken = []int64{free}
	}
	return charge, err
}

// errAmount declines: the node charges its built-in tariff instead.
var errAmount = errors.New("a number is below zero or does not fit")

// rate charges what was used but for the first free tokens of it.
func rate(p abi.Prices, u abi.Usage, free int64) (abi.Charge, error) {
	charge := abi.Charge{Tier: 1}
	left := free
	for _, part := range []struct {
		unit   string
		tokens int64
		price  abi.Nano
	}{
		{"input", u.InputUncached + u.CacheWrite, p.Input},
		{"cached_input", u.CacheRead, p.Cached},
		{"output", u.Output, p.Output},
	} {
		if part.tokens < 0 || part.price < 0 || left < 0 {
			return abi.Charge{}, errAmount
		}
		covered := min(part.tokens, left)
		left -= covered
		high, amount := bits.Mul64(uint64(part.tokens-covered), uint64(part.price))
		line := abi.Line{Unit: part.unit, Tokens: part.tokens - covered, Price: part.price, Amount: abi.Nano(amount)}
		if charge.Total += line.Amount; high > 0 || line.Amount < 0 || charge.Total < 0 {
			return abi.Charge{}, errAmount
		}
		charge.Lines = append(charge.Lines, line)
	}
	if free > 0 {
		charge.Lines = append(charge.Lines, abi.Line{Unit: "free", Tokens: free})
	}
	return charge, nil
}
