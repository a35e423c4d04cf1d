package overhead

import (
	"fmt"
	"io"

	"corenode/bench/report"
)

// Print writes the report for people.
func (r Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s, data on %s; %d clients, %v per cell\n", r.Host, r.Host.Filesystem, r.Options.Clients, r.Options.Duration)
	fmt.Fprintf(w, "%s\n\nCPU of the server's process per reply, median of rounds (min-max)\n\n", r.Rounds)
	err := report.Table(w, []string{"TARGET", "WORK", "CPU us", "RATIO", "p50 us", "p99 us", "REPLIES/s", "BYTES",
		"EVENTS", "PER WRITE", "RSS MiB"}, r.rowCells())
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nCPU per streamed event: (long - short stream) / (events that long has more)\n\n")
	var rows [][]string
	for _, e := range r.Events {
		rows = append(rows, []string{e.Target, e.CPU.String(), orDash(e.Ratio), report.Number(e.EventsPerWrite)})
	}
	if err := report.Table(w, []string{"TARGET", "CPU us", "RATIO", "PER WRITE"}, rows); err != nil {
		return err
	}
	for _, b := range r.Breakdown {
		if err := b.print(w); err != nil {
			return err
		}
	}
	for i, l := range []*Ledger{r.Ledger, r.UpstreamLedger} {
		if l == nil {
			continue
		}
		fmt.Fprintf(w, "\nplain, %s: the ledger is %.0f %% (%s us per reply); all the rest is %s times the pass-through\n",
			[]string{Node, Upstream}[i], 100*l.Share, report.Number(l.CPU), report.Number(l.RatioWithout))
	}
	fmt.Fprintf(w, "\n%s, over the node within a round: plain request, ledger included, %s; paced event %s\n", Upstream,
		orDash(r.Upstream.Plain), orDash(r.Upstream.Paced))
	if r.Ledger == nil {
		fmt.Fprintln(w, "no profile was taken, so that no gate is about a plain request with an upstream, ledger apart")
	}
	fmt.Fprintln(w)
	return r.Gates.Print(w)
}

func orDash(s report.Spread) string {
	if s == (report.Spread{}) {
		return "-"
	}
	return s.String()
}

func (r Report) rowCells() (rows [][]string) {
	for _, row := range r.Rows {
		events, perWrite := "-", "-"
		if row.EventsPerReply > 0 {
			events, perWrite = report.Number(row.EventsPerReply), report.Number(row.EventsPerWrite)
		}
		rows = append(rows, []string{row.Target, row.Work, row.CPU.String(), orDash(row.Ratio),
			report.Number(row.P50.Median), report.Number(row.P99.Median), report.Number(row.RepliesPerS.Median),
			report.Number(row.ReplyBytes), events, perWrite, report.Number(float64(row.RSS) / (1 << 20))})
	}
	return rows
}

func (b Breakdown) print(w io.Writer) error {
	for _, t := range []struct {
		title string
		parts []Part
	}{{"where the node's CPU goes, by stack", b.Parts}, {"functions with the most CPU of their own", b.Top}} {
		fmt.Fprintf(w, "\n%s: %s\n\n", b.Work, t.title)
		var rows [][]string
		for _, p := range t.parts {
			rows = append(rows, []string{fmt.Sprintf("%.1f %%", 100*p.Share), report.Number(p.CPU), p.Name})
		}
		if err := report.Table(w, []string{"SHARE", "us/REPLY", ""}, rows); err != nil {
			return err
		}
	}
	return nil
}
