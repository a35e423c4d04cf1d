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
		return &abi.Error{Kind: abi.Overloaded, Op: "server.gate", RetryAfter: time.Second,
			Msg: "the node is preparing too many requests at once"}
	}
	g.node++
	g.accounts[account]++
	return nil
}

func (g *gate) leave(account string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.node--
	if g.accounts[account]--; g.accounts[account] == 0 {
		delete(g.accounts, account)
	}
}
