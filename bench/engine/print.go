package engine

import (
	"fmt"
	"io"

	"corenode/bench/report"
)

// Print writes the report for people.
func (r Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s, data on %s; %d threads\n", r.Host, r.Host.Filesystem, r.Options.Threads)
	fmt.Fprintf(w, "%s: %s MB of tensors, of which one token reads %s MB of weights\n", r.Weights.Arch,
		report.Number(float64(r.Weights.FileBytes)/1e6), report.Number(float64(r.Weights.BytesPerToken)/1e6))
	fmt.Fprintf(w, "decode: %s\nbatch:  %s\nturns:  %s\n\nmedian of rounds (min-max); a ratio is taken within a round\n\n",
		r.Decode.Rounds, r.Batch.Rounds, r.Turns.Rounds)
	if err := report.Table(w, []string{"WHAT", "VALUE", "REFERENCE", "VALUE", "RATIO"}, r.cells()); err != nil {
		return err
	}
	fmt.Fprintf(w, "\ndecode: weights at %s GB/s; turn 2 took %d prompt tokens from the cache and computed %d\n",
		r.Decode.GBs, r.Turns.Cached, r.Turns.Input)
	fmt.Fprintf(w, "starts: resident memory %s MiB cold, %s MiB warm; others used %.1f %% and %.1f %% of the machine\n\n",
		mib(r.Starts.Cold.RSS), mib(r.Starts.Warm.RSS), 100*r.Starts.Cold.Foreign, 100*r.Starts.Warm.Foreign)
	return r.Gates.Print(w)
}

// cells is one line per question: what is judged, and what it is judged beside.
func (r Report) cells() [][]string {
	number, o := report.Number, r.Options
	return [][]string{
		{"time to ready, warm, s", number(r.Starts.Warm.Ready), "cold (weights are packed), s",
			number(r.Starts.Cold.Ready), number(r.Starts.Ratio)},
		{"one stream, tokens/s", r.Decode.TokensPerS.String(), "memory read, GB/s", r.Decode.MemoryGBs.String(),
			r.Decode.Share.String() + " of it"},
		{fmt.Sprintf("%d streams at once, tokens/s", o.Streams), r.Batch.Concurrent.String(), "in sequence, tokens/s",
			r.Batch.Sequence.String(), r.Batch.Ratio.String() + " of the time"},
		{"TTFT of turn 2, ms", r.Turns.Turn2.String(), "turn 1, ms", r.Turns.Turn1.String(), r.Turns.Ratio.String()},
	}
}

func mib(bytes int64) string { return report.Number(float64(bytes) / (1 << 20)) }
