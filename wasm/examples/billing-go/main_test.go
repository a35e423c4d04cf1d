package main

import (
	"math/rand/v2"
	"testing"

	"corenode/wasm/abi"
)

// TestQuoteBoundsEveryCharge is the rule that the node holds a billing module
// to: nothing that a request may use costs more than its quote said.
func TestQuoteBoundsEveryCharge(t *testing.T) {
	var d discount
	if err := d.Configure([]byte(`{"accounts": {"acme": 33}, "long_output": {"above_tokens": 500, "percent": 17}}`)); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		p := abi.Prices{Input: abi.Nano(r.IntN(4)), Cached: abi.Nano(r.IntN(4)), Output: abi.Nano(r.IntN(50))}
		input, outputMax := r.Int64N(2*longContext), r.Int64N(2000)
		account := []string{"acme", "other"}[r.IntN(2)]
		quote, err := d.Quote(abi.QuoteInput{Prices: p, Input: input, OutputMax: outputMax, Account: account})
		if err != nil {
			t.Fatal(err)
		}
		cached := r.Int64N(input + 1)
		charge, err := d.Charge(abi.ChargeInput{Prices: p, Account: account,
			Usage: abi.Usage{InputUncached: input - cached, CacheRead: cached, Output: r.Int64N(outputMax + 1)}})
		if err != nil || charge.Total > quote.Upper || quote.Minimum > quote.Upper {
			t.Fatalf("charge %d, quote %+v, %v", charge.Total, quote, err)
		}
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for _, config := range []string{`{"accounts":{"a":100}}`, `{"accounts":{"a":-1}}`, `{"long_output":{"percent":100}}`, `{"discount":5}`, `[]`} {
		if err := new(discount).Configure([]byte(config)); err == nil {
			t.Errorf("%s was taken", config)
		}
	}
}
