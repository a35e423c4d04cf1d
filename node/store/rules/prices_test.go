package rules

import (
	"testing"
	"time"

	"corenode/wasm/abi"
)

// TestPricesAtTheTimeOfAQuote: what a crash left open is charged at the prices of its quote, however
// often they changed since; what is older than any request is forgotten.
func TestPricesAtTheTimeOfAQuote(t *testing.T) {
	listed := func(a, b int64) map[string]abi.Prices {
		return map[string]abi.Prices{"a": {Input: abi.Nano(a)}, "b": {Input: abi.Nano(b)}}
	}
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.FixedZone("east", 3600))
	kept := PricesAfter(listed(1, 1), listed(1, 1), listed(2, 1), noon)
	kept = PricesAfter(kept, listed(2, 1), listed(3, 5), noon.Add(time.Hour))
	for _, c := range []struct {
		model string
		at    time.Time
		want  abi.Nano
	}{{"a", noon.Add(-1), 1}, {"a", noon, 2}, {"a", noon.Add(time.Hour - 1), 2}, {"a", noon.Add(time.Hour), 3},
		{"b", noon, 1}, {"b", noon.Add(2 * time.Hour), 5}} {
		if p, ok := PricesAt(kept, c.model, c.at); !ok || p.Input != c.want {
			t.Errorf("%s at %v: %v, %v; want %d", c.model, c.at, p.Input, ok, c.want)
		}
	}
	if _, ok := PricesAt(kept, "c", noon); ok {
		t.Error("a model that was never listed has prices")
	}
	kept[pricesUntil("a", noon.Add(27*time.Hour))] = abi.Prices{} // of a change that did not come about
	kept = PricesAfter(kept, listed(3, 5), listed(4, 5), noon.Add(26*time.Hour))
	if _, ok := kept[pricesUntil("a", noon)]; len(kept) != 3 || ok { // both models, and a's prices until now
		t.Errorf("kept are %v", kept)
	}
}
