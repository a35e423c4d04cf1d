package compare

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"corenode/wasm/abi"
)

// Charges says what became of the charges that both modules made.
type Charges struct {
	Calls uint64 `json:"calls"`
	Same  uint64 `json:"same" doc:"In their total."`
	Less  uint64 `json:"less"`
	More  uint64 `json:"more"`
	// OldNanoUSD and NewNanoUSD are the sums. They stop at the largest int64.
	OldNanoUSD abi.Nano `json:"old_nano_usd" doc:"The sum of what clients paid."`
	NewNanoUSD abi.Nano `json:"new_nano_usd" doc:"The sum of what the shadow would have charged."`
	// NotMade are calls that the shadow failed on or declined; AgainstRules
	// charges and quotes that a node would not take, and Rule why, of the latest. Neither is in
	// the sums: a node would charge them by the builtin tariff, provisionally.
	NotMade      uint64 `json:"not_made" doc:"Calls that the shadow failed on or declined; not in the sums."`
	AgainstRules uint64 `json:"against_rules" doc:"Charges and quotes that a node would not take; not in the sums."`
	Rule         string `json:"rule,omitempty" doc:"Why, of the latest of those."`

	Ratios   []Ratio          `json:"ratios" doc:"A histogram of new / old."`
	Accounts []AccountCharges `json:"accounts" doc:"Those whose charges change most, at most ten, the worst first."`
}

// Ratio is one bar of the histogram.
type Ratio struct {
	Ratio string `json:"ratio" doc:"Of the new charge to the old one."`
	Calls uint64 `json:"calls"`
}

// AccountCharges is what became of the charges of one account.
type AccountCharges struct {
	Account       string   `json:"account"`
	Calls         uint64   `json:"calls"`
	OldNanoUSD    abi.Nano `json:"old_nano_usd"`
	NewNanoUSD    abi.Nano `json:"new_nano_usd"`
	MissedNanoUSD abi.Nano `json:"missed_nano_usd" doc:"Bounds what its charges changed by, more or less, before it was counted. 0: nothing."`
}

// ratios are the bars in their order. A bar holds what is below its bound and in
// no bar before it; bound is in hundredths, and 0 where bucket says which.
var ratios = []struct {
	name  string
	below int64
}{
	{"was free", 0}, {"now free", 0}, {"below 0.5", 50}, {"0.5 to 0.9", 90}, {"0.9 to 0.99", 99}, {"0.99 to 1", 100},
	{"1", 0}, {"1 to 1.01", 101}, {"1.01 to 1.1", 110}, {"1.1 to 2", 200}, {"2 to 10", 1000}, {"10 and more", 0},
}

const (
	ratioWasFree = 0
	ratioNowFree = 1
	ratioSame    = 6
)

// bucket is the bar of a charge. Charges are at most abi.ChargeMax, so that
// nothing here overflows.
func bucket(older, newer abi.Nano) int {
	switch {
	case older == newer:
		return ratioSame
	case older == 0:
		return ratioWasFree
	case newer == 0:
		return ratioNowFree
	}
	for i, r := range ratios {
		if r.below > 0 && int64(newer)*100 < int64(older)*r.below && i != ratioSame {
			return i
		}
	}
	return len(ratios) - 1
}

func newCharges() *Charges {
	c := &Charges{Ratios: make([]Ratio, len(ratios))}
	for i, r := range ratios {
		c.Ratios[i].Ratio = r.name
	}
	return c
}

func (c *Charges) add(older, newer abi.Nano) {
	c.Calls++
	switch {
	case newer < older:
		c.Less++
	case newer > older:
		c.More++
	default:
		c.Same++
	}
	c.OldNanoUSD, c.NewNanoUSD = sum(c.OldNanoUSD, older), sum(c.NewNanoUSD, newer)
	c.Ratios[bucket(older, newer)].Calls++
}

// sum adds what is not negative and stops at the end of the range.
func sum(a, b abi.Nano) abi.Nano {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

const (
	accountsMax = 256 // in the table
	worstMax    = 10  // in a report
)

// accounts finds those whose charges change most among any number, in a table of
// accountsMax (the algorithm is known as Space-Saving): the weight of an account
// is the sum of its changes, each without its sign. When the table is full, a new
// account takes the place of the lightest one and inherits its weight, as what
// may have been missed of it. An account is in the table if its true weight is
// above the sum of all weights over accountsMax.
type accounts struct {
	all map[string]*tallied
}

type tallied struct {
	AccountCharges
	weight abi.Nano // at least the true one, at most MissedNanoUSD above it
}

func (a *accounts) add(account string, older, newer abi.Nano) {
	change := max(older-newer, newer-older)
	t := a.all[account]
	if t == nil {
		if change == 0 {
			return
		}
		t = a.enter(account)
	}
	t.Calls++
	t.OldNanoUSD, t.NewNanoUSD = sum(t.OldNanoUSD, older), sum(t.NewNanoUSD, newer)
	t.weight = sum(t.weight, change)
}

// enter makes room for an account.
func (a *accounts) enter(account string) *tallied {
	t := &tallied{AccountCharges: AccountCharges{Account: strings.Clone(account)}}
	if a.all == nil {
		a.all = map[string]*tallied{}
	}
	if len(a.all) >= accountsMax {
		var lightest *tallied
		for _, other := range a.all {
			if lightest == nil || other.weight < lightest.weight {
				lightest = other
			}
		}
		delete(a.all, lightest.Account)
		t.weight, t.MissedNanoUSD = lightest.weight, lightest.weight
	}
	a.all[t.Account] = t
	return t
}

// worst are the accounts with the most weight.
func (a *accounts) worst() []AccountCharges {
	sorted := make([]*tallied, 0, len(a.all))
	for _, t := range a.all {
		sorted = append(sorted, t)
	}
	slices.SortFunc(sorted, func(x, y *tallied) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.Account, y.Account))
	})
	worst := make([]AccountCharges, 0, worstMax)
	for _, t := range sorted[:min(worstMax, len(sorted))] {
		worst = append(worst, t.AccountCharges)
	}
	return worst
}
