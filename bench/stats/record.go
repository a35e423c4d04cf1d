// Package stats turns what happened to requests into numbers: pure, given
// records with times in them, no clock of its own.
//
// A run has a window. Latencies are those of requests that were due in it,
// however late they ended; rates count what happened in it, whenever it was
// due: requests that ended, tokens that arrived. So neither is bent by what
// stands at the window's edges.
package stats

import "time"

// Kinds of failure. A status other than 200 is "http_" and its number.
const (
	KindConnect  = "connect"      // no connection: refused, unreachable, not in time
	KindTimeout  = "timeout"      // no whole reply in time
	KindBroken   = "broken"       // the reply stops before its end
	KindProtocol = "protocol"     // a reply that is not of the protocol
	KindServer   = "server_error" // an error inside a reply that began well
)

// Record is one request. Times are since the run's begin; of the harness's
// clock, read when bytes arrived.
type Record struct {
	Conversation, Turn, Key int // the first turn is 1, the first key 0

	// Intended is when the request was due: its arrival in an open loop, the
	// moment that its client was free for it in a closed one.
	Intended time.Duration
	Sent     time.Duration // begun by the harness: later than Intended by its own lateness
	Answered time.Duration // first byte of the reply, negative for none
	First    time.Duration // first output, negative for none
	Last     time.Duration // last output
	End      time.Duration // end of the reply, or of the wait for it

	Kind       string // of failure, "" for none
	Detail     string // of failure, for people
	Status     int    // of HTTP, 0 if none came
	RetryAfter time.Duration
	Queue      time.Duration // as the server says; both negative for none

	InputTokens, CachedTokens, OutputTokens int  // as usage says
	UsageKnown, CachedKnown                 bool // usage was told, and what of it was cached
	Outputs                                 int  // events with output
	Events                                  int  // of a stream, all
	Bytes, Chunks                           int  // of the reply's body; one that is not chunked is one chunk
	OutputMax                               int  // tokens asked for at most

	// Gaps are those between outputs of a stream, borrowed until Add returns.
	Gaps []time.Duration
}

// E2E is the time to the end of the reply.
func (r *Record) E2E() time.Duration { return r.End - r.Intended }

// TTFT is the time to the first output, if there was one.
func (r *Record) TTFT() (time.Duration, bool) { return r.First - r.Intended, r.First >= 0 }

// TPOT is the mean time per output token after the first.
func (r *Record) TPOT() (time.Duration, bool) {
	if r.First < 0 || r.OutputTokens < 2 || r.Outputs < 2 {
		return 0, false
	}
	return (r.Last - r.First) / time.Duration(r.OutputTokens-1), true
}
