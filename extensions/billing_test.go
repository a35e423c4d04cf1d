package extensions

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

func TestBilling(t *testing.T) {
	prices := map[string]Prices{"core": {Input: 240, Cached: 24, Output: 2400}}
	b := NewBilling(prices)
	prices["core"] = Prices{} // what the caller does with its map later changes no price

	upper, minimum, err := b.Quote("core", 1000, 100)
	if err != nil || upper != 240_000+240_000 || minimum != 240_000+2400 {
		t.Errorf("Quote = %d, %d, %v", upper, minimum, err)
	}
	used := abi.Usage{InputUncached: 600, CacheRead: 400, Output: 50, Reasoning: 20}
	charge, err := b.Charge("core", used)
	if err != nil || charge.Amount != 144_000+9_600+120_000 || charge.Tier != 1 || charge.Provisional ||
		len(charge.Lines) != 3 || charge.ModuleDigest != builtin.TariffDigest {
		t.Errorf("Charge = %+v, %v", charge, err)
	}
	for _, model := range []string{"", "other"} {
		if _, _, err := b.Quote(model, 1, 1); !errors.Is(err, ErrNoPrice) {
			t.Errorf("Quote for %q: %v", model, err)
		}
		if _, err := b.Charge(model, used); !errors.Is(err, ErrNoPrice) {
			t.Errorf("Charge for %q: %v", model, err)
		}
	}
	if _, err := b.Charge("core", abi.Usage{Output: -1}); err == nil {
		t.Error("negative usage was charged")
	}
}

// TestInputHash pins the layout that old ledger rows were hashed with: the
// bytes are written out here by hand.
func TestInputHash(t *testing.T) {
	record := []byte("charge/1" +
		"\xf0\x00\x00\x00\x00\x00\x00\x00" + "\x18\x00\x00\x00\x00\x00\x00\x00" + "\x60\x09\x00\x00\x00\x00\x00\x00" +
		"\x58\x02\x00\x00\x00\x00\x00\x00" + "\x90\x01\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x32\x00\x00\x00\x00\x00\x00\x00" + "\x14\x00\x00\x00\x00\x00\x00\x00")
	want := sha256.Sum256(record)
	b := NewBilling(map[string]Prices{"core": {Input: 240, Cached: 24, Output: 2400}})
	charge, err := b.Charge("core", abi.Usage{InputUncached: 600, CacheRead: 400, Output: 50, Reasoning: 20})
	if err != nil || charge.InputHash != hex.EncodeToString(want[:]) {
		t.Errorf("hash %s, %v; want %x", charge.InputHash, err, want)
	}
}
