package kernels

import (
	"fmt"
	"io"

	"corenode/bench/report"
)

// Print writes the report for people.
func (r Report) Print(w io.Writer) error {
	h, o := r.Host, r.Options
	order := "ordinary scheduling"
	if r.RealTime {
		order = "SCHED_FIFO"
	}
	fmt.Fprintf(w, "\n%s, %d processors, %s, kernel %s, %s; %d threads, level %s, %s\n",
		h.Processor, h.Processors, h.OS, h.Kernel, h.Go, o.Threads, r.Level, order)
	fmt.Fprintf(w, "%s: one token reads %s MB of weights\nmedian of rounds (min-max); a share is taken within a round\n\n",
		r.Weights.Arch, report.Number(float64(r.Weights.BytesPerToken)/1e6))
	if err := report.Table(w, []string{"WHAT", "TOKENS/S", "READS GB/S", "MEMORY GB/S", "SHARE", "ROUNDS"}, r.cells()); err != nil {
		return err
	}
	fmt.Fprintf(w, "\ntokenizer: %s MB/s of prose on one thread; sampler: %s us a token\n\n",
		report.Number(r.Around.TokenizerMBs), report.Number(r.Around.SamplerUS))
	return report.Table(w, []string{"GATE", "VALUE", "LIMIT", ""}, r.gateCells())
}

func (r Report) cells() (rows [][]string) {
	for _, x := range r.Rows {
		rounds := fmt.Sprintf("%d of %d", x.Rounds-x.Discarded, x.Rounds)
		if x.Disturbed {
			rounds = fmt.Sprintf("DISTURBED, all %d", x.Rounds)
		}
		rows = append(rows, []string{x.Name, x.TokensPerS.String(), x.GBs.String(), x.MemoryGBs.String(), x.Share.String(), rounds})
	}
	return rows
}

func (r Report) gateCells() (rows [][]string) {
	for _, g := range r.Gates {
		verdict := "met"
		if !g.Met {
			verdict = "MISSED"
		}
		rows = append(rows, []string{g.Name, report.Number(g.Value), ">= " + report.Number(g.Limit), verdict})
	}
	return rows
}

// WriteJSON writes the report for programs.
func (r Report) WriteJSON(path string) error {
	return report.WriteJSON(path, r)
}
