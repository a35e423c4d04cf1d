package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"corenode/bench/client"
	"corenode/bench/drive"
	"corenode/bench/page"
	"corenode/bench/proc"
	"corenode/bench/protocol"
	"corenode/bench/result"
	"corenode/bench/stats"
	"corenode/bench/workload"
)

// loadFlags are the flags that a load and a sweep have in common, as they stand
// on the command line.
type loadFlags struct {
	url, protocol, model, extra    string
	keys                           []string
	noStream, insecure             bool
	temperature                    float64
	connectTimeout, requestTimeout time.Duration

	input, output, pairs      string
	prefixTokens, prefixGroup int
	turns                     int
	think                     time.Duration
	thinkRandom               bool
	sessionHeader             string
	seed                      uint64
	tokensPerWord, template   float64

	ramp, warmup, duration    time.Duration
	count, inFlight, repeat   int
	errorPause, retryAfterMax time.Duration
	objectives                string
	clients                   int
	rate                      float64
	arrivals                  string
	constant                  bool
	json, csv, html           string
	quiet                     bool
}

func (f *loadFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.url, "url", "http://127.0.0.1:8080", "the server, http or https")
	s.StringArrayVar(&f.keys, "key", nil, "key of an account, or @FILE that holds it; several take turns by conversation")
	s.StringVar(&f.protocol, "protocol", "messages", "messages or chat")
	s.StringVar(&f.model, "model", workload.Model, "the model asked for")
	s.BoolVar(&f.noStream, "no-stream", false, "ask for whole replies instead of streams")
	s.StringVar(&f.extra, "extra", "", `JSON object whose members are added to every request, such as '{"ignore_eos":true}'`)
	s.Float64Var(&f.temperature, "temperature", 0, "of every request; negative leaves it to the server")
	s.BoolVar(&f.insecure, "insecure", false, "take any certificate")
	s.DurationVar(&f.connectTimeout, "connect-timeout", 10*time.Second, "the longest wait for a connection")
	s.DurationVar(&f.requestTimeout, "timeout", 10*time.Minute, "the longest time for one request, its reply included")

	s.StringVar(&f.input, "input", "256", "tokens of a prompt: N, uniform:MIN-MAX or lognormal:MEDIAN,SIGMA[,MAX]")
	s.StringVar(&f.output, "output", "64", "most tokens of an answer, in the same forms")
	s.StringVar(&f.pairs, "lengths", "", "CSV file of pairs (input tokens, output tokens) to draw from instead")
	s.IntVar(&f.prefixTokens, "prefix-tokens", 0, "tokens of a system prompt that conversations share")
	s.IntVar(&f.prefixGroup, "prefix-group", 0, "how many conversations in a row share one; 0: all")
	s.IntVar(&f.turns, "turns", 1, "turns of a conversation; answers are fed back")
	s.DurationVar(&f.think, "think", 0, "pause before each further turn")
	s.BoolVar(&f.thinkRandom, "think-random", false, "make the pauses exponential, --think being their mean")
	s.StringVar(&f.sessionHeader, "session", "", "header that names the conversation, such as X-Session-Id; empty sends none")
	s.Uint64Var(&f.seed, "seed", 0, "of everything random: the same seed asks the same; 0 takes one from the clock, so that no cache knows the prompts")
	s.Float64Var(&f.tokensPerWord, "tokens-per-word", 0, "how many tokens a word has; 0 asks the server")
	s.Float64Var(&f.template, "template-tokens", 0, "tokens that the template adds to a prompt, with --tokens-per-word")

	s.DurationVar(&f.ramp, "ramp", 0, "time in which clients are added, or the rate grows, before the warm-up")
	s.DurationVar(&f.warmup, "warmup", 0, "time before the window, not measured")
	s.DurationVar(&f.duration, "duration", 0, "length of the window (default 30s if there is no --count or trace)")
	s.IntVar(&f.count, "count", 0, "end after that many requests instead")
	s.IntVar(&f.inFlight, "in-flight", 4096, "most conversations at once in an open loop; others are not sent")
	s.IntVar(&f.repeat, "repeat", 1, "runs, each with the next seed")
	s.DurationVar(&f.errorPause, "error-pause", 100*time.Millisecond, "what a client of a closed loop waits after a failure")
	s.DurationVar(&f.retryAfterMax, "retry-after-max", 10*time.Second, "how far a client of a closed loop obeys Retry-After")
	s.StringVar(&f.objectives, "slo", "", "objectives of goodput, such as ttft=500ms,itl_p99=150ms,e2e=10s")
	s.StringVar(&f.json, "json", "", "file to write the result to; METHOD.md documents it")
	s.StringVar(&f.html, "html", "", "file to write a page with plots to")
	s.BoolVar(&f.quiet, "quiet", false, "no progress line")
}

// options reads the flags.
func (f *loadFlags) options() (o drive.Options, err error) {
	if o.Target, err = client.ParseTarget(f.url); err != nil {
		return o, err
	}
	o.Template = protocol.Template{Model: f.model, Stream: !f.noStream, Temperature: f.temperature, Extra: []byte(f.extra)}
	if o.Template.Protocol, err = protocol.Parse(f.protocol); err != nil {
		return o, err
	}
	if o.Keys, err = readKeys(f.keys); err != nil {
		return o, err
	}
	if o.Shape, err = f.shape(); err != nil {
		return o, err
	}
	if o.Objectives, err = stats.ParseObjectives(f.objectives); err != nil {
		return o, err
	}
	if f.arrivals != "" {
		if o.Trace, err = workload.ReadFile(f.arrivals, workload.ReadTrace); err != nil {
			return o, err
		}
	}
	o.Connection = client.Options{Connect: f.connectTimeout, Insecure: f.insecure}
	o.Clients, o.Rate, o.Constant = f.clients, f.rate, f.constant
	o.Ramp, o.Warmup, o.Duration, o.Count, o.InFlightMax = f.ramp, f.warmup, f.duration, f.count, f.inFlight
	if o.Duration == 0 && o.Count == 0 && len(o.Trace) == 0 {
		o.Duration = 30 * time.Second
	}
	o.Timeout, o.ErrorPause, o.RetryAfterMax, o.SessionHeader = f.requestTimeout, f.errorPause, f.retryAfterMax, f.sessionHeader
	return o, nil
}

func (f *loadFlags) shape() (s workload.Shape, err error) {
	s = workload.Shape{Seed: f.seed, PrefixTokens: f.prefixTokens, PrefixGroup: f.prefixGroup, Turns: f.turns, Think: f.think, ThinkRandom: f.thinkRandom,
		Size: workload.Calibration{PerWord: f.tokensPerWord, Overhead: f.template}}
	if f.tokensPerWord < 0 || f.template < 0 {
		return s, fmt.Errorf("tokens per word and of the template must not be negative")
	}
	if s.Input, err = workload.ParseLengths(f.input); err != nil {
		return s, err
	}
	if s.Output, err = workload.ParseLengths(f.output); err != nil {
		return s, err
	}
	if f.pairs != "" {
		s.Pairs, err = workload.ReadFile(f.pairs, workload.ReadPairs)
	}
	return s, err
}

// readKeys reads keys from where they are named.
func readKeys(names []string) ([]string, error) {
	if len(names) == 0 {
		return []string{""}, nil
	}
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = name
		if path, ok := strings.CutPrefix(name, "@"); ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("read a key: %w", err)
			}
			keys[i] = strings.TrimSpace(string(b))
		}
		if strings.ContainsAny(keys[i], "\r\n") {
			return nil, fmt.Errorf("key %d has several lines", i+1)
		}
	}
	return keys, nil
}

// conditions are the options for the record.
func (f *loadFlags) conditions(o drive.Options) result.Conditions {
	c := result.Conditions{URL: f.url, Protocol: f.protocol, Model: f.model, Stream: !f.noStream, Loop: "closed", Clients: o.Clients,
		Input: o.Shape.Input.String(), Output: o.Shape.Output.String(), PrefixTokens: f.prefixTokens, PrefixGroup: f.prefixGroup,
		Turns: f.turns, ThinkMS: float64(f.think) / 1e6, ThinkRandom: f.thinkRandom, Keys: len(o.Keys), Session: f.sessionHeader,
		Extra: f.extra, Temperature: f.temperature, DurationS: o.Duration.Seconds(), Count: o.Count, WarmupS: o.Warmup.Seconds(),
		RampS: o.Ramp.Seconds(), TimeoutS: o.Timeout.Seconds(), Seed: f.seed,
		TokensPerWord: o.Shape.Size.PerWord, TemplateTokens: o.Shape.Size.Overhead, Calibrated: f.tokensPerWord == 0}
	if f.pairs != "" {
		c.Input = "pairs of " + filepath.Base(f.pairs)
		c.Output = c.Input
	}
	if !o.Closed() {
		c.Loop, c.Rate, c.Arrivals, c.InFlightMax = "open", o.Rate, "poisson", o.InFlightMax
		if o.Constant {
			c.Arrivals = "constant"
		}
		if f.arrivals != "" {
			c.Arrivals = filepath.Base(f.arrivals)
		}
	}
	for _, objective := range o.Objectives {
		c.Objectives = append(c.Objectives, objective.String())
	}
	return c
}

// prepare reads the flags, checks them, and asks the server how long words are.
func (f *loadFlags) prepare(ctx context.Context) (drive.Options, error) {
	if f.seed == 0 {
		f.seed = uint64(time.Now().UnixMilli())
	}
	o, err := f.options()
	if err == nil {
		err = o.Validate()
	}
	if err != nil {
		return o, err
	}
	// A harness that collects garbage less often disturbs a server beside it less.
	debug.SetGCPercent(400)
	if f.tokensPerWord == 0 {
		o.Shape.Size, err = drive.Calibrate(ctx, o)
	}
	return o, err
}

// measure makes all runs of one load.
func (f *loadFlags) measure(ctx context.Context, o drive.Options, status io.Writer, rows *result.Rows) (result.File, error) {
	var runs []stats.Run
	for i := range max(1, f.repeat) {
		o.Shape.Seed = f.seed + uint64(i)
		watch := drive.Watch{}
		if rows != nil {
			rows.NextRun()
			watch.Ended = rows.Add
		}
		line := newProgressLine(status, f.quiet)
		if line != nil {
			watch.Progress = line.show
		}
		run, err := drive.Run(ctx, o, watch)
		line.clear()
		if err != nil {
			return result.File{}, err
		}
		runs = append(runs, run)
		if ctx.Err() != nil {
			break
		}
	}
	return result.New(proc.ReadHost("."), f.conditions(o), runs), nil
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
	s.IntVar(&f.clients, "clients", 0, "clients of a closed loop")
	s.Float64Var(&f.rate, "rate", 0, "conversations per second of an open loop")
	s.BoolVar(&f.constant, "constant", false, "with --rate: equal gaps instead of random ones")
	s.StringVar(&f.arrivals, "arrivals", "", "CSV file of offsets in seconds, played once")
	s.StringVar(&f.csv, "csv", "", "file to write a line per request to")
	return cmd
}

func runLoad(cmd *cobra.Command, f *loadFlags) error {
	o, err := f.prepare(cmd.Context())
	if err != nil {
		return err
	}
	var rows *result.Rows
	if f.csv != "" {
		file, err := os.Create(f.csv)
		if err != nil {
			return err
		}
		defer file.Close()
		rows = result.NewRows(file)
	}
	file, err := f.measure(cmd.Context(), o, cmd.ErrOrStderr(), rows)
	if err != nil {
		return err
	}
	if rows != nil {
		if err := rows.Close(); err != nil {
			return fmt.Errorf("write %s: %w", f.csv, err)
		}
	}
	if err := file.Print(cmd.OutOrStdout()); err != nil {
		return err
	}
	if f.json != "" {
		if err := file.Write(f.json); err != nil {
			return err
		}
	}
	if err := writePage(f.html, func(w io.Writer) error { return page.Load(w, file) }); err != nil {
		return err
	}
	if !file.Succeeded() {
		return errNothing
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
