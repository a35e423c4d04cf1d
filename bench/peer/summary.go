package peer

import (
	"fmt"
	"io"
	"slices"

	"corenode/bench/engine"
	"corenode/bench/proc"
	"corenode/bench/report"
)

// outcome is one scenario on one side in one round.
type outcome struct {
	values  map[metric]float64
	foreign float64 // share of the machine that others used
	failed  int     // requests that were not answered in full
}

// Schema names the layout of Report as JSON; it changes when a field changes its meaning.
const Schema = "corebench.peer/1"

// Report is the result of one run. METHOD.md documents its JSON.
type Report struct {
	Schema  string         `json:"schema"`
	Host    proc.Host      `json:"host"`
	Options Options        `json:"options"`
	Model   string         `json:"model"` // name of the file
	Type    string         `json:"type"`  // of most of its weights
	Weights engine.Weights `json:"weights"`
	Rows    []Row          `json:"rows"`
}

// Row compares one number.
type Row struct {
	Scenario string `json:"scenario"`
	What     string `json:"what"`
	Unit     string `json:"unit"`
	Lower    bool   `json:"lower_is_better"`
	// Rounds were run, Discarded of them thrown out because others used more
	// than 5 % of the machine on either side; Disturbed says that all were,
	// and all count.
	report.RowRounds
	Node  report.Spread `json:"node"`
	Other report.Spread `json:"other"`
	// Times says how many times better the node is, within each round.
	Times   report.Spread `json:"times_better"`
	Gate    float64       `json:"gate,omitempty"` // of the median of Times; 0 is none
	NodeMax float64       `json:"most,omitempty"` // of the median of Node; 0 is none
	Aim     float64       `json:"aim,omitempty"`
	Met     bool          `json:"met"`
	// Failed requests on each side. Numbers of a side with some mean little, so a
	// gate is not met beside them.
	NodeFailed  int `json:"node_failed"`
	OtherFailed int `json:"other_failed"`
}

// rowsOf summarizes one scenario: got[i] is round i on both sides.
func rowsOf(s scenario, got [][sides]outcome, kind string) (rows []Row) {
	kept, rounds := report.Quiet(got, func(o [sides]outcome) float64 { return max(o[node].foreign, o[other].foreign) })
	for _, r := range s.rows {
		row := Row{Scenario: s.name, What: r.what, Unit: r.unit, Lower: r.lower, RowRounds: rounds.Row(),
			Gate: pick(r.gate, kind), Aim: pick(r.aim, kind), NodeMax: r.nodeMax}
		var values [sides][]float64
		var times []float64
		for _, o := range kept {
			a, b := o[node].values[r.metric], o[other].values[r.metric]
			values[node], values[other] = append(values[node], a), append(values[other], b)
			if r.lower {
				a, b = b, a
			}
			times = append(times, report.Ratio(a, b))
			row.NodeFailed += o[node].failed
			row.OtherFailed += o[other].failed
		}
		row.Node, row.Other, row.Times = report.SpreadOf(values[node]), report.SpreadOf(values[other]), report.SpreadOf(times)
		row.Met = row.NodeFailed == 0 && (row.Gate == 0 || row.OtherFailed == 0 && row.Times.Median >= row.Gate) &&
			(row.NodeMax == 0 || row.Node.Median <= row.NodeMax)
		rows = append(rows, row)
	}
	return rows
}

// Met says whether every gate is.
func (r Report) Met() bool { return !slices.ContainsFunc(r.Rows, func(x Row) bool { return !x.Met }) }

// Print writes the report for people.
func (r Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s; %d threads\n%s: %s, %s MB of weights a token, most of them %s\n"+
		"median of rounds (min-max); a ratio is taken within a round and is above 1 where the node is better\n\n",
		r.Host, r.Options.Threads, r.Model, r.Weights.Arch,
		report.Number(float64(r.Weights.BytesPerToken)/1e6), r.Type)
	var rows [][]string
	for _, x := range r.Rows {
		rows = append(rows, x.cells())
	}
	return report.Table(w, []string{"WHAT", "UNIT", "NODE", "LLAMA-SERVER", "TIMES BETTER", "GATE", "AIM", "", "ROUNDS"}, rows)
}

func (x Row) cells() []string {
	bound := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return report.Number(v)
	}
	verdict := ""
	switch {
	case x.NodeFailed+x.OtherFailed > 0:
		verdict = fmt.Sprintf("FAILED requests: %d and %d", x.NodeFailed, x.OtherFailed)
	case !x.Met:
		verdict = "MISSED"
	case x.Aim > 0 && x.Times.Median >= x.Aim:
		verdict = "aim met"
	case x.Gate > 0 || x.NodeMax > 0:
		verdict = "met"
	}
	other, times, gate := x.Other.String(), x.Times.String(), bound(x.Gate)
	if x.NodeMax > 0 { // nothing to compare with
		other, times, gate = "-", "-", "at most "+bound(x.NodeMax)
	}
	return []string{x.What, x.Unit, x.Node.String(), other, times, gate, bound(x.Aim), verdict, x.Cell()}
}
