package abi

import (
	"bytes"
	"encoding/binary"
)

// AdmissionInput is the input of OpDecide: the facts of a request that passed
// every check but the account's limits, and the host's counters at that time.
type AdmissionInput struct {
	At           int64 // Unix seconds
	PromptTokens int64
	OutputMax    int64
	Stream       bool
	Account      string
	Key          string // the key's id, never the secret
	Model        string
	Protocol     string // "messages", "chat" or "responses"
	Counters     Counters
}

// Counters are what the host counts. A limit of 0 is none.
type Counters struct {
	AccountRequests    int64 // of the account, running now
	AccountRequestsMax int64
	TokensRemaining    int64 // of the account's tokens per minute; may be negative
	TokensPerMinute    int64
	Available          Nano  // balance without open holds; meaningless with Unlimited
	Unlimited          bool  // the account needs no money
	NodeRequests       int64 // running or waiting on the node
	NodeRequestsMax    int64

	// Of the model, some milliseconds old; since ABI 1.1. 0 where it is not known.
	ModelQueued    int64 // requests that wait for their first step
	ModelQueuedMax int64 // more are refused
	ModelWaitMS    int64 // what those are expected to take until one behind them begins
	ModelPagesUsed int64 // pages of the cache that requests hold; what is only kept for reuse is not in it
	ModelPages     int64 // all pages; 0 for a model without
}

const decideTag, decideTag10 = "decide/2", "decide/1"

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Append encodes in, as modules of ABI 1.1 read it.
func (in AdmissionInput) Append(dst []byte) []byte {
	n := &in.Counters
	dst = in.appendInts(append(dst, decideTag...))
	dst = appendInts(dst, n.ModelQueued, n.ModelQueuedMax, n.ModelWaitMS, n.ModelPagesUsed, n.ModelPages)
	return in.appendTexts(dst)
}

// Append10 encodes in as modules of ABI 1.0 read it: without what is of the model.
func (in AdmissionInput) Append10(dst []byte) []byte {
	return in.appendTexts(in.appendInts(append(dst, decideTag10...)))
}

func (in *AdmissionInput) appendInts(dst []byte) []byte {
	n := &in.Counters
	return appendInts(dst, in.At, in.PromptTokens, in.OutputMax, flag(in.Stream),
		n.AccountRequests, n.AccountRequestsMax, n.TokensRemaining, n.TokensPerMinute,
		int64(n.Available), flag(n.Unlimited), n.NodeRequests, n.NodeRequestsMax)
}

func (in *AdmissionInput) appendTexts(dst []byte) []byte {
	return append(appendText(appendText(appendText(dst, in.Account), in.Key), in.Model), in.Protocol...)
}

// ParseAdmissionInput decodes an AdmissionInput of either version, which aliases b.
func ParseAdmissionInput(b []byte) (in AdmissionInput, err error) {
	c := cursor{b: b}
	n := &in.Counters
	tag := decideTag
	if bytes.HasPrefix(b, []byte(decideTag10)) {
		tag = decideTag10
	}
	c.tag(tag)
	in.At, in.PromptTokens, in.OutputMax, in.Stream = c.i64(), c.i64(), c.i64(), c.i64() != 0
	n.AccountRequests, n.AccountRequestsMax, n.TokensRemaining, n.TokensPerMinute = c.i64(), c.i64(), c.i64(), c.i64()
	n.Available, n.Unlimited, n.NodeRequests, n.NodeRequestsMax = Nano(c.i64()), c.i64() != 0, c.i64(), c.i64()
	if tag == decideTag {
		n.ModelQueued, n.ModelQueuedMax, n.ModelWaitMS, n.ModelPagesUsed, n.ModelPages = c.i64(), c.i64(), c.i64(), c.i64(), c.i64()
	}
	in.Account, in.Key, in.Model = c.aliasedText(), c.aliasedText(), c.aliasedText()
	in.Protocol = c.aliasedRest()
	return in, c.err
}

// Verdict is what an admission policy says.
type Verdict uint8

const (
	Allow Verdict = iota // admit it
	Deny                 // refuse it, with the kind of the error
	Queue                // admit it, with Priority among the requests that wait for the model
)

// Decision is the output of OpDecide. An allowed request must still pass the
// account's own limits.
type Decision struct {
	Verdict  Verdict
	Priority int8 // Queue: higher goes first; 0 is what requests without a policy have
	// Kind of a denial: RateLimited, Overloaded, InsufficientBalance, InvalidRequest
	// or ModelNotFound; any other becomes RateLimited.
	Kind         Kind
	RetryAfterMS uint32 // Deny: when to try again, 0 = not said
	Msg          string // Deny: for the client
}

// Append encodes d.
func (d Decision) Append(dst []byte) []byte {
	dst = append(dst, byte(d.Verdict), byte(d.Priority))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(d.Kind))
	dst = binary.LittleEndian.AppendUint32(dst, d.RetryAfterMS)
	return append(dst, d.Msg...)
}

// ParseDecision decodes a Decision.
func ParseDecision(b []byte) (d Decision, err error) {
	c := cursor{b: b}
	d.Verdict, d.Priority = Verdict(c.u8()), int8(c.u8())
	d.Kind = Kind(c.u16())
	d.RetryAfterMS = c.u32()
	d.Msg = string(c.rest())
	if d.Verdict > Queue || len(d.Msg) > RefusalBytesMax {
		c.err = ErrMalformed
	}
	return d, c.err
}
