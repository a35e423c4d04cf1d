package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"corenode/bench/client"
	"corenode/bench/drive"
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
	s.DurationVar(&f.think, "think", 0, "pause before each further turn of a conversation")
	s.BoolVar(&f.thinkRandom, "think-random", false, "make the pauses exponential, --think being their mean")
	s.StringVar(&f.sessionHeader, "session", "", "header that names the conversation, such as X-Session-Id; empty sends none")
	s.Uint64Var(&f.seed, "seed", 0, "of everything random: the same seed asks the same; 0 takes one from the clock, so that no cache knows the prompts")
	s.Float64Var(&f.tokensPerWord, "tokens-per-word", 0, "how many tokens a word has; 0 asks the server")
	s.Float64Var(&f.template, "template-tokens", 0, "tokens that the template adds to a prompt, with --tokens-per-word")

	s.DurationVar(&f.ramp, "ramp", 0, "time in which clients are added, or the rate grows, before the warm-up")
	s.DurationVar(&f.warmup, "warmup", 0, "time before the window, not measured")
	s.DurationVar(&f.duration, "duration", 0, "length of the window (default 30s if there is no --count or trace)")
	s.IntVar(&f.count, "count", 0, "end after that many requests, or after --duration if that is given and comes first")
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
	if f.template > 0 && f.tokensPerWord == 0 {
		return s, fmt.Errorf("the server is asked for tokens of the template, too: want them with tokens per word only")
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
