package main

import (
	"math/rand/v2"
	"testing"

	"corenode/wasm/abi"
)

// TestQuoteBoundsEveryCharge is the rule that the node holds a billing module
// to: nothing that a request may use costs more than its quote said. Here a quote
// of which the least is 0 is as usual as one of which it is not.
func TestQuoteBoundsEveryCharge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	nothing := 0
	for range 10_000 {
		f := firstFree{tokens: r.Int64N(2 * longContext)}
		p := abi.Prices{Input: abi.Nano(r.IntN(4)), Cached: abi.Nano(r.IntN(4)), Output: 1 + abi.Nano(r.IntN(50))}
		input, outputMax := r.Int64N(2*longContext), r.Int64N(200_000)
		quote, err := f.Quote(abi.QuoteInput{Prices: p, Input: input, OutputMax: outputMax})
		if err != nil {
			t.Fatal(err)
		}
		if quote.Minimum == 0 && quote.Upper > 0 {
			nothing++
		}
		cached := r.Int64N(input + 1)
		charge, err := f.Charge(abi.ChargeInput{Prices: p,
			Usage: abi.Usage{InputUncached: input - cached, CacheRead: cached, Output: r.Int64N(outputMax + 1)}})
		if err != nil || charge.Total > quote.Upper || quote.Minimum > quote.Upper {
			t.Fatalf("%d free: charge %d, quote %+v, %v", f.tokens, charge.Total, quote, err)
		}
	}
	if nothing < 1000 {
		t.Errorf("%d quotes had a minimum of 0: the test proves little", nothing)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for _, config := range []string{`{"free_tokens":-1}`, `{"free_tokens":1.5}`, `{"tokens":5}`, `[]`} {
		if err := new(firstFree).Configure([]byte(config)); err == nil {
			t.Errorf("%s was taken", config)
		}
	}
}
