package peer

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"corenode/bench/proc"
	"corenode/bench/report"
)

// Schema names the layout of Report as JSON; it changes when a field changes its meaning.
const Schema = "corebench.peer/2"

// Report is the result of all rounds of a file. METHOD.md documents its JSON.
type Report struct {
	Schema string    `json:"schema"`
	Host   proc.Host `json:"host"` // of the last round
	// Servers are the node and the peers with versions and flags, each once.
	Servers []string `json:"servers"`
	Rows    []Row    `json:"rows"`
}

// Row compares one number of the node with that of one peer.
type Row struct {
	Setting
	Peer     string `json:"peer"` // "" where there is nothing to compare with
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
	// Failed requests on each side, of all rounds. Numbers of a side with some mean little, so a
	// gate is not met beside them.
	NodeFailed  int `json:"node_failed"`
	OtherFailed int `json:"other_failed"`
}

// reportOf summarizes rounds: by setting, scenario, number and peer.
func reportOf(rounds []Round) Report {
	out := Report{Schema: Schema}
	for _, r := range rounds {
		out.Host = r.Host
		for _, s := range r.Sides {
			if !slices.Contains(out.Servers, s.String()) {
				out.Servers = append(out.Servers, s.String())
			}
		}
	}
	for _, setting := range settings(rounds) {
		for _, s := range scenarios {
			for _, r := range s.rows {
				out.Rows = append(out.Rows, rowsOf(s.name, r, setting, rounds)...)
			}
		}
	}
	return out
}

// both is a scenario of one round on two sides.
type both struct{ node, other outcome }

// rowsOf compares one number with each peer, or has the node's alone where it is held to a bound of its own.
func rowsOf(scenario string, r row, setting Setting, rounds []Round) (rows []Row) {
	empty := Row{Setting: setting, Scenario: scenario, What: r.what, Unit: r.unit, Lower: r.lower, NodeMax: r.nodeMax}
	if r.nodeMax > 0 {
		var got []both
		for _, one := range rounds {
			if a, ok := one.side(nodeName, scenario); ok && one.Setting == setting {
				got = append(got, both{node: a})
			}
		}
		if len(got) > 0 {
			rows = append(rows, rowOf(empty, r, got))
		}
		return rows
	}
	for _, p := range peers {
		var got []both
		for _, one := range rounds {
			a, okNode := one.side(nodeName, scenario)
			b, okOther := one.side(p.name, scenario)
			if one.Setting == setting && okNode && okOther {
				got = append(got, both{a, b})
			}
		}
		if len(got) > 0 {
			row := empty
			row.Peer = p.name
			rows = append(rows, rowOf(row, r, got))
		}
	}
	return rows
}

// rowOf completes a row with the numbers of its rounds.
func rowOf(row Row, r row, got []both) Row {
	kept, rounds := report.Quiet(got, func(o both) float64 { return max(o.node.Foreign, o.other.Foreign) })
	g := r.gateFor(row.Peer, row.Setting)
	row.RowRounds, row.Gate, row.Aim = rounds.Row(), g.least, g.aim
	row.Node = report.SpreadBy(kept, func(o both) float64 { return o.node.Values[r.metric] })
	row.Other = report.SpreadBy(kept, func(o both) float64 { return o.other.Values[r.metric] })
	row.Times = report.SpreadBy(kept, func(o both) float64 {
		if r.lower {
			return report.Ratio(o.other.Values[r.metric], o.node.Values[r.metric])
		}
		return report.Ratio(o.node.Values[r.metric], o.other.Values[r.metric])
	})
	for _, o := range got { // also of rounds that are thrown out: a busy machine fails no request
		row.NodeFailed += o.node.Failed
		row.OtherFailed += o.other.Failed
	}
	row.Met = row.NodeFailed == 0 && (row.Gate == 0 || row.OtherFailed == 0 && row.Times.Median >= row.Gate) &&
		(row.NodeMax == 0 || row.Node.Median > 0 && row.Node.Median <= row.NodeMax) // a zero was not measured
	return row
}

// Met says whether every gate is.
func (r Report) Met() bool { return !slices.ContainsFunc(r.Rows, func(x Row) bool { return !x.Met }) }

// Print writes the report for people.
func (r Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n%s\nmedian of rounds (min-max); a ratio is taken within a round and is above 1 where the node is better\n\n",
		r.Host, strings.Join(r.Servers, "\n"))
	var rows [][]string
	for _, x := range r.Rows {
		rows = append(rows, x.cells())
	}
	headings := []string{"WHAT", "WEIGHTS", "LEVEL", "UNIT", "NODE", "OTHER", "", "TIMES BETTER", "GATE", "AIM", "", "ROUNDS"}
	return report.Table(w, headings, rows)
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
	return []string{x.What, x.Type, x.Level, x.Unit, x.Node.String(), other, x.Peer, times, gate, bound(x.Aim), verdict, x.Cell()}
}
