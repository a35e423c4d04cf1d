package extensions

import (
	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// Charge is what a request costs, with the columns of its ledger row.
type Charge struct {
	// Amount is the cost, zero or more. The settlement's row has its negative.
	Amount abi.Nano
	Tier   int
	Lines  []abi.Line
	// ModuleDigest names the code that made the charge, InputHash the input:
	// the SHA-256 of Input, in hex.
	ModuleDigest string
	InputHash    string
	// Input is what the module was given, an encoded abi.ChargeInput.
	Input []byte
	// Counters is what was taken of the counters that the request held.
	Counters []abi.Counter
	taken    []int64 // in the order of the module's manifest
	// Provisional marks a charge that was made in place of a module that failed
	// or is not in memory. It is to be rated again.
	Provisional bool
}

func newCharge(c abi.Charge, digest string) Charge {
	out := Charge{Amount: c.Total, Tier: c.Tier, ModuleDigest: digest, Lines: make([]abi.Line, len(c.Lines)), taken: c.Taken}
	for i, l := range c.Lines {
		l.Unit = guest.Clean(l.Unit, abi.UnitBytes)
		out.Lines[i] = l
	}
	return out
}
