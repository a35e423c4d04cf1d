// Command corebench measures corenode. It knows the node only as its clients
// do: by starting its program and talking to it. METHOD.md says how every
// number is made, RESULTS.md which were measured.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"corenode/bench/engine"
	"corenode/bench/floor"
	"corenode/bench/overhead"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "corebench:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "corebench",
		Short: "Measure corenode, and other servers of its protocols",
		Long: `corebench measures what corenode costs, and what the clients of any server of
its protocols see. Servers that it starts itself listen on 127.0.0.1 with data in
a temporary folder, and none is left running.

  corebench overhead     what the node costs per request and per streamed event,
                         beside a bare pass-through in the same run
  corebench engine       what the node makes of the machine: start, decode,
                         batching and prefix cache, with a model of yours
  corebench load         latency, rates and failures of a running server under load
  corebench sweep        the same load at several strengths
  corebench compare      ratios between results of load
  corebench kernels      the forward pass by itself: decode beside the memory's
                         bandwidth, batches, a long context, a prompt
  corebench peer         the node and a llama-server in turn, with one load
  corebench skills       how many prompts with known answers a server gets right`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(overheadCommand(), engineCommand(), loadCommand(), compareCommand(), sweepCommand(), kernelsCommand(), peerCommand(),
		skillsCommand(), mockCommand(), passThroughCommand(), spinCommand())
	return cmd
}

var errGate = errors.New("a gate was missed")

func overheadCommand() *cobra.Command {
	o := overhead.Defaults()
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "overhead",
		Short: "CPU per request and per streamed event, beside a bare pass-through",
		Long: `Measure the CPU time that the node spends per plain request and per streamed
event, on an engine that computes nothing, and compare it with a bare fasthttp
pass-through to a mock server, which is what two HTTP hops cost at least.

All servers run at once and are visited in turn, round by round, so that the
machine's mood meets all of them. A number is the CPU time (user and system) of
the server's process divided by the replies, the median of the rounds; a ratio
is taken within a round. Rounds in which other programs used more than 5 % of
the machine are thrown out; when all were, they count and the result is marked
disturbed. Accounts, limits, request log and ledger are on.

  plain         one messages request of about 300 bytes, not streaming
  count_tokens  front end, prepare and permit only: neither engine nor ledger
  short, long   streams; their slope is the price of one event
  1 client      a stream alone, where one write carries the fewest events
  node, no log  the node with its log level at warn: what a log line costs

In the end the node is profiled under plain requests and under long streams,
and the time is divided by what it was spent on; the ledger is one part.

The exit status is 1 when a gate (--max-ratio, --max-event-us) is missed.`,
		Example: `  corebench overhead
  corebench overhead --node bin/corenode --rounds 15 --json overhead.json
  corebench overhead --clients 64 --profile 0
  corebench overhead --profile 10s --profile-dir /tmp/profiles`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runOverhead(cmd, o, jsonFile) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Node, "node", o.Node, "the corenode program")
	f.IntVar(&o.Clients, "clients", o.Clients, "connections that send requests at once")
	f.DurationVar(&o.Duration, "duration", o.Duration, "length of one cell of one round")
	f.DurationVar(&o.Warmup, "warmup", o.Warmup, "length of each cell before the first round, not measured")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "how often each cell is measured")
	f.IntVar(&o.PlainTokens, "plain-tokens", o.PlainTokens, "max_tokens of plain requests")
	f.IntVar(&o.ShortTokens, "short-tokens", o.ShortTokens, "max_tokens of short streams")
	f.IntVar(&o.LongTokens, "long-tokens", o.LongTokens, "max_tokens of long streams")
	f.Float64Var(&o.MaxRatio, "max-ratio", o.MaxRatio, "gate: CPU of a plain request, node / pass-through")
	f.Float64Var(&o.MaxEventUS, "max-event-us", o.MaxEventUS, "gate: microseconds of CPU per streamed event")
	f.DurationVar(&o.Profile, "profile", o.Profile, "length of each profile in the end; 0 takes none")
	f.StringVar(&o.ProfileDir, "profile-dir", "", "folder to leave the profiles in, for go tool pprof")
	f.StringVar(&jsonFile, "json", "", "file to write the result to; METHOD.md documents it")
	return cmd
}

func runOverhead(cmd *cobra.Command, o overhead.Options, jsonFile string) (err error) {
	if o.Self, err = os.Executable(); err != nil {
		return err
	}
	r, err := overhead.Run(cmd.Context(), o, progress(cmd))
	if err != nil {
		return err
	}
	return deliver(cmd, r, jsonFile)
}

func progress(cmd *cobra.Command) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
}

// measured is the result of any of the measurements.
type measured interface {
	Print(w io.Writer) error
	WriteJSON(path string) error
	Met() bool
}

// deliver prints a result, writes it where it was asked for, and judges it.
func deliver(cmd *cobra.Command, r measured, jsonFile string) error {
	if err := r.Print(cmd.OutOrStdout()); err != nil {
		return err
	}
	if jsonFile != "" {
		if err := r.WriteJSON(jsonFile); err != nil {
			return err
		}
	}
	if !r.Met() {
		return errGate
	}
	return nil
}

func engineCommand() *cobra.Command {
	o := engine.Defaults()
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "engine --model FILE.gguf",
		Short: "Start, decode, batching and prefix cache of the node with a model",
		Long: `Measure what the node makes of the machine with a model file, each number
beside what it is to be judged by, all in one run:

  start   time to ready when the weights must be packed (cold), and on the same
          data folder again, where they are found packed (warm)
  decode  tokens/s of one greedy stream. Each token reads all weights once, so
          tokens/s times their bytes is a share of what the memory can deliver,
          which is measured right before and after each stream by reading
          512 MiB with the same number of threads, while the node does nothing
  batch   the wall time of --streams streams at once, beside the same number
          one after another, all prompts different
  turns   the time to the first output (TTFT) in the second turn of a long
          conversation, beside the first; the difference is the prefix cache

Thinking is off. Ratios are taken within a round and the median of the rounds
counts. Rounds in which other programs used more than 5 % of the machine during
decode, batch or turns are thrown out for that part; when all were, they count
and the part is marked disturbed.

The model needs not be a trained one: random weights cost the same. It should be
much larger than the processor's caches, or memory is not what limits decoding.

The exit status is 1 when a gate (--min-share, --max-batch-ratio,
--max-turn-ratio) is missed.`,
		Example: `  corebench engine --node bin/corenode --model qwen3-0.6b-q8_0.gguf
  corebench engine --model big.gguf --rounds 3 --tokens 32 --json engine.json
  corebench engine --model m.gguf --streams 16 --threads 8`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := engine.Run(cmd.Context(), o, progress(cmd))
			if err != nil {
				return err
			}
			return deliver(cmd, r, jsonFile)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Node, "node", o.Node, "the corenode program")
	f.StringVar(&o.Model, "model", "", "the model file (GGUF); required")
	f.IntVar(&o.Threads, "threads", o.Threads, "threads that compute, and that read memory for the reference")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "how often everything but the starts is measured")
	f.IntVar(&o.Tokens, "tokens", o.Tokens, "tokens of the single stream")
	f.IntVar(&o.Streams, "streams", o.Streams, "streams at once, and in sequence")
	f.IntVar(&o.StreamTokens, "stream-tokens", o.StreamTokens, "tokens of each of them, and of each turn's answer")
	f.IntVar(&o.Conversation, "conversation", o.Conversation, "tokens of the conversation's first turn, about")
	f.DurationVar(&o.Memory, "memory", o.Memory, "length of one measurement of the memory")
	f.DurationVar(&o.StartTimeout, "start-timeout", o.StartTimeout, "the longest wait until the node is ready")
	f.Float64Var(&o.MinShare, "min-share", o.MinShare, "gate: weights read by decode / memory read bandwidth, at least")
	f.Float64Var(&o.MaxBatchRatio, "max-batch-ratio", o.MaxBatchRatio, "gate: wall time at once / in sequence, below")
	f.Float64Var(&o.MaxTurnRatio, "max-turn-ratio", o.MaxTurnRatio, "gate: TTFT of turn 2 / turn 1, below")
	f.StringVar(&jsonFile, "json", "", "file to write the result to; METHOD.md documents it")
	return cmd
}

// mockCommand and passThroughCommand are this program in its two other roles.
func mockCommand() *cobra.Command {
	return &cobra.Command{
		Use: "__mock", Short: "Serve the mock upstream", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return listen(cmd, floor.Mock) },
	}
}

func passThroughCommand() *cobra.Command {
	var upstream string
	cmd := &cobra.Command{
		Use: "__passthrough", Short: "Serve the pass-through", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listen(cmd, func(ln net.Listener) error { return floor.PassThrough(ln, upstream) })
		},
	}
	cmd.Flags().StringVar(&upstream, "upstream", "", "address of the mock, host:port")
	return cmd
}

// listen serves on a free port, which it prints, until the command's context ends.
func listen(cmd *cobra.Command, serve func(net.Listener) error) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), "listening on", ln.Addr())
	done := make(chan error, 1)
	go func() { done <- serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-cmd.Context().Done():
		return nil // the process ends, and its connections with it
	}
}
