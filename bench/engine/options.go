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
	"runtime"
	"time"

	"corenode/bench/option"
)

// Options say what a run does; List has their defaults and their bounds.
type Options struct {
	Node          string        `json:"-"`
	Model         string        `json:"-"`
	Threads       int           `json:"threads"`
	Rounds        int           `json:"rounds"`
	Tokens        int           `json:"tokens"`
	Streams       int           `json:"streams"`
	StreamTokens  int           `json:"stream_tokens"`
	Conversation  int           `json:"conversation_tokens"`
	Memory        time.Duration `json:"memory_ns"`
	StartTimeout  time.Duration `json:"-"`
	MinShare      float64       `json:"min_share"`
	MaxBatchRatio float64       `json:"max_batch_ratio"`
	MaxTurnRatio  float64       `json:"max_turn_ratio"`
}

// List describes the options.
func (o *Options) List() option.List {
	return option.List{
		option.Text(&o.Node, "node", "bin/corenode", "a path", "the corenode program"),
		option.Text(&o.Model, "model", "", "a GGUF file", "the model file (GGUF); required"),
		option.Int(&o.Threads, "threads", runtime.GOMAXPROCS(0), 1, 1024, "threads that compute, and that read memory for the reference"),
		option.Int(&o.Rounds, "rounds", 5, 1, 1000, "how often everything but the starts is measured"),
		option.Int(&o.Tokens, "tokens", 96, 8, 1<<14, "tokens of the single stream"),
		// 32 is what a node of the defaults runs at once.
		option.Int(&o.Streams, "streams", 8, 2, 32, "streams at once, and in sequence"),
		option.Int(&o.StreamTokens, "stream-tokens", 32, 2, 1<<14, "tokens of each of them, and of each turn's answer"),
		option.Int(&o.Conversation, "conversation", 2000, 200, 1<<17, "tokens of the conversation's first turn, about"),
		option.Duration(&o.Memory, "memory", 500*time.Millisecond, 10*time.Millisecond, time.Minute,
			"length of one measurement of the memory"),
		option.Duration(&o.StartTimeout, "start-timeout", 10*time.Minute, 1, option.Unlimited, "the longest wait until the node is ready"),
		option.Positive(&o.MinShare, "min-share", 0.6, "gate: weights read by decode / memory read bandwidth, at least"),
		option.Positive(&o.MaxBatchRatio, "max-batch-ratio", 0.5, "gate: wall time at once / in sequence, below"),
		option.Positive(&o.MaxTurnRatio, "max-turn-ratio", 0.2, "gate: TTFT of turn 2 / turn 1, below"),
	}
}

// Defaults are the options of a run that was told nothing.
func Defaults() (o Options) {
	o.List().Reset()
	return o
}
