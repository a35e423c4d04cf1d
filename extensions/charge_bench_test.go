//go:build unix

package extensions

import (
	"encoding/json"
	"testing"

	"corenode/extensions/guest"
	"corenode/extensions/meter"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// BenchmarkQuoteAndCharge is what billing costs a request: both calls of the
// tariff, as the shipped module and as native code.
func BenchmarkQuoteAndCharge(b *testing.B) {
	for _, c := range []struct {
		name   string
		native bool
	}{{"wasm", false}, {"native", true}} {
		b.Run(c.name, func(b *testing.B) {
			h, _ := openTest(b, Options{})
			if !c.native {
				for _, m := range builtin.Modules() {
					if m.Kind == "billing" {
						wasm, err := m.Wasm()
						if err != nil {
							b.Fatal(err)
						}
						manifest, err := guest.ReadManifest(wasm)
						if err != nil {
							b.Fatal(err)
						}
						manifest.Name = "charged" // its own is taken
						section, err := json.Marshal(manifest)
						if err != nil {
							b.Fatal(err)
						}
						if wasm, err = meter.WithCustomSection(wasm, guest.ManifestSection, section); err != nil {
							b.Fatal(err)
						}
						activate(b, h, wasm)
					}
				}
			}
			b.ReportAllocs()
			defer cpu(b, 1)()
			for b.Loop() {
				q, err := h.Quote("", ratingInput)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := q.Charge(abi.Usage{InputUncached: 66, Output: 16}, nil); err != nil {
					b.Fatal(err)
				}
				q.Close()
			}
		})
	}
}
