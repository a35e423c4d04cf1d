// Package result is the file that a load leaves behind: its layout, what can be
// asked of it by name, what a reader should be told about it, and how two of
// them compare. Pure but for ReadFile.
package result

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"corenode/bench/proc"
	"corenode/bench/report"
	"corenode/bench/stats"
)

// Schema names the layout of File. Fields may be added under this name; it
// changes when one is taken away or changes its meaning.
const Schema = "corebench.load/1"

// File is the result of one load, of one run or several of the same kind.
type File struct {
	Schema     string      `json:"schema"`
	Host       proc.Host   `json:"host"`
	Conditions Conditions  `json:"conditions"`
	Runs       []stats.Run `json:"runs"`
	// Metrics are the numbers that files are compared by, over the runs.
	Metrics map[string]report.Spread `json:"metrics"`
	Notes   []string                 `json:"notes"`
}

// Conditions are what the numbers hold for.
type Conditions struct {
	URL      string `json:"url"`
	Protocol string `json:"protocol"`
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`

	Loop     string  `json:"loop"` // closed or open
	Clients  int     `json:"clients,omitempty"`
	Rate     float64 `json:"rate_per_s,omitempty"`
	Arrivals string  `json:"arrivals,omitempty"` // poisson, constant, or the name of a trace

	Input        string  `json:"input_tokens"` // how lengths are drawn
	Output       string  `json:"output_tokens"`
	PrefixTokens int     `json:"prefix_tokens,omitempty"`
	PrefixGroup  int     `json:"prefix_group,omitempty"`
	Turns        int     `json:"turns"`
	ThinkMS      float64 `json:"think_ms,omitempty"`
	ThinkRandom  bool    `json:"think_random,omitempty"`
	Keys         int     `json:"keys"`
	Session      string  `json:"session_header,omitempty"`

	Extra       string  `json:"extra,omitempty"`
	Temperature float64 `json:"temperature"` // negative: left to the server

	DurationS   float64 `json:"duration_s,omitempty"`
	Count       int     `json:"count,omitempty"`
	WarmupS     float64 `json:"warmup_s"`
	RampS       float64 `json:"ramp_s"`
	TimeoutS    float64 `json:"timeout_s"`
	InFlightMax int     `json:"in_flight_max,omitempty"` // of an open loop
	Seed        uint64  `json:"seed"`
	// Of a closed loop: how long a client waits after a failure, and how far it obeys Retry-After.
	ErrorPauseS    float64 `json:"error_pause_s,omitempty"`
	RetryAfterMaxS float64 `json:"retry_after_max_s,omitempty"`

	TokensPerWord  float64  `json:"tokens_per_word"`
	TemplateTokens float64  `json:"template_tokens"`
	Calibrated     bool     `json:"calibrated"` // by the server's own counting
	Objectives     []string `json:"objectives,omitempty"`
}

// New makes a file of runs.
func New(host proc.Host, c Conditions, runs []stats.Run) File {
	f := File{Schema: Schema, Host: host, Conditions: c, Runs: runs, Metrics: map[string]report.Spread{}}
	values := map[string][]float64{}
	for i := range runs {
		for _, m := range Metrics() {
			if v, ok := m.of(&runs[i]); ok {
				values[m.Name] = append(values[m.Name], v)
			}
		}
	}
	for name, v := range values {
		f.Metrics[name] = report.SpreadOf(v)
	}
	f.Notes = notes(&f)
	return f
}

// ReadFile reads a file that holds a File, and refuses others.
func ReadFile(path string) (File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return File{}, err
	}
	f, err := Parse(b)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Parse reads the bytes of a file.
func Parse(b []byte) (f File, err error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return f, fmt.Errorf("not a result: %w", err)
	}
	if head.Schema != Schema {
		return f, fmt.Errorf("its schema is %q, want %q", head.Schema, Schema)
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, fmt.Errorf("read the result: %w", err)
	}
	if len(f.Runs) == 0 {
		return f, fmt.Errorf("the result has no runs")
	}
	return f, nil
}

// Metric is one number of a run that has a name and a better direction.
type Metric struct {
	Name  string
	Unit  string
	Lower bool // is better
	// Neutral is what no direction is better of: it says what the others are of.
	Neutral bool
	of      func(*stats.Run) (float64, bool)
	// What the estimate of noise takes it from: a sum of every block that is
	// divided by its time, or a percentile of a latency; neither, no estimate.
	sum     func(*stats.Block) float64
	latency string
	share   float64
}

var shares = []struct {
	name  string
	share float64
	of    func(stats.Distribution) float64
}{
	{"p50", 0.5, func(d stats.Distribution) float64 { return d.P50 }},
	{"p90", 0.9, func(d stats.Distribution) float64 { return d.P90 }},
	{"p95", 0.95, func(d stats.Distribution) float64 { return d.P95 }},
	{"p99", 0.99, func(d stats.Distribution) float64 { return d.P99 }},
	{"p999", 0.999, func(d stats.Distribution) float64 { return d.P999 }},
	{"max", 1, func(d stats.Distribution) float64 { return d.Max }},
}

// InputLength and OutputLength are the metrics of how long prompts and answers are on average.
const (
	InputLength  = "input_per_request"
	OutputLength = "output_per_request"
)

// Metrics lists all, rates first.
func Metrics() []Metric {
	list := []Metric{
		rate("requests_per_s", func(r *stats.Rates) float64 { return r.Requests },
			func(b *stats.Block) float64 { return float64(b.Succeeded) }),
		rate("goodput_per_s", func(r *stats.Rates) float64 { return r.Goodput }, func(b *stats.Block) float64 { return float64(b.Good) }),
		told("output_tokens_per_s", (*stats.Run).OutputTold, func(r *stats.Rates) float64 { return r.OutputTokens },
			func(b *stats.Block) float64 { return b.OutputTokens }),
		told("input_tokens_per_s", (*stats.Run).InputTold, func(r *stats.Rates) float64 { return r.InputTokens },
			func(b *stats.Block) float64 { return b.InputTokens }),
		length(InputLength, func(t *stats.Tokens) float64 { return t.InputMean }),
		length(OutputLength, func(t *stats.Tokens) float64 { return t.OutputMean }),
		{Name: "cached_share", of: func(r *stats.Run) (float64, bool) { return r.Tokens.CachedShare, cacheTold(r) }},
		{Name: "failed_share", Lower: true, of: func(r *stats.Run) (float64, bool) {
			n := r.Requests.Due + r.Requests.NotSent
			return float64(r.Requests.Failed+r.Requests.NotSent) / float64(max(n, 1)), n > 0
		}},
	}
	for _, latency := range stats.Latencies {
		for _, s := range shares {
			list = append(list, Metric{Name: latency + "_" + s.name, Unit: "ms", Lower: true,
				of: func(r *stats.Run) (float64, bool) {
					d, ok := r.Latency[latency]
					return s.of(d), ok && d.Count > 0
				},
				latency: latency, share: s.share})
		}
	}
	return list
}

func rate(name string, of func(*stats.Rates) float64, sum func(*stats.Block) float64) Metric {
	return Metric{Name: name, Unit: "/s", of: func(r *stats.Run) (float64, bool) { return of(&r.Rates), r.WindowS > 0 }, sum: sum}
}

// told is a rate that only those runs have whose replies tell it.
func told(name string, tells func(*stats.Run) bool, of func(*stats.Rates) float64, sum func(*stats.Block) float64) Metric {
	m := rate(name, of, sum)
	m.of = func(r *stats.Run) (float64, bool) { return of(&r.Rates), r.WindowS > 0 && tells(r) }
	return m
}

func length(name string, of func(*stats.Tokens) float64) Metric {
	return Metric{Name: name, Unit: "tokens", Neutral: true, of: func(r *stats.Run) (float64, bool) { return of(&r.Tokens), usageTold(r) }}
}

// cacheTold says whether some reply says how much of its input was cached.
func cacheTold(r *stats.Run) bool { return r.Tokens.Input > 0 && r.Tokens.CachedShare >= 0 }

// usageTold says whether some reply has usage.
func usageTold(r *stats.Run) bool { return r.Requests.Succeeded > r.Requests.NoUsage }

// findMetric looks one up by its name; a latency's may have its unit behind it.
func findMetric(name string) (Metric, bool) {
	list := Metrics()
	i := slices.IndexFunc(list, func(m Metric) bool { return m.Name == name || m.Name+"_ms" == name || m.Name == name+"_per_s" })
	if i < 0 {
		return Metric{}, false
	}
	return list[i], true
}
