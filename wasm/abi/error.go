// Package abi holds what both sides of every boundary in the node share: the
// kinds of error a client can see, the usage record, money, and the stream
// events that the engine produces and translators turn into wire formats.
//
// It is a leaf: it imports nothing of the project and everything may import
// it. Wasm guests see the numbers of its enumerations, so they are append
// only: never reorder, never reuse.
package abi

import (
	"errors"
	"time"
)

// String returns the kind's name in logs and metrics.
func (k Kind) String() string {
	if k < kindEnd {
		return kindNames[k]
	}
	return "internal"
}

// Kinds returns every kind, for tables and metrics that must cover them all.
func Kinds() []Kind {
	all := make([]Kind, kindEnd)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Error is one failure that a client can see. Detail, Param and Msg are for the
// client: they name the field and the bound and no internals. Op and Err are for
// the log.
type Error struct {
	Kind Kind
	Op   string // package.Function, such as "limiter.reserve"
	Msg  string // as Detail.Reason says; a translator may write another sentence
	Detail
	// Param is the path of the offending body field, such as
	// "messages.0.content"; empty when no single field is at fault.
	Param string
	// RetryAfter is how long a single waiting caller has to wait until it is
	// admitted; zero when waiting does not help. Kinds RateLimited and Overloaded.
	RetryAfter time.Duration
	Err        error // cause, may be nil
}

// Message is the failure as one sentence of the messages protocol.
func (e *Error) Message() string { return e.native(e.Param, e.Msg) }

// Error describes the failure for logs; clients are shown its Message only.
func (e *Error) Error() string {
	s := e.Kind.String() + ": " + e.Message()
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf classifies any error. One that nobody classified is Internal: ours.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// AsError returns err as an *Error, wrapping one that nobody classified as
// Internal with a message that tells the client nothing of our insides.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: Internal, Msg: "internal error", Err: err}
}
