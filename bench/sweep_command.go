package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"corenode/bench/page"
	"corenode/bench/report"
	"corenode/bench/result"
)

func sweepCommand() *cobra.Command {
	f := &loadFlags{}
	var clients []int
	var rates []float64
	var pause time.Duration
	cmd := &cobra.Command{
		Use:   "sweep (--clients N,N,... | --rates R,R,...)",
		Short: "The same load at several strengths, and the knee",
		Long: `Put the same load on a server at several strengths, one after another, and
show how latency grows with throughput. The knee is the least strength that
reaches 98 % of the highest goodput; without --slo every request that succeeds
is good. Every level has prompts of its own. See corebench load for the flags.

Interrupted, it reports what it has. The exit status is 1 when nothing succeeded.`,
		Example: `  corebench sweep --key @data/default.key --clients 1,2,4,8,16 --duration 10s --warmup 2s --html sweep.html
  corebench sweep --url http://127.0.0.1:8081 --protocol chat --model any --rates 1,2,4,8 --slo ttft=1s,itl_p99=200ms`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			over, levels := "clients", make([]float64, 0, len(clients)+len(rates))
			for _, n := range clients {
				levels = append(levels, float64(n))
			}
			if len(rates) > 0 {
				over, levels = "rate", append(levels, rates...)
			}
			if len(levels) == 0 || len(clients) > 0 && len(rates) > 0 {
				return errors.New("want either clients or rates")
			}
			return runSweep(cmd, f, over, levels, pause)
		},
	}
	f.register(cmd)
	s := cmd.Flags()
	s.IntSliceVar(&clients, "clients", nil, "clients of closed loops, one loop after another")
	s.Float64SliceVar(&rates, "rates", nil, "conversations per second of open loops")
	s.BoolVar(&f.Constant, "constant", false, "with --rates: equal gaps instead of random ones")
	s.DurationVar(&pause, "pause", time.Second, "between levels, with nothing sent")
	return cmd
}

func runSweep(cmd *cobra.Command, f *loadFlags, over string, levels []float64, pause time.Duration) error {
	set := func(at float64) {
		if over == "clients" {
			f.Clients = int(at)
		} else {
			f.Rate = at
		}
	}
	if err := f.read(); err != nil {
		return err
	}
	for _, at := range levels { // all before the first: an error later would lose what was measured
		set(at)
		if err := f.Validate(); err != nil {
			return fmt.Errorf("level %v: %w", at, err)
		}
	}
	set(levels[0])
	if err := f.prepare(cmd.Context()); err != nil {
		return err
	}
	var points []result.Level
	for i, at := range levels {
		set(at)
		file, err := f.measure(cmd.Context(), cmd.ErrOrStderr(), nil) // no level finds another's prompts in a cache: seeds go on
		if err != nil {
			return err
		}
		points = append(points, result.Level{At: at, File: file})
		if i == len(levels)-1 {
			break
		}
		select {
		case <-time.After(pause):
		case <-cmd.Context().Done():
		}
		if cmd.Context().Err() != nil { // a level that begins now would have no request
			break
		}
	}
	s := result.NewSweep(over, points)
	return errors.Join(writePage(f.html, func(w io.Writer) error { return page.Sweep(w, s) }),
		deliver(cmd, s, f.json, report.WriteCompact, errNothing))
}
