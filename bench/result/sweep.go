package result

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"corenode/bench/report"
	"corenode/bench/stats"
)

// SweepSchema names the layout of Sweep.
const SweepSchema = "corebench.sweep/1"

// Sweep is the same load at several strengths.
type Sweep struct {
	Schema string `json:"schema"`
	// Over is what changes: clients or rate.
	Over   string  `json:"over"`
	Points []Level `json:"points"`
	// Knee is the least strength that reaches the highest goodput; 0 where no request was good.
	Knee float64 `json:"knee"`
}

// Level is one strength.
type Level struct {
	At   float64 `json:"at"`
	File File    `json:"result"`
}

// kneeWithin is how near to the highest goodput counts as reaching it.
const kneeWithin = 0.98

// NewSweep makes a sweep of its levels, in the order they were run.
func NewSweep(over string, levels []Level) Sweep {
	s := Sweep{Schema: SweepSchema, Over: over, Points: levels}
	best := 0.0
	for _, l := range levels {
		best = max(best, l.File.Metrics["goodput_per_s"].Median)
	}
	for _, l := range levels {
		if best > 0 && l.File.Metrics["goodput_per_s"].Median >= kneeWithin*best && (s.Knee == 0 || l.At < s.Knee) {
			s.Knee = l.At
		}
	}
	return s
}

// Met says whether any request of the sweep succeeded.
func (s Sweep) Met() bool {
	return slices.ContainsFunc(s.Points, func(l Level) bool { return l.File.Met() })
}

// Notes are those of the levels, each once with the levels that it is for.
func (s Sweep) Notes() (list []string) {
	at := map[string][]string{}
	for i := range s.Points {
		for _, note := range s.Points[i].File.Notes {
			if at[note] == nil {
				list = append(list, note)
			}
			at[note] = append(at[note], fmt.Sprintf("%g", s.Points[i].At))
		}
	}
	for i, note := range list {
		if n := len(at[note]); n < len(s.Points) {
			list[i] = fmt.Sprintf("%s %s: %s", s.Over, strings.Join(at[note], ", "), note)
		}
	}
	return list
}

// Table is one row per level.
func (s Sweep) Table() Table {
	t := Table{Title: "Levels", Headings: []string{strings.ToUpper(s.Over), "REQUESTS/S", "GOODPUT/S",
		"OUTPUT TOKENS/S", "TTFT P50 ms", "TTFT P99 ms", "ITL P50 ms", "ITL P99 ms", "E2E P50 ms", "E2E P99 ms", "FAILED %", ""}}
	for _, l := range s.Points {
		row := []string{fmt.Sprintf("%g", l.At)}
		add := func(name string, show func(report.Spread) string) {
			text := "-"
			if v, ok := l.File.Metrics[name]; ok {
				text = show(v)
			}
			row = append(row, text)
		}
		for _, name := range []string{"requests_per_s", "goodput_per_s", "output_tokens_per_s", "ttft_p50",
			"ttft_p99", "itl_p50", "itl_p99", "e2e_p50", "e2e_p99"} {
			add(name, report.Spread.String)
		}
		add("failed_share", func(v report.Spread) string { return report.Number(100 * v.Median) })
		mark := ""
		if l.At == s.Knee {
			mark = "<- knee"
		}
		t.Rows = append(t.Rows, append(row, mark))
	}
	return t
}

// Print writes the sweep for a terminal.
func (s Sweep) Print(w io.Writer) error {
	if len(s.Points) > 0 {
		c := &s.Points[0].File.Conditions
		fmt.Fprintf(w, "%s %s, model %s, %s\n%s\n\n", c.Protocol, c.URL, c.Model, streamed(c.Stream), c.Lines()[1])
	}
	t := s.Table()
	if err := report.Table(w, t.Headings, t.Rows); err != nil {
		return err
	}
	knee := "none, no request was good"
	if s.Knee > 0 {
		knee = fmt.Sprintf("%g %s, the least that reaches %.0f %% of the highest goodput", s.Knee, s.Over, 100*kneeWithin)
	}
	fmt.Fprintf(w, "\nknee: %s\n\n", knee)
	for _, note := range s.Notes() {
		if _, err := fmt.Fprintln(w, "note:", note); err != nil {
			return err
		}
	}
	return nil
}

// Met says whether any request of the file succeeded.
func (f File) Met() bool {
	return slices.ContainsFunc(f.Runs, func(r stats.Run) bool { return r.Requests.Succeeded > 0 })
}
