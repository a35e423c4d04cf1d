// Command discount is a billing module: the listed prices, less what each
// account has agreed on, and less for long answers. The operator's
// configuration holds whole percents:
//
//	{"accounts": {"acme": 20}, "long_output": {"above_tokens": 4000, "percent": 10}}
//
// An account's discount is off everything; the one for long answers is off the
// output tokens above the bound, on top. Above 200,000 tokens of context the
// prices are twice the listed ones, as in the built-in tariff. Amounts are
// rounded up to whole nano-dollars.
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
	d := &discount{}
	sdk.ServeConfigurable(sdk.BillingHandler(d), d)
}

func main() {}

type discount struct {
	accounts   map[string]int64 // percent off, 0 to 99
	outputFrom int64            // output tokens at the account's full price
	percent    int64            // off the others
}

// Configure may use encoding/json: it runs once, not for every request.
func (d *discount) Configure(config []byte) error {
	var c struct {
		Accounts   map[string]int64 `json:"accounts"`
		LongOutput struct {
			AboveTokens int64 `json:"above_tokens"`
			Percent     int64 `json:"percent"`
		} `json:"long_output"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(config)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return err
	}
	for account, percent := range c.Accounts {
		if percent < 0 || percent > 99 {
			return fmt.Errorf("accounts.%s is %d, want 0 to 99 percent", account, percent)
		}
	}
	if c.LongOutput.Percent < 0 || c.LongOutput.Percent > 99 || c.LongOutput.AboveTokens < 0 {
		return errors.New("long_output: want above_tokens of zero or more and percent of 0 to 99")
	}
	d.accounts, d.outputFrom, d.percent = c.Accounts, c.LongOutput.AboveTokens, c.LongOutput.Percent
	return nil
}

// longContext is the largest context, in tokens, at the listed prices. The prices
// in an input are those of the listing, whatever its context is.
const longContext = 200_000

// errAmount declines: the node charges its built-in tariff instead.
var errAmount = errors.New("a number is below zero or does not fit")

// Quote is a charge of the most that the request may use, and of the least.
func (d *discount) Quote(in abi.QuoteInput) (abi.Quote, error) {
	dear := in.Prices
	dear.Input = max(dear.Input, dear.Cached) // the dearest way to read the prompt
	upper, err := d.Charge(abi.ChargeInput{Prices: dear, Account: in.Account,
		Usage: abi.Usage{InputUncached: in.Input, Output: in.OutputMax}})
	if err != nil {
		return abi.Quote{}, err
	}
	least, err := d.Charge(abi.ChargeInput{Prices: in.Prices, Account: in.Account,
		Usage: abi.Usage{InputUncached: in.Input, Output: min(in.OutputMax, 1)}})
	// One line may become several, and each rounds up by less than one.
	return abi.Quote{Upper: upper.Total + abi.Nano(len(upper.Lines)), Minimum: least.Total}, err
}

// Charge rates what was used.
func (d *discount) Charge(in abi.ChargeInput) (abi.Charge, error) {
	u, rates, tier := in.Usage, in.Prices, 1
	if u.Input() > longContext {
		tier, rates = 2, abi.Prices{Input: 2 * rates.Input, Cached: 2 * rates.Cached, Output: 2 * rates.Output}
	}
	short, long := u.Output, int64(0)
	if d.percent > 0 {
		short = min(u.Output, d.outputFrom)
		long = u.Output - short
	}
	pays := 100 - d.accounts[in.Account]
	charge := abi.Charge{Tier: tier, Lines: []abi.Line{
		line("input", u.InputUncached+u.CacheWrite, rates.Input, pays, 100),
		line("cached_input", u.CacheRead, rates.Cached, pays, 100),
		line("output", short, rates.Output, pays, 100),
		line("output_long", long, rates.Output, pays*(100-d.percent), 100*100),
	}}
	for _, l := range charge.Lines {
		if charge.Total += l.Amount; l.Amount < 0 || charge.Total < 0 {
			return abi.Charge{}, errAmount
		}
	}
	return charge, nil
}

// line is tokens at parts/of the price, rounded up. An amount of -1 does not fit.
func line(unit string, tokens int64, price abi.Nano, parts, of int64) abi.Line {
	l := abi.Line{Unit: unit, Tokens: tokens, Price: price, Amount: -1}
	if tokens < 0 || price < 0 {
		return l
	}
	high, full := bits.Mul64(uint64(tokens), uint64(price))
	if high > 0 || full > 1<<63/uint64(of) {
		return l
	}
	l.Amount = abi.Nano((full*uint64(parts) + uint64(of) - 1) / uint64(of))
	return l
}
