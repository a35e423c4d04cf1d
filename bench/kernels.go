package main

import (
	_ "embed"

	"github.com/spf13/cobra"

	"corenode/bench/kernels"
)

// prose is English text for the tokenizer.
//
//go:embed METHOD.md
var prose string

func kernelsCommand() *cobra.Command {
	o := kernels.Defaults()
	o.Text = prose
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "kernels --model FILE.gguf",
		Short: "The forward pass by itself, beside what the memory delivers",
		Long: `Measure the forward pass of a model file in this process, with no node around
it, each part between two readings of the memory's bandwidth:

  decode   steps of one token for 1, 8 and 16 sequences with a short context, and
           for one with --context tokens in the cache. A step must read all
           weights once and the cached K and V: that beside the bandwidth is its
           share of what is possible
  prefill  one step of --prompt tokens

The threads run under SCHED_FIFO where the system permits it. A part's round in
which other programs used more than 5 % of the machine is thrown out; when all
were, they count and the row is marked disturbed. CORENODE_CPU_LEVEL forces the
level of the kernels. Random weights cost the same as trained ones.

The exit status is 1 when the share of decoding one sequence is below --min-share.`,
		Example: `  corebench kernels --model qwen3-0.6b-q8_0.gguf
  CORENODE_CPU_LEVEL=avx2 corebench kernels --model m.gguf --rounds 3 --json kernels.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := kernels.Run(cmd.Context(), o, progress(cmd))
			if err != nil {
				return err
			}
			return deliver(cmd, r, jsonFile)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "", "the model file (GGUF); required")
	f.IntVar(&o.Threads, "threads", o.Threads, "threads that compute, and that read memory for the reference")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "how often every part is measured")
	f.IntVar(&o.Tokens, "tokens", o.Tokens, "steps of a decoding part")
	f.IntVar(&o.Prompt, "prompt", o.Prompt, "tokens of the prefill")
	f.IntVar(&o.Context, "context", o.Context, "tokens in the cache in the part with a long context")
	f.DurationVar(&o.Memory, "memory", o.Memory, "length of one measurement of the memory")
	f.Float64Var(&o.MinShare, "min-share", o.MinShare, "gate: bytes read by decoding one sequence / memory read bandwidth, at least")
	f.StringVar(&jsonFile, "json", "", "file to write the result to; METHOD.md documents it")
	return cmd
}
