package main

import (
	"math/rand/v2"
	"testing"

	"corenode/wasm/abi"
)

// TestQuoteBoundsEveryCharge is the rule that the node holds a billing module to, whatever
// part of the free tokens admission gives.
func TestQuoteBoundsEveryCharge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		f := freeTier{tokens: r.Int64N(400_000)}
		p := abi.Prices{Input: abi.Nano(r.IntN(4)), Cached: abi.Nano(r.IntN(4)), Output: 1 + abi.Nano(r.IntN(50))}
		input, outputMax := r.Int64N(400_000), 1+r.Int64N(200_000)
		quote, err := f.Quote(abi.QuoteInput{Prices: p, Input: input, OutputMax: outputMax})
		if err != nil || len(quote.Takes) != 1 || quote.Takes[0] != (abi.Take{Limit: f.tokens, Max: input + outputMax}) {
			t.Fatalf("%+v, %v", quote, err)
		}
		held, upper := r.Int64N(quote.Takes[0].Max), quote.Upper
		if r.IntN(3) == 0 {
			held, upper = quote.Takes[0].Max, quote.CoveredUpper
		}
		cached := r.Int64N(input + 1)
		charge, err := f.Charge(abi.ChargeInput{Prices: p, Held: []int64{held},
			Usage: abi.Usage{InputUncached: input - cached, CacheRead: cached, Output: r.Int64N(outputMax + 1)}})
		if err != nil || charge.Total > upper || charge.Taken[0] < 0 || charge.Taken[0] > held {
			t.Fatalf("%d held: charge %+v, quote %+v, %v", held, charge, quote, err)
		}
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for _, config := range []string{`{"tokens":-1}`, `{"tokens":1.5}`, `{"free":5}`, `[]`, `{"tokens":1000000000000001}`} {
		if err := new(freeTier).Configure([]byte(config)); err == nil {
			t.Errorf("%s was taken", config)
		}
	}
}
