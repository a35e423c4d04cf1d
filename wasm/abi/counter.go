package abi

import "strings"

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

// admissionCounters begins the names of the counters of admission modules, which have their
// module's name and their own behind it. That of a billing module has one slash.
const admissionCounters = "admission/"

// CounterName is what the node calls a counter of a module.
func CounterName(admission bool, module, counter string) string {
	if admission {
		return admissionCounters + module + "/" + counter
	}
	return module + "/" + counter
}

// tokensCounter is the counter of an admission module that gives back the tokens that were
// reserved and not used.
const tokensCounter = "tokens"

// Settled is what a request of that usage takes of what it holds, where the counter is an
// admission module's: of tokens those that it used, of others all of it.
func (c Counter) Settled(u Usage) (taken Counter, admission bool) {
	rest, admission := strings.CutPrefix(c.Name, admissionCounters)
	_, own, module := strings.Cut(rest, "/")
	if admission = admission && module; admission && own == tokensCounter {
		c.Amount = min(c.Amount, u.Input()+u.Output)
	}
	return c, admission
}

// Settled is what a request of that usage takes of all that it holds, where nobody says what it
// takes of a billing module's: of those all of it.
func Settled(held []Counter, u Usage) []Counter {
	all := make([]Counter, len(held))
	for i, c := range held {
		all[i], _ = c.Settled(u)
	}
	return all
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
