package engine

import (
	"slices"
	"time"

	"corenode/engine/grammar"
	"corenode/engine/output"
	"corenode/engine/sample"
)

// Trigger says where a row of logits begins to be held to its request's grammar.
type Trigger struct {
	At At
	// Token is the token of AtToken: the vocabulary's own for the marker of a call.
	Token int32
}

// At is a place in an answer.
type At uint8

const (
	// AtStart is before the first token: the whole answer is held.
	AtStart At = iota
	// AtToken is behind Trigger.Token, wherever the model writes it, until the call that it
	// begins is complete. Before, between and after calls the answer is free.
	AtToken
	// AtBlock is where a block of the answer may start, until it is known to be text, or is a
	// call that is complete. So it is where the vocabulary has no token for the marker.
	AtBlock
)

// Request is a prepared request: validated, rendered and tokenized. It owns all it holds,
// and is immutable but for Trace, which is set before it is submitted.
type Request struct {
	Model  string
	Stream bool
	// Prompt are the tokens of the prompt. A request that is answered elsewhere has none:
	// Counted says how many there are.
	Prompt    []int32
	Counted   int
	MaxTokens int // most tokens to produce, thinking included
	Sampling  sample.Params
	// Distinct are the tokens of Prompt for a repetition penalty; nil without one.
	Distinct []int32
	// MinTokens are produced before the model or a stop sequence may end the answer;
	// with IgnoreEOS the model never does. Both end with a call or a constrained answer.
	MinTokens int
	IgnoreEOS bool
	// Grammar is what the answer is held to; nil when nothing of it is. Trigger says from
	// where on.
	Grammar  *grammar.Grammar
	Trigger  Trigger
	Thinking ThinkingBound
	// Channels are of a model that writes messages in channels; nil for others.
	Channels *Channels
	// Written are control tokens that are text within calls, within what is held to a form, and at
	// the ends of thinking.
	Written map[int32]string
	// Hidden are tokens that are never sampled in this answer, ascending.
	Hidden []int32
	Parse  output.Options
	// Snapshots are ascending prompt positions where the state of a recurrent
	// model is worth keeping (Engine.snapshots).
	Snapshots []int
	// Conversation identifies the conversation by content (system, tools and
	// first user message) when the client sends no session id.
	Conversation [32]byte
	// Trace is where the request stands in a trace, for servers elsewhere to go on with.
	Trace Trace
	// Remote is what servers elsewhere are sent; nil of a request that only this package's engine answers.
	Remote Remote
}

// Remote is a request in the form in which engine/upstream sends it. Its Model makes it when the request is
// prepared, its steppers send it; this package only carries it from one to the other.
type Remote interface {
	// SentRemotely does nothing: only what upstream makes has it.
	SentRemotely()
}

// Trace is where a request stands in a trace. The zero Trace is of none.
type Trace struct {
	ID      [16]byte
	Span    [8]byte // that servers elsewhere are told, where Record is false
	Sampled bool
	State   string // what the caller's tracestate said
	// Record makes a span of each attempt: its server is told that one, and the job's result has it.
	Record bool
}

// Attempt is one try of a server elsewhere, of a request whose Trace records them.
type Attempt struct {
	Replica, RequestID string
	Span               [8]byte
	Began, Ended       time.Time
	Failure            string // the class of what went wrong; empty is an answer
}

// Tried is the cause of a refusal for which servers elsewhere were asked first, of a request whose Trace records that: a job that
// is refused has no Result.
type Tried struct {
	Attempts []Attempt
	Err      error // why it is refused; may be nil
}

// Error is that of the cause: the attempts are for the trace.
func (t *Tried) Error() string {
	if t.Err == nil {
		return "servers were asked"
	}
	return t.Err.Error()
}

// Unwrap returns the cause.
func (t *Tried) Unwrap() error { return t.Err }

// grammars are all that the answer may be held to.
func (q *Request) grammars() []*grammar.Grammar {
	all := [3]*grammar.Grammar{q.Grammar}
	if q.Channels != nil {
		all[1], all[2] = q.Channels.Text, q.Channels.All
	}
	return slices.DeleteFunc(all[:], func(g *grammar.Grammar) bool { return g == nil })
}

// Ignored are the keywords of the request's schemas that nothing enforces, each once and in order.
func (q *Request) Ignored() []string {
	var all []string
	for _, g := range q.grammars() {
		all = append(all, g.Ignored()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// InputTokens is how many tokens the prompt has.
func (q *Request) InputTokens() int { return max(len(q.Prompt), q.Counted) }
