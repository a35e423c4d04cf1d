package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"corenode/bench/result"
)

var errThreshold = errors.New("a threshold was crossed")

func compareCommand() *cobra.Command {
	var failIf []string
	cmd := &cobra.Command{
		Use:   "compare A.json B.json...",
		Short: "Ratios between results of load, and which of them mean something",
		Long: `Compare results of corebench load with the first one: each metric's ratio, which
direction is better, and whether the difference is more than noise.

With several runs that have it in both files (load --repeat) noise is the range of the runs:
a difference counts when the ranges do not meet. Four runs of each are enough to
believe that; of two of each it happens by chance in one of three metrics.
Otherwise noise is estimated by drawing pieces of the runs again (bootstrap): a
difference counts when 1 is not within the middle 95 % of the ratios drawn. That
says nothing about what differs between two starts of a server; repeats do.

Files of other layouts are refused; conditions that differ are named, and so are
runs that were stopped, and lengths of prompts and answers that differ. The exit
status is 1 when a threshold of --fail-if is crossed, whatever the noise.`,
		Example: `  corebench compare before.json after.json
  corebench compare a.json b.json --fail-if 'ttft_p99>1.1' --fail-if 'output_tokens_per_s<0.95'`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, paths []string) error { return runCompare(cmd, paths, failIf) },
	}
	cmd.Flags().StringArrayVar(&failIf, "fail-if", nil, "METRIC>RATIO or METRIC<RATIO, of B to A; may be given again")
	return cmd
}

func runCompare(cmd *cobra.Command, paths, failIf []string) error {
	thresholds := make([]result.Threshold, len(failIf))
	for i, text := range failIf {
		var err error
		if thresholds[i], err = result.ParseThreshold(text); err != nil {
			return err
		}
	}
	files := make([]result.File, len(paths))
	for i, path := range paths {
		var err error
		if files[i], err = result.ReadFile(path); err != nil {
			return err
		}
	}
	out, crossed := cmd.OutOrStdout(), false
	for i, b := range files[1:] {
		fmt.Fprintf(out, "A is %s, B is %s\n", paths[0], paths[i+1])
		for _, warning := range result.Warnings(files[0], b) {
			fmt.Fprintln(out, "warning:", warning)
		}
		fmt.Fprintln(out)
		list := result.Compare(files[0], b)
		if err := result.PrintComparison(out, list); err != nil {
			return err
		}
		for _, t := range thresholds {
			if bad, why := t.Crossed(list); bad {
				crossed = true
				fmt.Fprintln(out, "crossed:", why)
			}
		}
		fmt.Fprintln(out)
	}
	if crossed {
		return errThreshold
	}
	return nil
}
