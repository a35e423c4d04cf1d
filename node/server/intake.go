package server

import (
	"strconv"
	"sync"
	"time"

	"corenode/wasm/abi"
)

// bodiesMin is how many bodies an account may always send at once, however
// few requests it may run.
const bodiesMin = 4

// intake is the memory for request bodies: how much of it is taken, and by whom.
// A body counts from its first byte until its request is prepared, so that an
// account cannot take from others, with bodies that never end, what its limits
// keep from it later. It never waits: over a bound it refuses.
type intake struct {
	max      int64 // bytes of all bodies
	mu       sync.Mutex
	taken    int64                     // Guarded by mu
	accounts map[string]*accountBodies // Guarded by mu; has only accounts with a body
}

// accountBodies is what one account has of an intake. Guarded by the intake's mu.
type accountBodies struct {
	bodies int
	bytes  int64
}

// bodiesMax is how many bodies an account may have in memory at once, 0 for any
// number: as many again as it may run, so that the next ones arrive meanwhile.
func bodiesMax(concurrency int) int {
	if concurrency <= 0 {
		return 0
	}
	return max(2*concurrency, bodiesMin)
}

// mayTake says whether an account that holds h gets n bytes more of bytesMax,
// of which taken are taken by all. Over a quarter an account leaves half of them
// free for others; a body that is its only one gets what there is.
func mayTake(bytesMax, taken int64, h accountBodies, n int64) bool {
	switch {
	case n > bytesMax-taken:
		return false
	case h.bodies <= 1, h.bytes+n <= bytesMax/4:
		return true
	}
	return taken+n <= bytesMax-bytesMax/2
}

// full says whether an account has as many bodies as it may.
func (in *intake) full(account string, concurrency int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.fullLocked(in.accounts[account], concurrency)
}

func (in *intake) fullLocked(h *accountBodies, concurrency int) bool {
	limit := bodiesMax(concurrency)
	return h != nil && limit > 0 && h.bodies >= limit
}

// enter counts a body that is about to be read; leave ends it.
func (in *intake) enter(account string, concurrency int) *abi.Error {
	in.mu.Lock()
	defer in.mu.Unlock()
	h := in.accounts[account]
	if in.fullLocked(h, concurrency) {
		return errAccountBodies(concurrency)
	}
	if h == nil {
		h = new(accountBodies)
		in.accounts[account] = h
	}
	h.bodies++
	return nil
}

// take reserves n bytes, at least 0, for an account that has entered, if it may
// have them.
func (in *intake) take(account string, n int64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	h := in.accounts[account]
	if !mayTake(in.max, in.taken, *h, n) {
		return false
	}
	in.taken += n
	h.bytes += n
	return true
}

func (in *intake) give(account string, n int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.taken -= n
	in.accounts[account].bytes -= n
}

// leave takes a body out, whose bytes are given back.
func (in *intake) leave(account string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	h := in.accounts[account]
	if h.bodies--; h.bodies == 0 {
		delete(in.accounts, account)
	}
}

// used is how many bytes are taken.
func (in *intake) used() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.taken
}

// errAccountBodies is an account with as many bodies in memory as it may have.
func errAccountBodies(concurrency int) *abi.Error {
	return &abi.Error{Kind: abi.RateLimited, Op: "server.intake", RetryAfter: time.Second,
		Msg: "too many requests of this account are being read at once (limit " + strconv.Itoa(bodiesMax(concurrency)) + ")"}
}

// errBodies is a node whose memory for bodies is spent, or an account that has
// its share of it.
func errBodies() *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: "server.intake", Msg: "the node holds too many request bodies; retry",
		RetryAfter: time.Second}
}
