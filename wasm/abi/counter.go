package abi

// A billing module whose manifest names counters reserves of them as it does of money:
// a quote says how much a request may take at most, admission holds it, and the charge
// says what of it was taken. The rest goes back.

// CountersMax is the most counters that a manifest names, CounterMax the most that one
// counts: 0 <= Take.Limit, Take.Max <= CounterMax.
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

// appendCounts and countsAt are a count u32 and so many numbers, at most CountersMax.
func appendCounts(dst []byte, all []int64) []byte {
	return appendInts(appendU32(dst, uint32(len(all))), all...)
}

func countsAt(b []byte, at int) (all []int64, end int) {
	if !room(b, at, 4) {
		return nil, -1
	}
	n := Uint32(b, at)
	if at += 4; n == 0 || n > CountersMax || !room(b, at, 8*int(n)) {
		return nil, -1
	}
	all = make([]int64, n)
	for i := range all {
		all[i] = int64(Uint64(b, at+8*i))
	}
	return all, at + 8*int(n)
}
