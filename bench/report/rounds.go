package report

import (
	"fmt"
	"io"
	"slices"
)

// foreignMax is the share of the machine's time that other programs may use
// while something is measured; above it that round of it does not count.
const foreignMax = 0.05

// Rounds says which rounds count.
type Rounds struct {
	Run       int     `json:"run"`
	Discarded int     `json:"discarded"`
	Disturbed bool    `json:"disturbed"`   // every round was, so that all count
	Foreign   float64 `json:"foreign_max"` // the most foreign CPU use in a round that counts
}

// Quiet leaves out the rounds in which other programs disturbed what is
// measured. When that leaves nothing, all rounds count and Rounds says so.
func Quiet[T any](all []T, foreign func(T) float64) (kept []T, r Rounds) {
	kept = slices.DeleteFunc(slices.Clone(all), func(one T) bool { return foreign(one) > foreignMax })
	r.Run, r.Discarded = len(all), len(all)-len(kept)
	if r.Disturbed = r.Run > 0 && len(kept) == 0; r.Disturbed {
		kept = all
	}
	for _, one := range kept {
		r.Foreign = max(r.Foreign, foreign(one))
	}
	return kept, r
}

// String says which rounds count.
func (r Rounds) String() string {
	if r.Disturbed {
		return fmt.Sprintf("DISTURBED: in each of %d rounds others used more than %.0f %% of the machine (up to %.1f %%); all were kept",
			r.Run, 100*foreignMax, 100*r.Foreign)
	}
	return fmt.Sprintf("%d rounds, %d of them thrown out since others used more than %.0f %% of the machine", r.Run,
		r.Discarded, 100*foreignMax)
}

// RowRounds is Rounds as one row of a table has them.
type RowRounds struct {
	Rounds    int  `json:"rounds"`
	Discarded int  `json:"discarded"`
	Disturbed bool `json:"disturbed"`
}

// Row is r for one row.
func (r Rounds) Row() RowRounds { return RowRounds{r.Run, r.Discarded, r.Disturbed} }

// Cell shows how many rounds count.
func (r RowRounds) Cell() string {
	if r.Disturbed {
		return fmt.Sprintf("DISTURBED, all %d", r.Rounds)
	}
	return fmt.Sprintf("%d of %d", r.Rounds-r.Discarded, r.Rounds)
}

// Gate is a bound on a median.
type Gate struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Aim   float64 `json:"aim,omitempty"` // what the project wants to reach; 0 for none
	// AtLeast says that the limit is met from it on; otherwise below it.
	AtLeast bool `json:"at_least"`
	Met     bool `json:"met"`
}

// Below is a gate that values under its limit meet. A zero was not measured and meets none.
func Below(name string, value, limit float64) Gate {
	return Gate{Name: name, Value: value, Limit: limit, Met: value > 0 && value < limit}
}

// AtLeast is a gate that values from its limit on meet.
func AtLeast(name string, value, limit float64) Gate {
	return Gate{Name: name, Value: value, Limit: limit, AtLeast: true, Met: value > 0 && value >= limit}
}

// AtMost is a gate with an aim; values up to its limit meet it.
func AtMost(name string, value, limit, aim float64) Gate {
	return Gate{Name: name, Value: value, Limit: limit, Aim: aim, Met: value > 0 && value <= limit}
}

// Gates are those of one result.
type Gates []Gate

// Met says whether every gate is.
func (g Gates) Met() bool { return !slices.ContainsFunc(g, func(g Gate) bool { return !g.Met }) }

// Print writes a table of the gates.
func (g Gates) Print(w io.Writer) error {
	headings := []string{"GATE", "VALUE", "LIMIT", ""}
	var rows [][]string
	for _, one := range g {
		limit, verdict := "< ", "met"
		if one.AtLeast {
			limit = ">= "
		}
		if !one.Met {
			verdict = "MISSED"
		}
		row := []string{one.Name, Number(one.Value), limit + Number(one.Limit), verdict}
		if one.Aim != 0 {
			headings = []string{"GATE", "VALUE", "LIMIT", "AIM", ""}
			row = []string{one.Name, Number(one.Value), Number(one.Limit), Number(one.Aim), verdict}
		}
		rows = append(rows, row)
	}
	return Table(w, headings, rows)
}
