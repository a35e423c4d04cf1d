// Package engine measures how well the node computes a model: how long it takes
// to start, how much of the memory's bandwidth decoding uses, what batching
// gains and what the prefix cache saves.
//
// A run starts the node twice on one data folder, cold and then with packed
// weights, and asks the second one round by round. What is compared is measured
// in the same round, with the reference (plain reading of memory by this
// process) right before and after, never while the node computes. What decides
// is in weights.go and summary.go and knows no processes; what waits is in
// measure.go.
package engine

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Options say what a run does.
type Options struct {
	// Node is the path of the corenode binary. Default bin/corenode.
	Node string `json:"-"`
	// Model is the path of the GGUF file. Required.
	Model string `json:"-"`
	// Threads compute in the node and read memory for the reference. Default: one per processor.
	Threads int `json:"threads"`
	// Rounds is how often everything but the starts is measured. Default 5.
	Rounds int `json:"rounds"`
	// Tokens is the length of the single stream. Default 96.
	Tokens int `json:"tokens"`
	// Streams is how many run at once, and one after another. Default 8.
	Streams int `json:"streams"`
	// StreamTokens is the length of each of them. Default 32.
	StreamTokens int `json:"stream_tokens"`
	// Conversation is about how many tokens the first turn of the conversation has. Default 2000.
	Conversation int `json:"conversation_tokens"`
	// Memory is how long each measurement of the memory takes. Default 500ms.
	Memory time.Duration `json:"memory_ns"`
	// StartTimeout bounds one start of the node. Default 10m.
	StartTimeout time.Duration `json:"-"`
	// MinShare, MaxBatchRatio and MaxTurnRatio are the gates. Defaults 0.6, 0.5 and 0.2.
	MinShare      float64 `json:"min_share"`
	MaxBatchRatio float64 `json:"max_batch_ratio"`
	MaxTurnRatio  float64 `json:"max_turn_ratio"`
}

// Defaults are the options of a run that was told the model only.
func Defaults() Options {
	return Options{
		Node: "bin/corenode", Threads: runtime.GOMAXPROCS(0), Rounds: 5, Tokens: 96, Streams: 8, StreamTokens: 32, Conversation: 2000,
		Memory: 500 * time.Millisecond, StartTimeout: 10 * time.Minute, MinShare: 0.6, MaxBatchRatio: 0.5, MaxTurnRatio: 0.2,
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
	above := func(flag string, value float64) {
		if !(value > 0) {
			errs = append(errs, fmt.Errorf("--%s is %v, want more than 0", flag, value))
		}
	}
	if o.Model == "" {
		errs = append(errs, errors.New("--model is missing, want a GGUF file"))
	}
	within("threads", o.Threads, 1, 1024)
	within("rounds", o.Rounds, 1, 1000)
	within("tokens", o.Tokens, 8, 1<<14)
	within("streams", o.Streams, 2, 32) // what a node of the defaults runs at once
	within("stream-tokens", o.StreamTokens, 2, 1<<14)
	within("conversation", o.Conversation, 200, 1<<17)
	if o.Memory < 10*time.Millisecond || o.Memory > time.Minute {
		errs = append(errs, fmt.Errorf("--memory is %v, want 10ms to 1m", o.Memory))
	}
	if o.StartTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--start-timeout is %v, want more than 0", o.StartTimeout))
	}
	above("min-share", o.MinShare)
	above("max-batch-ratio", o.MaxBatchRatio)
	above("max-turn-ratio", o.MaxTurnRatio)
	return errors.Join(errs...)
}
