package route

import "time"

// The budget of retries: a share of the requests of the last seconds, so that retries do
// not multiply the load of servers that fail because of it.
const (
	budgetSeconds = 10
	budgetShare   = 0.2
	budgetMin     = 3
)

// Budget bounds retries. It is not safe for concurrent use.
type Budget struct {
	requests, retries [budgetSeconds]int
	at                time.Time     // of the latest call
	age               time.Duration // that passed until then, whatever the clock was set to
	second            int64         // of the latest bucket
}

// Request counts a request that begins.
func (b *Budget) Request(now time.Time) { b.requests[b.bucket(now)]++ }

// MayRetry says whether the budget has a retry.
func (b *Budget) MayRetry(now time.Time) bool {
	b.bucket(now)
	requests, retries := 0, 0
	for j := range b.requests {
		requests, retries = requests+b.requests[j], retries+b.retries[j]
	}
	return float64(retries+1) <= max(budgetMin, budgetShare*float64(requests))
}

// Retry takes one retry.
func (b *Budget) Retry(now time.Time) { b.retries[b.bucket(now)]++ }

// bucket is the one of this second; those in between are cleared.
func (b *Budget) bucket(now time.Time) int {
	if !b.at.IsZero() {
		b.age += max(0, now.Sub(b.at))
	}
	b.at = now
	second := int64(b.age / time.Second)
	for n := min(budgetSeconds, second-b.second); n > 0; n-- {
		i := (second - n + 1) % budgetSeconds
		b.requests[i], b.retries[i] = 0, 0
	}
	b.second = second
	return int(second % budgetSeconds)
}
