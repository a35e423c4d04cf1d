package server

import (
	"strconv"
	"sync"
	"time"

	"corenode/wasm/abi"
)

// gate bounds the requests being parsed and tokenized at once, per account by
// its concurrency and per node. It never waits: over a bound it refuses.
type gate struct {
	mu       sync.Mutex
	nodeMax  int
	node     int            // Guarded by mu
	accounts map[string]int // Guarded by mu; has only accounts with work
}

// enter takes a place; leave gives it back.
func (g *gate) enter(account string, accountMax int) *abi.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if accountMax > 0 && g.accounts[account] >= accountMax {
		return &abi.Error{Kind: abi.RateLimited, Op: "server.gate", RetryAfter: time.Second,
			Msg: "too many requests at once for this account (limit " + strconv.Itoa(accountMax) + ")"}
	}
	if g.node >= g.nodeMax {
		return errPreparing()
	}
	g.node++
	g.accounts[account]++
	return nil
}

// rest gives the node's place back and keeps that of the account: the request waits, and takes no processor.
func (g *gate) rest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.node--
}

// resume takes a place of the node again.
func (g *gate) resume() *abi.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.node >= g.nodeMax {
		return errPreparing()
	}
	g.node++
	return nil
}

// leave gives back what a request has, of the node unless it rests.
func (g *gate) leave(account string, rests bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !rests {
		g.node--
	}
	if g.accounts[account]--; g.accounts[account] == 0 {
		delete(g.accounts, account)
	}
}

func errPreparing() *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: "server.gate", RetryAfter: time.Second,
		Msg: "the node is preparing too many requests at once"}
}
