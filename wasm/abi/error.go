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

// Kind classifies a failure. It decides the status code, the error type of
// each protocol, the metric label and the retry advice, all chosen in
// node/server. Guests see the number: append only.
type Kind uint16

const (
	// Internal is ours: nobody classified it. 500.
	Internal Kind = iota
	// InvalidRequest is a body or parameter that cannot be served. 400.
	InvalidRequest
	// ModelNotFound is an unknown model, or one the account may not use.
	ModelNotFound
	// PathNotFound is an unknown path. 404.
	PathNotFound
	// Unauthenticated is a missing or unknown key. 401, decided before the body is read.
	Unauthenticated
	// InsufficientBalance is an account whose money does not cover the request. 402.
	InsufficientBalance
	// RateLimited is an account over its concurrency or tokens per minute. 429.
	RateLimited
	// Overloaded is a node that cannot take the request now: queue full, draining, store gone. 503.
	Overloaded
	// TooLarge is a body over the limit, compressed or decoded. 413.
	TooLarge
	// MethodNotAllowed is a known path with a wrong method. 405.
	MethodNotAllowed
	// UnsupportedEncoding is a Content-Encoding or Content-Type the node does not read. 415.
	UnsupportedEncoding
	// ReadTimeout is a request that did not arrive in time. 408.
	ReadTimeout
	// Timeout is a non-streaming request over its wall clock. 504 with HTML.
	Timeout
	// Canceled is a request whose client went away; nobody reads the answer. 499 in logs.
	Canceled
	// kindEnd is one past the last kind.
	kindEnd
)

var kindNames = [kindEnd]string{
	"internal", "invalid_request", "model_not_found", "path_not_found", "unauthenticated",
	"insufficient_balance", "rate_limited", "overloaded", "too_large", "method_not_allowed",
	"unsupported_encoding", "read_timeout", "timeout", "canceled",
}

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
