package extensions

import (
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// TestShippedTakeOver opens the host as the node does, with one of its modules.
func TestShippedTakeOver(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a Go guest, which takes seconds: left out of -short")
	}
	var shipped []shippedModule
	for _, s := range shippedModules() {
		if s.slot == SlotBilling { // one is enough: each takes seconds to compile
			shipped = append(shipped, s)
		}
	}
	h, l := openWith(t, Options{Dir: t.TempDir()}, shipped)
	found := false
	for _, i := range h.Modules() {
		found = found || i.Slot == SlotBilling && i.State == StateActive
	}
	if !found {
		t.Fatalf("the tariff does not serve as Wasm:\n%s", l)
	}
	q, err := h.Quote("", abi.QuoteInput{Model: "core", Account: "a", Input: 1000, OutputMax: 100})
	if err != nil || q.Bounds().Upper != 480_000 || q.Bounds().Minimum != 242_400 {
		t.Fatalf("quote %+v, %v", q, err)
	}
	defer q.Close()
	c, err := q.Charge(abi.Usage{InputUncached: 600, CacheRead: 400, Output: 50}, nil)
	if err != nil || c.Amount != 273_600 || c.Provisional || c.ModuleDigest == builtin.TariffDigest || len(c.Lines) != 3 {
		t.Fatalf("charge %+v, %v", c, err)
	}
	again, err := h.Replay(c.ModuleDigest, c.Input)
	if err != nil || again.Amount != c.Amount || again.InputHash != c.InputHash {
		t.Errorf("replay %+v, %v", again, err)
	}
}
