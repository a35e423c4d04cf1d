package kernels

import (
	"fmt"
	"io"

	"corenode/bench/report"
)

// Print writes the report for people.
func (r Report) Print(w io.Writer) error {
	order := "ordinary scheduling"
	if r.RealTime {
		order = "SCHED_FIFO"
	}
	fmt.Fprintf(w, "\n%s; %d threads, level %s, %s\n", r.Host, r.Options.Threads, r.Level, order)
	fmt.Fprintf(w, "%s: one token reads %s MB of weights\nmedian of rounds (min-max); a share is taken within a round\n\n",
		r.Weights.Arch, report.Number(float64(r.Weights.BytesPerToken)/1e6))
	if err := report.Table(w, []string{"WHAT", "TOKENS/S", "READS GB/S", "MEMORY GB/S", "SHARE", "ROUNDS"}, r.cells()); err != nil {
		return err
	}
	fmt.Fprintf(w, "\ntokenizer: %s MB/s of prose on one thread; sampler: %s us a token; others used %.1f %% of the machine\n\n",
		report.Number(r.Around.TokenizerMBs), report.Number(r.Around.SamplerUS), 100*r.Around.Foreign)
	return r.Gates.Print(w)
}

func (r Report) cells() (rows [][]string) {
	for _, x := range r.Rows {
		rows = append(rows, []string{x.Name, x.TokensPerS.String(), x.GBs.String(), x.MemoryGBs.String(), x.Share.String(), x.Cell()})
	}
	return rows
}
