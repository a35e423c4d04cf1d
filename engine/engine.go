// Package engine turns a request body into tokens, tokens into steps of a
// forward pass, and sampled tokens into stream events.
//
// An Engine is one loaded model. Prepare and Count are pure and safe for
// concurrent use: they run on the caller's goroutine. A Stepper is the single
// owner of the model's KV memory and scheduler: one goroutine calls it.
package engine

import (
	"corenode/engine/grammar"
	"corenode/engine/parse"
	"corenode/engine/sample"
)

// Info is what clients may know of a model.
type Info struct {
	ID            string
	DisplayName   string
	ContextLength int // tokens, prompt plus output
	OutputMax     int // most tokens of one answer
	Created       int64
}

// Request is a prepared request: validated, rendered and tokenized. It is
// immutable and owns all it holds.
type Request struct {
	Model     string
	Stream    bool
	Prompt    []int32
	MaxTokens int // most tokens to produce, thinking included
	Sampling  sample.Params
	// Distinct are the tokens of Prompt for a repetition penalty; nil without one.
	Distinct []int32
	// MinTokens are produced before the model or a stop sequence may end the answer;
	// with IgnoreEOS the model never does. Both end with a call or a constrained answer.
	MinTokens int
	IgnoreEOS bool
	// Grammar is what the answer is constrained to; nil when it is free.
	Grammar *grammar.Grammar
	Parse   parse.Options
	// Snapshots are ascending prompt positions where the state of a recurrent
	// model is worth keeping (Engine.snapshots).
	Snapshots []int
	// Conversation identifies the conversation by content (system, tools and
	// first user message) when the client sends no session id.
	Conversation [32]byte
}
