package extensions

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"

	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// ErrNoPrice means that a model has no price. Nothing is free by accident:
// such a request is neither quoted nor charged.
var ErrNoPrice = errors.New("the model has no price")

// Prices are nano-dollars per token; see builtin.Prices.
type Prices = builtin.Prices

// Line is one part of a charge; see builtin.Line.
type Line = builtin.Line

// Charge is what a request costs, with the columns of its ledger row.
type Charge struct {
	// Amount is the cost, zero or more. The settlement's row has its negative.
	Amount abi.Nano
	Tier   int
	Lines  []Line
	// ModuleDigest names the code that made the charge, InputHash the input:
	// the SHA-256, in hex, of the record that chargeInput describes.
	ModuleDigest string
	InputHash    string
	// Input is the record that InputHash is of, an encoded abi.ChargeInput; nil
	// from a Billing.
	Input []byte
	// Provisional marks a charge that the built-in tariff made in place of a
	// module that failed. It is to be rated again.
	Provisional bool
}

// Billing rates requests by the prices of their model, natively and without a
// Host. It is immutable and safe for concurrent use; a change of prices makes a
// new one.
type Billing struct{ prices map[string]Prices }

// NewBilling makes a Billing from the prices of each model id.
func NewBilling(prices map[string]Prices) *Billing {
	return &Billing{prices: maps.Clone(prices)}
}

// Quote bounds the charge of a request before it runs: upper is the most it
// can cost, minimum what the account must have for it to start.
func (b *Billing) Quote(model string, inputTokens, outputMax int64) (upper, minimum abi.Nano, err error) {
	prices, ok := b.prices[model]
	if !ok {
		return 0, 0, fmt.Errorf("quote for %q: %w", model, ErrNoPrice)
	}
	upper, minimum, err = builtin.Quote(prices, inputTokens, outputMax)
	if err != nil {
		return 0, 0, fmt.Errorf("quote for %q: %w", model, err)
	}
	return upper, minimum, nil
}

// Charge rates what a request used.
func (b *Billing) Charge(model string, used abi.Usage) (Charge, error) {
	prices, ok := b.prices[model]
	if !ok {
		return Charge{}, fmt.Errorf("charge for %q: %w", model, ErrNoPrice)
	}
	rated, err := builtin.Rate(prices, used)
	if err != nil {
		return Charge{}, fmt.Errorf("charge for %q: %w", model, err)
	}
	hash := sha256.Sum256(chargeInput(prices, used))
	return Charge{
		Amount: rated.Total, Tier: rated.Tier, Lines: rated.Lines[:],
		ModuleDigest: builtin.TariffDigest, InputHash: hex.EncodeToString(hash[:]),
	}, nil
}

// chargeInput is the canonical form of what a charge depends on: the tag
// "charge/1", then little-endian 64-bit integers: the prices of input, cached
// input and output, the usage's uncached input, cache reads, cache writes,
// output and reasoning. Hashes in old ledger rows depend on it: a new layout
// takes a new tag.
func chargeInput(p Prices, u abi.Usage) []byte {
	record := make([]byte, 0, 72)
	record = append(record, "charge/1"...)
	for _, n := range [...]int64{
		int64(p.Input), int64(p.Cached), int64(p.Output),
		u.InputUncached, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning,
	} {
		record = binary.LittleEndian.AppendUint64(record, uint64(n))
	}
	return record
}
