package gpu

import (
	"fmt"

	"corenode/bench/proc"
	"corenode/bench/report"
	"corenode/bench/stats"
)

// Schema names the layout of Report as JSON; it changes when a field changes its meaning.
const Schema = "corebench.gpu/1"

// Report is the result of one run. METHOD.md documents its JSON.
type Report struct {
	Schema  string    `json:"schema"`
	Host    proc.Host `json:"host"`
	Device  string    `json:"device"`
	Memory  int64     `json:"device_memory_bytes"`
	Started string    `json:"started"`
	Options Options   `json:"options"`
	Weights Weights   `json:"weights"`
	LoadS   float64   `json:"load_seconds"` // of the weights, which are made meanwhile
	Ceilings
	Cells        []Cell   `json:"cells"`
	Tuned        []Tuned  `json:"tuned,omitempty"`
	NodeLoadS    float64  `json:"node_load_seconds,omitempty"` // from the node's start until it was ready
	Served       []Served `json:"served,omitempty"`
	report.Gates `json:"gates"`
}

// Ceilings are what the device does at most, in this run.
type Ceilings struct {
	CopyGBs float64 `json:"copy_gb_per_s"`  // within its memory, bytes read and bytes written
	TFLOPS  float64 `json:"product_tflops"` // the largest of our own product and what another program measured
	Own     float64 `json:"own_product_tflops"`
}

// Cell is what was measured of one batch and context, or of one prompt.
type Cell struct {
	Name    string `json:"name"`
	Prompt  bool   `json:"prompt"`
	Batch   int    `json:"batch"`
	Context int    `json:"context_tokens"`
	// Skipped says why it was not measured; nothing below is set then.
	Skipped string `json:"skipped,omitempty"`
	// Milliseconds of a step, or of the whole prompt; Tokens of all sequences in a second.
	Milliseconds report.Spread `json:"milliseconds"`
	TokensPerS   float64       `json:"tokens_per_s"`
	// ExpertsHit is how many experts of a layer a step of as many random tokens needs, on average. Bytes are what
	// a step has to move with them.
	ExpertsHit float64 `json:"experts_hit,omitempty"`
	Bytes      *Bytes  `json:"bytes,omitempty"`
	TFLOP      float64 `json:"tflop,omitempty"` // of a prompt
	// Floor is what the bytes or the arithmetic take at the ceiling; Share is that beside the median.
	Floor   float64  `json:"floor_milliseconds"`
	Share   float64  `json:"share"`
	Kernels []Kernel `json:"kernels,omitempty"` // of one step more, or of one prompt more
}

// Tuned is one way to launch kernels, and what it took.
type Tuned struct {
	What    string `json:"what"` // of the table of launch shapes
	Value   string `json:"value"`
	Skipped string `json:"skipped,omitempty"`
	// Ratio is the time beside that of the first way, the mean over Milliseconds' cells.
	Ratio        float64   `json:"ratio"`
	Milliseconds []float64 `json:"milliseconds"`
	Best         bool      `json:"best"`
}

// Served is what streams of the whole node over HTTP made of the device, beside a bare loop of as many sequences.
type Served struct {
	Streams int    `json:"streams"`
	Prompt  int    `json:"prompt_tokens"`
	Tokens  int    `json:"tokens"` // of each answer
	Skipped string `json:"skipped,omitempty"`
	// Bare and TokensPerS are tokens of all sequences in a second: of the loop, and of the streams while all ran,
	// which was for Window seconds. Share is the second beside the first.
	Bare       float64 `json:"bare_tokens_per_s"`
	TokensPerS float64 `json:"tokens_per_s"`
	Share      float64 `json:"share"`
	Window     float64 `json:"window_seconds"`
	// Gaps are between events of a stream within the window, FirstMS is until a stream's first.
	GapP50  float64       `json:"gap_p50_milliseconds"`
	GapP99  float64       `json:"gap_p99_milliseconds"`
	FirstMS report.Spread `json:"ttft_milliseconds"`
}

// answered completes it.
func (s *Served) answered(answers []answer, first []float64) {
	rate, window := steady(answers, s.Tokens)
	if rate == 0 {
		s.Skipped = "the streams never ran all at once: ask for more tokens"
		return
	}
	gaps := gapsWithin(answers, window)
	s.TokensPerS, s.Window, s.Share = rate, window.Seconds(), report.Ratio(rate, s.Bare)
	s.GapP50, s.GapP99, s.FirstMS = stats.Percentile(gaps, 0.5), stats.Percentile(gaps, 0.99), report.SpreadOf(first)
}

// Kernel is what a kernel took in a cell, with events around each launch.
type Kernel struct {
	Name         string  `json:"name"`
	Launches     int     `json:"launches"`
	Milliseconds float64 `json:"milliseconds"`
	Share        float64 `json:"share"` // of all kernels
}

// decoded completes a cell of decoding.
func (c *Cell) decoded(steps []float64, b Bytes, ceiling float64) {
	c.Milliseconds, c.Bytes = report.SpreadOf(steps), &b
	c.TokensPerS = 1e3 * report.Ratio(float64(c.Batch), c.Milliseconds.Median)
	c.Floor = milliseconds(float64(b.Sum()), ceiling, 1e9)
	c.Share = report.Ratio(c.Floor, c.Milliseconds.Median)
}

// read completes a cell of a prompt.
func (c *Cell) read(times []float64, flop, ceiling float64) {
	c.Milliseconds, c.TFLOP = report.SpreadOf(times), flop/1e12
	c.TokensPerS = 1e3 * report.Ratio(float64(c.Context), c.Milliseconds.Median)
	c.Floor = milliseconds(flop, ceiling, 1e12)
	c.Share = report.Ratio(c.Floor, c.Milliseconds.Median)
}

// The gates: the share of the floor of decoding at a context, by type and batch, and for matrices of two bytes of a prompt.
const (
	gateContext = 4096
	gatePrompt  = 8192
	promptShare = 0.35
	gateStreams = 64
	servedShare = 0.95
)

var (
	twoByteShares = map[int]float64{1: 0.60, 16: 0.60, 64: 0.65, 256: 0.60}
	decodeShares  = map[string]map[int]float64{
		"bf16": twoByteShares, "f16": twoByteShares, "fp8": {1: 0.45, 16: 0.50, 64: 0.60, 256: 0.55},
	}
)

// gateless says what no gate applies to; empty where some do.
func (r *Report) gateless() string {
	switch o := r.Options; {
	case o.Interpret:
		return "the interpreter"
	case o.Shape != Defaults().Shape:
		return "another shape than the default"
	case decodeShares[o.Type] == nil:
		return "matrices in " + o.Type
	case len(r.Gates) == 0:
		return "what was asked for"
	}
	return ""
}

// judge sets the gates: none of the interpreter, nor of another shape than the one that they are for. What was asked for
// and left out has a share of 0, which meets none.
func (r *Report) judge() {
	r.Gates = report.Gates{}
	o := r.Options
	if d := Defaults(); o.Interpret || o.Shape != d.Shape || decodeShares[o.Type] == nil {
		return
	}
	for _, c := range r.Cells {
		limit := decodeShares[o.Type][c.Batch]
		switch {
		case c.Prompt && c.Context == gatePrompt && o.Type != "fp8":
			r.Gates = append(r.Gates, report.AtLeast(c.Name+": share of the floor of arithmetic", c.Share, promptShare))
		case !c.Prompt && c.Context == gateContext && limit > 0:
			r.Gates = append(r.Gates, report.AtLeast(c.Name+": share of the floor of bytes", c.Share, limit))
		}
	}
	r.judgeServed()
}

// judgeServed sets the gate of the whole node, once its streams have run or were left out.
func (r *Report) judgeServed() {
	for _, s := range r.Served {
		if s.Streams == gateStreams && (s.Skipped != "" || s.Share > 0) {
			r.Gates = append(r.Gates, report.AtLeast(fmt.Sprintf("%d streams: share of the bare loop", s.Streams), s.Share, servedShare))
		}
	}
}

// skip says why a cell was left out.
func (c *Cell) skip(format string, args ...any) { c.Skipped = fmt.Sprintf(format, args...) }
