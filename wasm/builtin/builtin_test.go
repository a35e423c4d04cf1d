package builtin

import (
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/tariff"
)

// TestDigestNamesThisArithmetic fails when charges come out differently
// under the same digest: raise its number with the new amounts.
func TestDigestNamesThisArithmetic(t *testing.T) {
	p := abi.Prices{Input: 3, Cached: 2, Output: 5}
	plain, err := tariff.Rate(p, abi.Usage{InputUncached: 100_000, CacheRead: 99_999, CacheWrite: 1, Output: 7})
	if err != nil || plain.Total != 500_036 {
		t.Errorf("plain: %+v, %v", plain, err)
	}
	long, err := tariff.Rate(p, abi.Usage{InputUncached: 100_000, CacheRead: 100_000, CacheWrite: 1, Output: 7})
	if err != nil || long.Total != 1_000_076 {
		t.Errorf("long: %+v, %v", long, err)
	}
	upper, minimum, err := tariff.Quote(p, 10, 4)
	if err != nil || upper != 50 || minimum != 35 {
		t.Errorf("quote: %d, %d, %v", upper, minimum, err)
	}
	if TariffDigest != "builtin:tariff@1" {
		t.Errorf("digest %s: pin its amounts here", TariffDigest)
	}
}
