package system

import (
	"time"

	"corenode/wasm/abi"
)

// retryAfter is the Retry-After of a request that the node had no room for: queues
// drain and actors restart within it.
const retryAfter = time.Second

// Overloaded makes the error of a request that the node cannot take now. msg is for the
// client; op and err are for the log.
func Overloaded(op, msg string, err error) *abi.Error {
	return OverloadedFor(retryAfter, op, msg, err)
}

// OverloadedFor is Overloaded for what lasts longer: a client should wait so long.
func OverloadedFor(wait time.Duration, op, msg string, err error) *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: op, RetryAfter: wait, Msg: msg, Err: err}
}

// TooManyRequests is the error of a request that found a queue of the actors full.
func TooManyRequests(op string, err error) *abi.Error {
	return Overloaded(op, "the node has too many waiting requests; try again", err)
}

// AccountsUnavailable is the error of a request whose account cannot be read.
func AccountsUnavailable(op string, err error) *abi.Error {
	return Overloaded(op, "accounts are unavailable; try again", err)
}

// LedgerUnavailable is the error of a request that the ledger did not record.
func LedgerUnavailable(op string, err error) *abi.Error {
	return Overloaded(op, "the ledger is unavailable; try again", err)
}
