// Package builtin is what ships with the binary: each module as a Wasm file,
// which serves by default, and the native build of the same logic, which is its
// oracle in tests and its fallback at run time. The extension host takes its
// modules from here and from nowhere else. `make wasm` builds the files.
package builtin

import (
	"fmt"
	"slices"

	"corenode/wasm"
	"corenode/wasm/abi"
	"corenode/wasm/tariff"
)

const (
	// TariffName is the name of the shipped billing module.
	TariffName = "tariff"
	// TariffDigest stands where a Wasm module's digest would: the native build
	// has none. The number rises whenever a charge could come out differently,
	// so that a row says which arithmetic gave its amount.
	TariffDigest = "builtin:tariff@1"
)

// ErrOverflow means that an amount does not fit; see tariff.ErrOverflow.
var ErrOverflow = tariff.ErrOverflow

// ParsePrice reads dollars per million tokens as nano-dollars per token; see tariff.ParsePrice.
func ParsePrice(text string) (abi.Nano, error) { return tariff.ParsePrice(text) }

// ParseUSD reads dollars as nano-dollars; see tariff.ParseUSD.
func ParseUSD(text string) (abi.Nano, error) { return tariff.ParseUSD(text) }

// FormatUSD writes nano-dollars as dollars; see tariff.FormatUSD.
func FormatUSD(amount abi.Nano) string { return tariff.FormatUSD(amount) }

// Kinds returns what a project can be of; see wasm.Kinds.
func Kinds() []string { return wasm.Kinds() }

// Project returns the files of a new module's project; see wasm.Project. The names of the
// modules that ship are theirs: a node takes no other module of such a name.
func Project(kind, lang, name string) (map[string][]byte, error) {
	if slices.ContainsFunc(Modules(), func(m Module) bool { return m.Name == name }) {
		return nil, fmt.Errorf("name is %s, which a module that ships has: take another", name)
	}
	return wasm.Project(kind, lang, name)
}
