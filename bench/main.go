// Command corebench measures corenode. It knows the node only as its clients
// do: by starting its program and talking to it. METHOD.md says how every
// number is made, RESULTS.md which were measured.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"corenode/bench/engine"
	"corenode/bench/gpu"
	"corenode/bench/kernels"
	"corenode/bench/option"
	"corenode/bench/overhead"
	"corenode/bench/peer"
	"corenode/bench/report"
	"corenode/bench/skills"
	"corenode/bench/soak"
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
  corebench gpu          steps on a GPU with random weights: decoding beside the
                         bytes that it moves, prompts beside their arithmetic
  corebench peer         the node and other servers in turn, with one load
  corebench skills       how many prompts with known answers a server gets right
  corebench soak         whether a node stays as it is under hours of mixed traffic`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(overheadCommand(), engineCommand(), loadCommand(), compareCommand(), sweepCommand(), kernelsCommand(), gpuCommand(),
		peerCommand(), skillsCommand(), soakCommand(), mockCommand(), passThroughCommand(), spinCommand())
	return cmd
}

// errGate is that a bound of a measurement was missed.
var errGate = errors.New("a gate was missed")

// sayer tells the operator what goes on.
type sayer = func(format string, args ...any)

// measured is what a measurement found.
type measured interface {
	Print(w io.Writer) error
	Met() bool // its gates
}

// measure completes the command of a measurement: its options, and one more for
// the file to write the result to.
func measure[R measured](cmd *cobra.Command, options option.List, run func(context.Context, sayer) (R, error)) *cobra.Command {
	var path string
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := run(cmd.Context(), func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) })
		if err != nil {
			return err
		}
		return deliver(cmd, r, path, report.WriteJSON, errGate)
	}
	options.Register(cmd.Flags())
	cmd.Flags().StringVar(&path, "json", "", "file to write the result to; METHOD.md has its fields, or names the type that has them")
	return cmd
}

// deliver prints a result, writes it where it was asked for, and judges it.
func deliver(cmd *cobra.Command, r measured, path string, write func(path string, result any) error, missed error) error {
	var err error
	if path != "" { // before it is printed: whoever reads that may have gone, which ends the program
		err = write(path, r)
	}
	if err = errors.Join(err, r.Print(cmd.OutOrStdout())); err != nil {
		return err
	}
	if !r.Met() {
		return missed
	}
	return nil
}

func overheadCommand() *cobra.Command {
	o := overhead.Defaults()
	return measure(&cobra.Command{
		Use:   "overhead",
		Short: "CPU per request and per streamed event, beside a bare pass-through",
		Long: `Measure the CPU time that the node spends per plain request and per streamed
event, on an engine that computes nothing, and compare it with a bare fasthttp
pass-through to a mock server, which is what two HTTP hops cost at least.

All servers run at once and are visited in turn, round by round, so that the
machine's mood meets all of them. A number is the CPU time (user and system) of
the server's process divided by the replies, the median of the rounds; a ratio
is taken within a round, and the median of the rounds is the result. Rounds in
which other programs used more than 5 % of the machine are thrown out; when all
were, they count and the result is marked disturbed. Accounts, limits, request log and ledger are on.

  plain         one messages request of about 300 bytes, not streaming
  count_tokens  front end, prepare and permit only: neither engine nor ledger
  short, long   streams; their slope is the price of one event
  1 client      a stream alone, where one write carries the fewest events
  paced stream  --paced-clients streams with an event every 5 ms, so that each event
                has a write of its own

Beside the pass-through and the node there are:

  node, no log    the node with its log level at warn: what a log line costs
  node, upstream  a node whose models the mock answers
  LiteLLM proxy   in front of the mock, with --litellm

In the end the node is profiled under plain requests and under long streams, and
the one with an upstream under plain requests, and the time is divided by what it
was spent on; the ledger is one part. --profile 0 leaves that out, and the gates
of a plain request with an upstream with it: what is left without the ledger is
known from the profiles.

The exit status is 1 when a gate is missed: a plain request costs at most
--max-ratio times the pass-through, a streamed event at most --max-event-us; with
an upstream, ledger apart, a plain request at most --max-upstream-ratio times the
node's and 5 times the pass-through, and a paced event at most 1.5 times the node's.`,
		Example: `  corebench overhead
  corebench overhead --node bin/corenode --rounds 15 --json overhead.json
  corebench overhead --clients 64 --profile 0
  corebench overhead --profile 10s --profile-dir /tmp/profiles`,
	}, o.List(), func(ctx context.Context, say sayer) (overhead.Report, error) {
		return overhead.Run(ctx, o, say)
	})
}

func soakCommand() *cobra.Command {
	o := soak.Defaults()
	return measure(&cobra.Command{
		Use:   "soak",
		Short: "Whether a node's memory, goroutines and descriptors stay flat under hours of mixed traffic",
		Long: `Start a node with a small model and use it for --duration: requests over three
protocols, three in ten of which are left by their clients, while modules are switched on
and off, the configuration is read again and the clients' key is replaced. Now and then
the traffic pauses and the node is looked at, after a collection of garbage and with no
connection open. --traffic puts the requests and changes of more hours into --duration.

After the first fifth, memory without the modules', goroutines and descriptors may grow by
5 %, or by 32 MiB, 8 and 8, by the median of the slopes between all samples, and from the
first half to the second. In the end the ledger is
verified. The exit status is 1 when something grows, a request goes wrong, a stream
that ends with an error among them, the node logs an error, or the ledger is not sound;
when more than 1 % of the requests of the second half are refused; and when no answer
came in the second half or between two samples, none was left, or an action was never done.`,
		Example: `  corebench soak
  corebench soak --duration 8h --json soak.json
  corebench soak --duration 45m --traffic 8h`,
	}, o.List(), func(ctx context.Context, say sayer) (soak.Report, error) {
		return soak.Run(ctx, *o, say)
	})
}

func engineCommand() *cobra.Command {
	o := engine.Defaults()
	return measure(&cobra.Command{
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

Thinking and drafts are off. Ratios are taken within a round and the median of the
rounds counts. Rounds in which other programs used more than 5 % of the machine during
decode, batch or turns are thrown out for that part; when all were, they count
and the part is marked disturbed.

The model needs not be a trained one: random weights cost the same. It should be
much larger than the processor's caches, or memory is not what limits decoding.

The exit status is 1 when a gate (--min-share, --max-batch-ratio,
--max-turn-ratio) is missed.`,
		Example: `  corebench engine --node bin/corenode --model qwen3-0.6b-q8_0.gguf
  corebench engine --model big.gguf --rounds 3 --tokens 32 --json engine.json
  corebench engine --model m.gguf --streams 16 --threads 8`,
	}, o.List(), func(ctx context.Context, say sayer) (engine.Report, error) {
		return engine.Run(ctx, o, say)
	})
}

func kernelsCommand() *cobra.Command {
	o := kernels.Defaults()
	return measure(&cobra.Command{
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
which other programs used more than 5 % of the machine, during its steps or during
the readings of the memory, is thrown out; when all were, they count and the row is
marked disturbed. In the end the tokenizer and the sampler are timed on one thread,
without rounds. CORENODE_CPU_LEVEL forces the level of the kernels. Random weights
cost the same as trained ones.

The exit status is 1 when the share of decoding one sequence is below --min-share.`,
		Example: `  corebench kernels --model qwen3-0.6b-q8_0.gguf
  CORENODE_CPU_LEVEL=avx2 corebench kernels --model m.gguf --rounds 3 --json kernels.json`,
	}, o.List(), func(ctx context.Context, say sayer) (kernels.Report, error) {
		return kernels.Run(ctx, o, say)
	})
}

func gpuCommand() *cobra.Command {
	o := gpu.Defaults()
	return measure(&cobra.Command{
		Use:   "gpu",
		Short: "Steps on a GPU with random weights, beside what the device can do at most",
		Long: `Measure steps of a model of random weights on the first GPU, in this process (a
program built with make build-cuda, or --interpret for a rehearsal). The default
shape is Qwen3.5-35B-A3B. The weights are made as they are loaded.

  decode   steps of one token for each of a batch, at a context, from the launch
           to the drawn tokens. The floor is what the step has to move, with the
           experts that as many random tokens hit in this run, at the speed of a
           copy within the device's memory in this run
  prefill  a prompt, in steps of --rows tokens. The floor is its arithmetic at the
           speed of our own product of large matrices in this run, or at --tflops
           where that is more

Cells go from the most to the least important; none begins after --limit, and
those whose cache does not fit are left out and say so. After its steps each cell
is computed once more with events around every kernel: their times are the
table of kernels.

With --node a whole node is started, and streams over HTTP are compared with a
bare loop of as many sequences on the same weights.

For the default shape in bf16, f16 or fp8 the exit status is 1 when a share is
below its gate (METHOD.md), or what has one was asked for and left out. Where no
gate applies it says so.`,
		Example: `  corebench gpu --each gpu.json --html gpu.html
  corebench gpu --type q8_0 --decode 64x4k,1x4k --json gpu.json
  corebench gpu --layers 20 --tflops 790
  corebench gpu --node bin/corenode-cuda --streams 64,256
  corebench gpu --interpret --layers 4 --hidden 64 --heads 4 --head-dim 64 --k-heads 2 --v-heads 4 --state-dim 64 --experts 6 \
    --experts-used 2 --expert-width 64 --vocabulary 128 --copy 1 --product 64 --steps 1 --decode 2x5`,
	}, o.List(), func(ctx context.Context, say sayer) (gpu.Report, error) {
		return gpu.Run(ctx, o, say)
	})
}

func peerCommand() *cobra.Command {
	o := peer.Defaults()
	return measure(&cobra.Command{
		Use:   "peer --model FILE.gguf --llama-server PATH | --ik-llama-server PATH | --openvino-python PATH",
		Short: "The node and other servers in turn on one model, with one load",
		Long: `Run the node and other servers in turn on the same model file and put the same
load on all, over the chat protocol: the same prompts, greedy, streaming, without
drafts, the same number of threads, no answer shared between requests by any
cache but the servers' own. Rounds go node, others, others backwards, node, and so on; each
server is started anew for its turn. A ratio is taken within a round and says
how many times better the node is.

  prefill          512 tokens, to the first token
  decode, deep     one stream, after few and after 2,048 tokens, and their prefill
  batch8, batch16  8 and 16 streams with short prompts
  server           8 clients at once with 251 tokens in and 64 out
  turns            the second turn of a conversation of 2,000 tokens
  memory           resident memory after 8 conversations of 2,048 tokens
  busy             one stream while a program computes on each processor

The peers are llama-server of llama.cpp and of ik_llama.cpp, and OpenVINO GenAI,
which a script in this program serves. With --rounds-file each complete round is
added to a file as it ends, and the table is of all rounds in there, so that a
run can be cut into several, and models and levels be compared in one table; a
file is of one machine, one build of the node, and peers as they were.
--level forces the node's kernels; name peers that were built for that level.

Rounds in which other programs used more than 5 % of the machine are thrown out
for that scenario. The exit status is 1 when a gate is missed, or a request of the
node failed; gates are for a model of 0.6B on two processors.`,
		Example: `  corebench peer --llama-server ~/llama.cpp/build/bin/llama-server --model qwen3-0.6b-q8_0.gguf
  corebench peer --openvino-python ~/openvino/bin/python3 --model m.gguf --only prefill,server --rounds 5 --json peer.json
  corebench peer --ik-llama-server ~/ik/avx2/bin/llama-server --level avx2 --model m.gguf --only decode --rounds-file rounds.jsonl
  corebench peer --rounds 0 --rounds-file rounds.jsonl`,
	}, o.List(), func(ctx context.Context, say sayer) (peer.Report, error) { return peer.Run(ctx, o, say) })
}

func skillsCommand() *cobra.Command {
	o := skills.Defaults()
	var key string
	cmd := measure(&cobra.Command{
		Use:   "skills --url URL --model MODEL,... --file FILE.jsonl,...",
		Short: "How many prompts with known answers a server gets right",
		Long: `Ask a server that speaks the messages protocol every prompt of some files and judge
the answers by the rules beside them. Each line of a file is one case:

  {"skill": "arithmetic", "name": "carry",
   "body": {"messages": [{"role": "user", "content": "What is 17 + 25?"}]},
   "expect": {"text": "\\b42\\b"}}

  body     a messages request without model and stream
  expect   rules that must all hold: text and thinking must match a regular
           expression, not must not match the text, json is equal to the text as
           JSON, schema is one that it is valid by, tools are the calls in order (name, and input unless it is
           left out), stop is the stop_reason (end_turn, or tool_use with tools)

All is asked of each model at each temperature. The table of a model is that of
its card: for each skill how many answers were right and how many the model ended
by itself, and below it how many went round in circles and which calls were valid.

The exit status is 1 when a skill is below --min-score, or with --promises when a
promise of the embedded models is not kept (METHOD.md has them).`,
		Example: `  corebench skills --url http://127.0.0.1:8080 --key @data/default.key --model core-1.1-mini --file engine/embedded/skills.jsonl
  corebench skills --url http://127.0.0.1:8080 --key @data/default.key --model core-1.1,core-1.1-mini --temperature 0,-1 \
    --file engine/embedded/skills.jsonl,engine/embedded/promises.jsonl --promises --json skills.json`,
	}, o.List(), func(ctx context.Context, say sayer) (skills.Report, error) {
		keys, err := readKeys([]string{key})
		if err != nil {
			return skills.Report{}, err
		}
		o.Key = keys[0]
		return skills.Run(ctx, o, say)
	})
	cmd.Flags().StringVar(&key, "key", "", "sent as x-api-key; @FILE reads it from there")
	cmd.Flags().Lookup("json").Usage = "file to write the result to, with every wrong answer; METHOD.md documents it"
	return cmd
}
