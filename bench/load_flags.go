package main

import (
	"cmp"
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

// loadFlags are the flags that a load and a sweep have in common: the options
// themselves, and as they stand on the command line those that must be read.
type loadFlags struct {
	drive.Options

	url, protocol, extra                       string
	keys                                       []string
	noStream                                   bool
	input, output, pairs, objectives, arrivals string
	repeat                                     int
	json, csv, html                            string
	quiet                                      bool
	calibrate                                  bool // the server is asked how long words are
}

func (f *loadFlags) register(cmd *cobra.Command) {
	s, w := cmd.Flags(), &f.Shape
	s.StringVar(&f.url, "url", "http://127.0.0.1:8080", "the server, http or https")
	s.StringArrayVar(&f.keys, "key", nil, "key of an account, or @FILE that holds it; several take turns by conversation")
	s.StringVar(&f.protocol, "protocol", "messages", "messages or chat")
	s.StringVar(&f.Template.Model, "model", workload.Model, "the model asked for")
	s.BoolVar(&f.noStream, "no-stream", false, "ask for whole replies instead of streams")
	s.StringVar(&f.extra, "extra", "", `JSON object whose members are added to every request, such as '{"ignore_eos":true}'`)
	s.Float64Var(&f.Template.Temperature, "temperature", 0, "of every request; negative leaves it to the server")
	s.BoolVar(&f.Connection.Insecure, "insecure", false, "take any certificate")
	s.DurationVar(&f.Connection.Connect, "connect-timeout", 10*time.Second, "the longest wait for a connection")
	s.DurationVar(&f.Timeout, "timeout", 10*time.Minute, "the longest time for one request, its reply included")

	s.StringVar(&f.input, "input", "256", "tokens of a prompt: N, uniform:MIN-MAX or lognormal:MEDIAN,SIGMA[,MAX]")
	s.StringVar(&f.output, "output", "64", "most tokens of an answer, in the same forms")
	s.StringVar(&f.pairs, "lengths", "", "CSV file of pairs (input tokens, output tokens) to draw from instead")
	s.IntVar(&w.PrefixTokens, "prefix-tokens", 0, "tokens of a system prompt that conversations share")
	s.IntVar(&w.PrefixGroup, "prefix-group", 0, "how many conversations in a row share one; 0: all")
	s.IntVar(&w.Turns, "turns", 1, "turns of a conversation; answers are fed back")
	s.DurationVar(&w.Think, "think", 0, "pause before each further turn of a conversation")
	s.BoolVar(&w.ThinkRandom, "think-random", false, "make the pauses exponential, --think being their mean")
	s.StringVar(&f.SessionHeader, "session", "", "header that names the conversation, such as X-Session-Id; empty sends none")
	s.Uint64Var(&w.Seed, "seed", 0,
		"of everything random: the same seed asks the same; 0 takes one from the clock, so that no cache knows the prompts")
	s.Float64Var(&w.Size.PerWord, "tokens-per-word", 0, "how many tokens a word has; 0 asks the server")
	s.Float64Var(&w.Size.Overhead, "template-tokens", 0, "tokens that the template adds to a prompt, with --tokens-per-word")

	s.DurationVar(&f.Ramp, "ramp", 0, "time in which clients are added, or the rate grows, before the warm-up")
	s.DurationVar(&f.Warmup, "warmup", 0, "time before the window, not measured")
	s.DurationVar(&f.Duration, "duration", 0, "length of the window (default 30s if there is no --count or trace)")
	s.IntVar(&f.Count, "count", 0, "end after that many requests, or after --duration if that is given and comes first")
	s.IntVar(&f.InFlightMax, "in-flight", 4096, "most conversations at once in an open loop; others are not sent")
	s.IntVar(&f.repeat, "repeat", 1, "runs, each with the next seed")
	s.DurationVar(&f.ErrorPause, "error-pause", 100*time.Millisecond, "what a client of a closed loop waits after a failure")
	s.DurationVar(&f.RetryAfterMax, "retry-after-max", 10*time.Second, "how far a client of a closed loop obeys Retry-After")
	s.StringVar(&f.objectives, "slo", "", "objectives of goodput, such as ttft=500ms,itl_p99=150ms,e2e=10s")

	s.StringVar(&f.json, "json", "", "file to write the result to; METHOD.md has its fields, or names the type that has them")
	s.StringVar(&f.html, "html", "", "file to write a page with plots to")
	s.BoolVar(&f.quiet, "quiet", false, "no progress line")
}

// read completes the options by what the flags say.
func (f *loadFlags) read() (err error) {
	if f.Target, err = client.ParseTarget(f.url); err != nil {
		return err
	}
	if f.Template.Protocol, err = protocol.Parse(f.protocol); err != nil {
		return err
	}
	f.Template.Stream, f.Template.Extra = !f.noStream, []byte(f.extra)
	if f.Keys, err = readKeys(f.keys); err != nil {
		return err
	}
	if err = f.readShape(); err != nil {
		return err
	}
	if f.Objectives, err = stats.ParseObjectives(f.objectives); err != nil {
		return err
	}
	if f.arrivals != "" {
		if f.Trace, err = workload.ReadFile(f.arrivals, workload.ReadTrace); err != nil {
			return err
		}
	}
	if f.Duration == 0 && f.Count == 0 && len(f.Trace) == 0 {
		f.Duration = 30 * time.Second
	}
	return nil
}

func (f *loadFlags) readShape() (err error) {
	w := &f.Shape
	if w.Size.PerWord < 0 || w.Size.Overhead < 0 {
		return fmt.Errorf("tokens per word and of the template must not be negative")
	}
	f.calibrate = w.Size.PerWord == 0
	if w.Size.Overhead > 0 && f.calibrate {
		return fmt.Errorf("the server is asked for tokens of the template, too: want them with tokens per word only")
	}
	w.Seed = cmp.Or(w.Seed, uint64(time.Now().UnixMilli()))
	if w.Input, err = workload.ParseLengths(f.input); err != nil {
		return err
	}
	if w.Output, err = workload.ParseLengths(f.output); err != nil {
		return err
	}
	if f.pairs != "" {
		w.Pairs, err = workload.ReadFile(f.pairs, workload.ReadPairs)
	}
	return err
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

// conditions are the options for the record; seed is the first run's.
func (f *loadFlags) conditions(seed uint64) result.Conditions {
	w := &f.Shape
	c := result.Conditions{URL: f.url, Protocol: f.protocol, Model: f.Template.Model, Stream: !f.noStream,
		Loop: "closed", Clients: f.Clients,
		Input: w.Input.String(), Output: w.Output.String(), PrefixTokens: w.PrefixTokens, PrefixGroup: w.PrefixGroup,
		Turns: w.Turns, ThinkMS: float64(w.Think) / 1e6, ThinkRandom: w.ThinkRandom, Keys: len(f.Keys), Session: f.SessionHeader,
		Extra: f.extra, Temperature: f.Template.Temperature, DurationS: f.Duration.Seconds(), Count: f.Count, WarmupS: f.Warmup.Seconds(),
		RampS: f.Ramp.Seconds(), TimeoutS: f.Timeout.Seconds(), Seed: seed,
		TokensPerWord: w.Size.PerWord, TemplateTokens: w.Size.Overhead, Calibrated: f.calibrate}
	if f.pairs != "" {
		c.Input = "pairs of " + filepath.Base(f.pairs)
		c.Output = c.Input
	}
	if f.Closed() {
		c.ErrorPauseS, c.RetryAfterMaxS = f.ErrorPause.Seconds(), f.RetryAfterMax.Seconds()
	} else {
		c.Loop, c.Rate, c.Arrivals, c.InFlightMax = "open", f.Rate, "poisson", f.InFlightMax
		if f.Constant {
			c.Arrivals = "constant"
		}
		if f.arrivals != "" {
			c.Arrivals = filepath.Base(f.arrivals)
		}
	}
	for _, objective := range f.Objectives {
		c.Objectives = append(c.Objectives, objective.String())
	}
	return c
}
