package abi

// UnitBytes is the room for a line's unit, LinesMax the most lines of a charge.
const (
	UnitBytes = 16
	LinesMax  = 16
)

// ChargeMax bounds what a request may be quoted and charged: a million dollars.
// None costs that much, but a policy that counts in a wrong unit may say so; and
// thousands of such sums still fit an int64, as balances and holds must.
const ChargeMax Nano = 1e15
