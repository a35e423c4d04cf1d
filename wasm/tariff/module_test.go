package tariff_test

import (
	"flag"
	"testing"

	"corenode/extensions/vector/vectortest"
	"corenode/wasm/abi"
	"corenode/wasm/tariff"
)

var update = flag.Bool("update", false, "rewrite the golden vectors; read the diff before you commit it")

// TestVectors runs the vectors that the module file carries on the native build.
func TestVectors(t *testing.T) { vectortest.Run(t, tariff.New(), false, *update, "vectors") }

// TestModuleIsTheTariff: what passes the boundary is what the functions say.
func TestModuleIsTheTariff(t *testing.T) {
	handler := tariff.New()
	prices := abi.Prices{Input: 240, Cached: 24, Output: 2400}
	used := abi.Usage{InputUncached: 150_000, CacheRead: 60_000, Output: 70, Reasoning: 9}
	out, err := abi.ParseOutput(handler(abi.OpCharge, abi.ChargeInput{Prices: prices, Usage: used, Model: "m", Account: "a"}.Append(nil), nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := abi.ParseCharge(out.Payload)
	want, wantErr := tariff.Rate(prices, used)
	if err != nil || wantErr != nil || got.Total != want.Total || got.Tier != 2 || len(got.Lines) != 3 {
		t.Errorf("charge %+v, %v; want %+v, %v", got, err, want, wantErr)
	}
	out, err = abi.ParseOutput(handler(abi.OpQuote, abi.QuoteInput{Prices: prices, Input: 210_000, OutputMax: 8}.Append(nil), nil))
	if err != nil {
		t.Fatal(err)
	}
	quote, err := abi.ParseQuote(out.Payload)
	if upper, minimum, wantErr := tariff.Quote(prices, 210_000, 8); err != nil || wantErr != nil ||
		quote.Upper != upper || quote.Minimum != minimum || quote.Takes != nil {
		t.Errorf("quote %+v, %v; want %d, %d, %v", quote, err, upper, minimum, wantErr)
	}
}

func BenchmarkCharge(b *testing.B) {
	handler := tariff.New()
	in := abi.ChargeInput{Prices: abi.Prices{Input: 240, Cached: 24, Output: 2400}, Usage: abi.Usage{InputUncached: 600, Output: 50},
		Model: "core-1.1", Account: "account"}.Append(nil)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = handler(abi.OpCharge, in, out[:0])
	}
}
