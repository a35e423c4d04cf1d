package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"corenode/bench/drive"
	"corenode/bench/page"
	"corenode/bench/proc"
	"corenode/bench/report"
	"corenode/bench/result"
	"corenode/bench/stats"
)

// prepare reads the flags, checks them, and asks the server how long words are.
func (f *loadFlags) prepare(ctx context.Context) (err error) {
	if err = f.read(); err == nil {
		err = f.Validate()
	}
	if err == nil && f.calibrate {
		f.Shape.Size, err = drive.Calibrate(ctx, f.Options)
	}
	// A harness that collects garbage less often disturbs a server beside it less.
	debug.SetGCPercent(400)
	return err
}

// measure makes all runs of one load, each with the next seed.
func (f *loadFlags) measure(ctx context.Context, status io.Writer, rows *result.Rows) (result.File, error) {
	var runs []stats.Run
	seed := f.Shape.Seed
	for range max(1, f.repeat) {
		watch := drive.Watch{}
		if rows != nil {
			rows.NextRun()
			watch.Ended = rows.Add
		}
		line := newProgressLine(status, f.quiet)
		if line != nil {
			watch.Progress = line.show
		}
		run, err := drive.Run(ctx, f.Options, watch)
		line.clear()
		if err != nil {
			return result.File{}, err
		}
		f.Shape.Seed++
		runs = append(runs, run)
		if ctx.Err() != nil {
			break
		}
	}
	return result.New(proc.ReadHost("."), f.conditions(seed), runs), nil
}

func loadCommand() *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Drive any server of the messages or the chat protocol and report what its clients see",
		Long: `Put load on a server that speaks the messages or the chat protocol, this
project's or another, and report what its clients see: time to the first token
(TTFT), gaps between tokens (ITL), time per output token (TPOT), the whole time
(E2E), rates, goodput under objectives, and failures by kind.

  --clients N     closed loop: N clients, each sending its next request when the
                  last one is answered
  --rate R        open loop: R conversations per second, due at random times
  --arrivals CSV  open loop: due at the recorded offsets, in seconds

In an open loop latency counts from when a request was due, so that a server
that stalls pays for all that were due meanwhile. What the harness adds to that
itself is reported as its lateness.

Prompts are common words, drawn anew for every conversation and turn; the server
is asked first how many tokens it counts for them.

Interrupted, it reports what it has. The exit status is 1 when nothing succeeded.`,
		Example: `  corebench load --key @data/default.key --clients 8 --duration 30s
  corebench load --url http://127.0.0.1:8081 --protocol chat --model any --rate 5 --slo ttft=500ms,itl_p99=150ms
  corebench load --key @data/default.key --clients 4 --turns 5 --think 2s --input lognormal:200,1 --json a.json --html a.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLoad(cmd, f) },
	}
	f.register(cmd)
	s := cmd.Flags()
	s.IntVar(&f.Clients, "clients", 0, "clients of a closed loop")
	s.Float64Var(&f.Rate, "rate", 0, "conversations per second of an open loop")
	s.BoolVar(&f.Constant, "constant", false, "with --rate: equal gaps instead of random ones")
	s.StringVar(&f.arrivals, "arrivals", "", "CSV file of offsets in seconds, played once")
	s.StringVar(&f.csv, "csv", "", "file to write a line per request to")
	return cmd
}

func runLoad(cmd *cobra.Command, f *loadFlags) error {
	if err := f.prepare(cmd.Context()); err != nil {
		return err
	}
	var rows *result.Rows
	var lines *os.File
	if f.csv != "" {
		var err error
		if lines, err = os.Create(f.csv); err != nil {
			return err
		}
		defer lines.Close()
		rows = result.NewRows(lines)
	}
	file, err := f.measure(cmd.Context(), cmd.ErrOrStderr(), rows)
	if err != nil {
		return err
	}
	// The lines come first, as the page does: printing to a pipe that nobody reads ends the program.
	return errors.Join(closeRows(rows, lines), writePage(f.html, func(w io.Writer) error { return page.Load(w, file) }),
		deliver(cmd, file, f.json, report.WriteCompact, errNothing))
}

// closeRows writes what is left of the lines, if there are any.
func closeRows(rows *result.Rows, lines *os.File) error {
	if rows == nil {
		return nil
	}
	if err := errors.Join(rows.Close(), lines.Close()); err != nil {
		return fmt.Errorf("write %s: %w", lines.Name(), err)
	}
	return nil
}

// writePage writes a page to a file, to none without a name.
func writePage(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	w, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(w), w.Close())
}

var errNothing = errors.New("no request succeeded")
