package abi

// A billing module whose manifest names counters reserves of them as it does of money:
// a quote says how much a request may take at most, admission holds it, and the charge
// says what of it was taken. The rest goes back.

// Take is what a quote says of one counter. Invariant: both are 0 to CounterMax.
type Take struct {
	Limit int64 // what the account may take of the counter in its period
	Max   int64 // what the request may take of that
}

// CountersMax is the most counters that a manifest names, CounterMax the most that one counts.
const (
	CountersMax       = 4
	CounterMax  int64 = 1e15
)

// Counter is an amount of one counter of an account in one period. The node names
// counters by their module and periods by their day or month: "free-tier/tokens", "2026-11".
type Counter struct {
	Name   string `json:"name"`
	Period string `json:"period"`
	Limit  int64  `json:"limit"`
	Amount int64  `json:"amount"`
}

const chargeCountersTag = "charge/3"

// appendCounts and counts are a count u32 and so many numbers, at most CountersMax.
func appendCounts(dst []byte, all []int64) []byte {
	return appendInts(appendU32(dst, uint32(len(all))), all...)
}

func (c *cursor) counts() []int64 {
	n := c.u32()
	if n == 0 || n > CountersMax {
		c.err = ErrMalformed
	}
	if c.err != nil {
		return nil
	}
	all := make([]int64, n)
	for i := range all {
		all[i] = c.i64()
	}
	return all
}
