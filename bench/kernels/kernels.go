// Package kernels measures the forward pass of a model by itself, in this
// process, without a node around it: decoding beside what the memory delivers,
// batches, a long context, a prompt, and what surrounds a step, the tokenizer
// and the sampler.
//
// A run visits its parts round by round. Each part is between two readings of
// the memory's bandwidth, which are the reference for what it read itself.
// Where the system permits it, the threads run under SCHED_FIFO, so that other
// programs wait for them and not the other way round. What decides is in
// summary.go and knows no clock; what waits is in measure.go.
package kernels

import (
	"fmt"
	"runtime"
	"time"

	"corenode/bench/option"
)

// Options say what a run does; List has their defaults and their bounds.
type Options struct {
	Model    string        `json:"-"`
	Threads  int           `json:"threads"`
	Rounds   int           `json:"rounds"`
	Tokens   int           `json:"tokens"`
	Prompt   int           `json:"prompt_tokens"`
	Context  int           `json:"context_tokens"`
	Memory   time.Duration `json:"memory_ns"`
	MinShare float64       `json:"min_share"`
}

// List describes the options.
func (o *Options) List() option.List {
	return option.List{
		option.Text(&o.Model, "model", "", "a GGUF file", "the model file (GGUF); required"),
		option.Int(&o.Threads, "threads", runtime.GOMAXPROCS(0), 1, 1024, "threads that compute, and that read memory for the reference"),
		option.Int(&o.Rounds, "rounds", 5, 1, 1000, "how often every part is measured"),
		option.Int(&o.Tokens, "tokens", 32, 4, 1<<12, "steps of a decoding part"),
		option.Int(&o.Prompt, "prompt", 512, 1, 1<<13, "tokens of the prefill"),
		option.Int(&o.Context, "context", 2048, 1, 1<<17, "tokens in the cache in the part with a long context"),
		option.Duration(&o.Memory, "memory", 200*time.Millisecond, 10*time.Millisecond, time.Minute,
			"length of one measurement of the memory"),
		option.Positive(&o.MinShare, "min-share", 0.85, "gate: bytes read by decoding one sequence / memory read bandwidth, at least"),
	}
}

// Defaults are the options of a run that was told nothing.
func Defaults() (o Options) {
	o.List().Reset()
	return o
}

// part is one thing that is measured: steps of a forward pass.
type part struct {
	name    string
	batch   int // sequences in a step
	rows    int // tokens of each that a step computes
	context int // tokens of each in the cache before the first step
	steps   int
}

// shortContext is how many tokens stand before the parts that are about
// weights: few enough that attention costs nothing beside them.
const shortContext = 32

// parts are what a run of o visits, in this order.
func (o Options) parts() []part {
	return []part{
		{"decode, 1 sequence", 1, 1, shortContext, o.Tokens},
		{fmt.Sprintf("decode, 1 sequence after %d tokens", o.Context), 1, 1, o.Context, o.Tokens},
		{"decode, 8 sequences", 8, 1, shortContext, max(o.Tokens/4, 1)},
		{"decode, 16 sequences", 16, 1, shortContext, max(o.Tokens/8, 1)},
		{fmt.Sprintf("prefill of %d tokens", o.Prompt), 1, o.Prompt, 0, 3},
	}
}

// position is where the sequences of a part stand before its step s: decodes
// follow each other, a prefill is computed again.
func (p part) position(s int) int {
	if p.rows > 1 {
		return p.context
	}
	return p.context + s
}
