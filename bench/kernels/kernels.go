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
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Options say what a run does.
type Options struct {
	// Model is the path of the GGUF file. Required.
	Model string `json:"-"`
	// Text is English prose for the tokenizer.
	Text string `json:"-"`
	// Threads compute, and read memory for the reference. Default: one per processor.
	Threads int `json:"threads"`
	// Rounds is how often every part is measured. Default 5.
	Rounds int `json:"rounds"`
	// Tokens is how many steps a decoding part has. Default 32.
	Tokens int `json:"tokens"`
	// Prompt is how many tokens a prefill has. Default 512.
	Prompt int `json:"prompt_tokens"`
	// Context is how many tokens are in the cache in the part with a long one. Default 2048.
	Context int `json:"context_tokens"`
	// Memory is how long each reading of the bandwidth takes. Default 200ms.
	Memory time.Duration `json:"memory_ns"`
	// MinShare is the gate of one sequence with a short context: weights read / bandwidth. Default 0.85.
	MinShare float64 `json:"min_share"`
}

// Defaults are the options of a run that was told the model only.
func Defaults() Options {
	return Options{
		Threads: runtime.GOMAXPROCS(0), Rounds: 5, Tokens: 32, Prompt: 512, Context: 2048,
		Memory: 200 * time.Millisecond, MinShare: 0.85,
	}
}

// Validate names each option that is out of its bounds, as its flag.
func (o Options) Validate() error {
	var errs []error
	within := func(flag string, value, low, high int) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("--%s is %d, want %d to %d", flag, value, low, high))
		}
	}
	if o.Model == "" {
		errs = append(errs, errors.New("--model is missing, want a GGUF file"))
	}
	within("threads", o.Threads, 1, 1024)
	within("rounds", o.Rounds, 1, 1000)
	within("tokens", o.Tokens, 4, 1<<12)
	within("prompt", o.Prompt, 1, 1<<13)
	within("context", o.Context, 1, 1<<17)
	if o.Memory < 10*time.Millisecond || o.Memory > time.Minute {
		errs = append(errs, fmt.Errorf("--memory is %v, want 10ms to 1m", o.Memory))
	}
	if !(o.MinShare > 0) {
		errs = append(errs, fmt.Errorf("--min-share is %v, want more than 0", o.MinShare))
	}
	return errors.Join(errs...)
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
