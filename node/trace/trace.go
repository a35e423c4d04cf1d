// Package trace makes traces of requests and sends them to a collector of OpenTelemetry.
//
// A trace is made after its request has ended, of the times that its log record has: nothing
// is done for it while tokens are produced. Which ones are kept is decided then as well: those
// that failed by the node's fault, those that took longer than 99 of 100, those that a peer
// node keeps, and of the rest a share that chance decides. What a client says of sampling decides
// nothing, neither its flag nor the id that it chose.
//
// Records wait in a queue with a bound; what does not fit is dropped and counted. No span has text
// of a prompt or an answer, and there is no option for it. All but Tracer is pure.
package trace

import (
	"encoding/hex"
	"time"
)

// Context is the place of one request in its trace. The zero Context is of none.
type Context struct {
	Trace  [16]byte
	Span   [8]byte // of the request itself; zero where this node makes no spans
	Parent [8]byte // the caller's; zero at the root
	// Sampled says that the trace is kept already: by chance, or since a peer node keeps it.
	Sampled bool
	Peer    bool   // a peer node decided
	State   string // what the caller's tracestate said, which goes along
}

// stateMax is the most bytes of a tracestate that go along, as the recommendation has it.
const stateMax = 512

const hexDigits = "0123456789abcdef"

// Parse reads the headers traceparent and tracestate. What is malformed begins no trace, as if it
// were absent; of versions to come, what version 00 has is read.
func Parse(parent, state []byte) (c Context, ok bool) {
	const size = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(parent) < size || len(parent) > size && (parent[0] == '0' && parent[1] == '0' || parent[size] != '-') {
		return Context{}, false
	}
	var version, flags [1]byte
	if parent[2] != '-' || parent[35] != '-' || parent[52] != '-' || !lower(version[:], parent[:2]) || version[0] == 0xff ||
		!lower(c.Trace[:], parent[3:35]) || !lower(c.Parent[:], parent[36:52]) || !lower(flags[:], parent[53:55]) ||
		c.Trace == [16]byte{} || c.Parent == [8]byte{} {
		return Context{}, false
	}
	c.Sampled = flags[0]&1 != 0
	if len(state) <= stateMax && printable(state) {
		c.State = string(state)
	}
	return c, true
}

// lower decodes digits that have to be lower case.
func lower(dst, src []byte) bool {
	for _, b := range src {
		if b >= 'A' && b <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(dst, src)
	return err == nil
}

// printable says whether a header's value has nothing but characters, spaces and tabs.
func printable(text []byte) bool {
	for _, b := range text {
		if (b < ' ' || b > '~') && b != '\t' {
			return false
		}
	}
	return true
}

// Call is one call of a module.
type Call struct {
	Name   string // what it was asked: translate, rewrite, quote, admit or charge
	Digest string // of the module; may be empty
	Began  time.Time
	Took   time.Duration
	phase  int // that it was a part of
}

// Attempt is one try of a server elsewhere.
type Attempt struct {
	URL          string
	RequestID    string // what the server calls it
	Span         [8]byte
	Began, Ended time.Time
	Failure      string // the class of what went wrong; empty is an answer
}

// Usage are the tokens of a request.
type Usage struct{ Input, CacheRead, CacheWrite, Output, Reasoning int64 }

// Record is a request that ended. What it did not come to is zero.
type Record struct {
	Context
	Kept string // why
	// Method and Route are what was asked; Status is what was answered.
	Method, Route string
	Status        int
	Began, Ended  time.Time
	Arrived       time.Time // the last byte of its body
	Prepared      time.Time // it asked for admission
	// Admission and what follows are how long the phases took. Queue, Prefill and Decode stand one behind
	// the other and end at Done; Hold is beside them. A server elsewhere may be asked before Admission ends.
	Done                                    time.Time
	Admission, Hold, Queue, Prefill, Decode time.Duration
	Admitted                                bool // where its end is not known, Done is zero
	SettleBegan, SettleEnded                time.Time
	TTFT                                    time.Duration

	RequestID, AccountID, KeyID string
	Asked, Model                string // the model that the client named, and the one that answered
	MaxTokens                   int
	Stream                      bool
	Usage                       Usage
	ChargeNano                  int64
	Finish                      string // why the answer ended
	Failure                     string // the kind of the error; empty is none
	Ours                        bool   // the failure is the node's
	Conversation                [16]byte
	Calls                       []Call
	Attempts                    []Attempt
}
