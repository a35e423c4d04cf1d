package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"corenode/bench/peer"
)

func peerCommand() *cobra.Command {
	o := peer.Defaults()
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "peer --llama-server PATH --model FILE.gguf",
		Short: "The node and a llama-server in turn on one model, with one load",
		Long: `Run the node and a llama-server in turn on the same model file and put the same
load on both, over the chat protocol: the same prompts, greedy, streaming, the
same number of threads, no answer shared between requests by any cache but the
servers' own. Rounds go node, other, other, node, and so on; each server is
started anew for its turn. A ratio is taken within a round and says how many
times better the node is.

  prefill          512 tokens, to the first token
  decode, deep     one stream, after few and after 2,048 tokens
  batch8, batch16  8 and 16 streams with short prompts
  server           8 clients at once with 251 tokens in and 64 out
  turns            the second turn of a conversation of 2,000 tokens
  memory           resident memory after 8 conversations of 2,048 tokens
  busy             one stream while a program computes on each processor

Rounds in which other programs used more than 5 % of the machine are thrown out
for that scenario. The exit status is 1 when a gate is missed; gates are for a
model of 0.6B on two processors.`,
		Example: `  corebench peer --llama-server ~/llama.cpp/build/bin/llama-server --model qwen3-0.6b-q8_0.gguf
  corebench peer --llama-server llama-server --model m.gguf --only prefill,server --rounds 5 --json peer.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			r, err := peer.Run(cmd.Context(), o, self, progress(cmd))
			if err != nil {
				return err
			}
			return deliver(cmd, r, jsonFile)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Node, "node", o.Node, "the corenode program")
	f.StringVar(&o.Server, "llama-server", "", "the other program; required")
	f.StringVar(&o.Model, "model", "", "the model file (GGUF); required")
	f.IntVar(&o.Threads, "threads", o.Threads, "threads that compute, in both")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "how often both are measured")
	f.StringSliceVar(&o.Only, "only", nil, "scenarios to run; all when empty")
	f.DurationVar(&o.StartTimeout, "start-timeout", o.StartTimeout, "the longest wait until a server is ready")
	f.StringVar(&jsonFile, "json", "", "file to write the result to; METHOD.md documents it")
	return cmd
}

// spinCommand is this program as one that only computes, until it is stopped.
func spinCommand() *cobra.Command {
	return &cobra.Command{
		Use: peer.SpinCommand, Short: "Compute and do nothing else", Hidden: true, Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), peer.SpinGreeting)
			for done := cmd.Context().Done(); ; {
				select {
				case <-done:
					return
				default:
				}
			}
		},
	}
}
