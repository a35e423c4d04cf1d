package result

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"corenode/bench/report"
	"corenode/bench/stats"
)

// Print writes the result for a terminal. Of several runs every number is the
// median with its range, over the runs that have it.
func (f File) Print(w io.Writer) error {
	c := &f.Conditions
	fmt.Fprintf(w, "%s %s, model %s, %s\n%s\n\n", c.Protocol, c.URL, c.Model, streamed(c.Stream), strings.Join(c.Lines(), "\n"))
	for i, t := range f.Tables() {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := report.Table(w, t.Headings, t.Rows); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	for _, note := range f.Notes {
		if _, err := fmt.Fprintln(w, "note:", note); err != nil {
			return err
		}
	}
	return nil
}

// Table is one table of a result.
type Table struct {
	Title    string
	Headings []string
	Rows     [][]string
	Text     bool // its cells are words, not numbers
}

// Tables are all numbers of the result; a table without rows is left out.
func (f *File) Tables() []Table {
	return slices.DeleteFunc([]Table{
		{Title: "Latencies", Headings: []string{"LATENCY ms", "MIN", "MEAN", "P50", "P90", "P95", "P99", "P99.9",
			"MAX", "COUNT"}, Rows: f.latencyRows()},
		{Title: "Rates and sums", Headings: []string{"WHAT", "VALUE"}, Rows: f.valueRows()},
		{Title: "Turns", Headings: []string{"TURN", "TTFT P50 ms", "TTFT P99 ms", "E2E P50 ms", "INPUT", "CACHED",
			"COUNT"}, Rows: f.turnRows()},
		{Title: "Failures", Headings: []string{"FAILURE", "COUNT", "RETRY-AFTER", "EXAMPLE"}, Rows: f.errorRows(), Text: true},
	}, func(t Table) bool { return len(t.Rows) == 0 })
}

func streamed(stream bool) string {
	if stream {
		return "streaming"
	}
	return "not streaming"
}

// Lines are the conditions for people.
func (c *Conditions) Lines() (lines []string) {
	load := fmt.Sprintf("closed loop of %d clients", c.Clients)
	if c.Loop == "open" {
		load = fmt.Sprintf("open loop, %s arrivals at %s per second, at most %d in flight", c.Arrivals,
			report.Number(c.Rate), c.InFlightMax)
		if c.Rate == 0 {
			load = fmt.Sprintf("open loop, arrivals of %s, at most %d in flight", c.Arrivals, c.InFlightMax)
		}
	}
	length := fmt.Sprintf("%s s", report.Number(c.DurationS))
	switch {
	case c.Count > 0 && c.DurationS > 0:
		length = fmt.Sprintf("%d requests or %s", c.Count, length)
	case c.Count > 0:
		length = fmt.Sprintf("%d requests", c.Count)
	case c.DurationS == 0:
		length = "to the end of its trace"
	}
	load += fmt.Sprintf(", %s after %s s of ramp and %s s of warm-up", length, report.Number(c.RampS), report.Number(c.WarmupS))
	work := fmt.Sprintf("input %s, output %s tokens", c.Input, c.Output)
	if c.PrefixTokens > 0 {
		work += fmt.Sprintf(", a system prompt of %d tokens shared by %s", c.PrefixTokens, group(c.PrefixGroup))
	}
	if c.Turns > 1 {
		work += fmt.Sprintf(", %d turns with %s ms between", c.Turns, report.Number(c.ThinkMS))
	}
	if c.Keys > 1 {
		work += fmt.Sprintf(", %d keys in turn", c.Keys)
	}
	work += fmt.Sprintf(", seed %d", c.Seed)
	if c.Extra != "" {
		work += ", with " + c.Extra
	}
	return []string{load, work}
}

func group(n int) string {
	if n == 0 {
		return "all"
	}
	return fmt.Sprintf("groups of %d conversations", n)
}

// over is one number of those of a list that have it, and whether any has.
func over[T any](list []T, has func(*T) bool, of func(*T) float64) (report.Spread, bool) {
	var values []float64
	for i := range list {
		if has(&list[i]) {
			values = append(values, of(&list[i]))
		}
	}
	return report.SpreadOf(values), len(values) > 0
}

func (f *File) latencyRows() (rows [][]string) {
	for _, name := range stats.Latencies {
		var count int64
		for i := range f.Runs {
			count += f.Runs[i].Latency[name].Count
		}
		if count == 0 {
			continue
		}
		row := []string{strings.ToUpper(name)}
		add := func(of func(stats.Distribution) float64) {
			s, _ := over(f.Runs, func(r *stats.Run) bool { return r.Latency[name].Count > 0 },
				func(r *stats.Run) float64 { return of(r.Latency[name]) })
			row = append(row, s.String())
		}
		add(func(d stats.Distribution) float64 { return d.Min })
		add(func(d stats.Distribution) float64 { return d.Mean })
		for _, s := range shares {
			add(s.of)
		}
		rows = append(rows, append(row, fmt.Sprint(count)))
	}
	return rows
}

// valueRows are the numbers that are no latencies, each with its name and its text, over the runs that have it:
// one that ended before its window has no rates and no shares.
func (f *File) valueRows() [][]string {
	var rows [][]string
	add := func(name, unit string, has func(*stats.Run) bool, of func(*stats.Run) float64) {
		if s, ok := over(f.Runs, has, of); ok && (s.Max != 0 || unit == "/s") {
			rows = append(rows, []string{name, strings.TrimSpace(s.String() + " " + strings.TrimPrefix(unit, "/s"))})
		}
	}
	always := func(*stats.Run) bool { return true }
	count := func(name string, of func(*stats.Run) int64) {
		if s, _ := over(f.Runs, always, func(r *stats.Run) float64 { return float64(of(r)) }); s.Max != 0 {
			rows = append(rows, []string{name, whole(s)})
		}
	}
	due := func(r *stats.Run) float64 { return float64(r.Requests.Due + r.Requests.NotSent) }
	wasDue := func(r *stats.Run) bool { return due(r) > 0 }
	windowed := func(r *stats.Run) bool { return r.WindowS > 0 }
	add("requests/s", "/s", windowed, func(r *stats.Run) float64 { return r.Rates.Requests })
	if len(f.Conditions.Objectives) > 0 {
		add("goodput/s ("+strings.Join(f.Conditions.Objectives, ", ")+")", "/s", windowed,
			func(r *stats.Run) float64 { return r.Rates.Goodput })
		add("requests that met the objectives", "%", wasDue, func(r *stats.Run) float64 { return 100 * float64(r.Requests.Good) / due(r) })
	}
	add("output tokens/s", "/s", func(r *stats.Run) bool { return windowed(r) && r.OutputTold() },
		func(r *stats.Run) float64 { return r.Rates.OutputTokens })
	add("input tokens/s", "/s", func(r *stats.Run) bool { return windowed(r) && r.InputTold() },
		func(r *stats.Run) float64 { return r.Rates.InputTokens })
	add("window", "s", always, func(r *stats.Run) float64 { return r.WindowS })
	count("requests due", func(r *stats.Run) int64 { return r.Requests.Due })
	count("failed", func(r *stats.Run) int64 { return r.Requests.Failed })
	count("not sent", func(r *stats.Run) int64 { return r.Requests.NotSent })
	add("input tokens per request", "", usageTold, func(r *stats.Run) float64 { return r.Tokens.InputMean })
	add("output tokens per request", "", usageTold, func(r *stats.Run) float64 { return r.Tokens.OutputMean })
	add("cached share of the input", "%", cacheTold, func(r *stats.Run) float64 { return 100 * r.Tokens.CachedShare })
	add("harness: CPU of the machine", "%", func(r *stats.Run) bool { return r.Harness.CPUShare >= 0 },
		func(r *stats.Run) float64 { return 100 * r.Harness.CPUShare })
	add("all programs: CPU of the machine", "%", func(r *stats.Run) bool { return r.Harness.BusyShare >= 0 },
		func(r *stats.Run) float64 { return 100 * r.Harness.BusyShare })
	add("harness: lateness p99", "ms", func(r *stats.Run) bool { return r.Harness.Lateness.Count > 0 },
		func(r *stats.Run) float64 { return r.Harness.Lateness.P99 })
	return rows
}

// whole shows counts, which have no decimals.
func whole(s report.Spread) string {
	if s.Min == s.Max {
		return fmt.Sprintf("%.0f", s.Median)
	}
	return fmt.Sprintf("%g (%.0f-%.0f)", s.Median, s.Min, s.Max)
}

// turnRows have a turn of those runs that had it; "-" where none has a number of it.
func (f *File) turnRows() (rows [][]string) {
	turns := 0
	for i := range f.Runs {
		turns = max(turns, len(f.Runs[i].Turns))
	}
	for i := range turns {
		var list []stats.Turn
		var count int64
		for _, r := range f.Runs {
			if i < len(r.Turns) {
				list = append(list, r.Turns[i])
				count += r.Turns[i].E2E.Count
			}
		}
		row := []string{fmt.Sprint(i + 1)}
		add := func(unit string, has func(*stats.Turn) bool, of func(*stats.Turn) float64) {
			text := "-"
			if s, ok := over(list, has, of); ok {
				text = s.String() + unit
			}
			row = append(row, text)
		}
		begun := func(t *stats.Turn) bool { return t.TTFT.Count > 0 }
		ended := func(t *stats.Turn) bool { return t.E2E.Count > 0 }
		add("", begun, func(t *stats.Turn) float64 { return t.TTFT.P50 })
		add("", begun, func(t *stats.Turn) float64 { return t.TTFT.P99 })
		add("", ended, func(t *stats.Turn) float64 { return t.E2E.P50 })
		counted := func(t *stats.Turn) bool { return t.InputMean > 0 }
		add("", counted, func(t *stats.Turn) float64 { return t.InputMean })
		add(" %", func(t *stats.Turn) bool { return counted(t) && t.CachedShare >= 0 },
			func(t *stats.Turn) float64 { return 100 * t.CachedShare })
		rows = append(rows, append(row, fmt.Sprint(count)))
	}
	return rows
}

func (f *File) errorRows() (rows [][]string) {
	for i := range f.Runs {
		for _, e := range f.Runs[i].Errors {
			after := ""
			if e.RetryAfter > 0 {
				after = fmt.Sprintf("%d, %s-%s s", e.RetryAfter, report.Number(e.RetryAfterMinS), report.Number(e.RetryAfterMaxS))
			}
			rows = append(rows, []string{e.Kind, fmt.Sprint(e.Count), after, clip(e.Example, 100)})
		}
	}
	return rows
}

func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}
