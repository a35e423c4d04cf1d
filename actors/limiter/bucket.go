package limiter

import "time"

// partsPerToken makes the refill exact: n tokens per minute are n parts per millisecond.
const partsPerToken = 60_000

// capacityMax keeps all arithmetic on parts within an int64.
const capacityMax = 1_000_000_000_000

// bucket is a token bucket that holds up to capacity tokens and refills by
// capacity per minute, continuously. It may be overdrawn. A capacity of 0 means
// no limit. It is a plain value: copying it copies its state.
type bucket struct {
	capacity int64     // tokens
	parts    int64     // what is in it at the time at; never above capacity
	at       time.Time // moves on in whole milliseconds so that no part is lost
}

// newBucket returns a full bucket.
func newBucket(capacity int64, now time.Time) bucket {
	capacity = min(max(capacity, 0), capacityMax)
	return bucket{capacity: capacity, parts: capacity * partsPerToken, at: now}
}

// refill brings the bucket to now. A clock that steps back refills nothing.
func (b *bucket) refill(now time.Time) {
	ms := now.Sub(b.at).Milliseconds()
	if ms <= 0 || b.capacity == 0 {
		return
	}
	missing := b.capacity*partsPerToken - b.parts
	if ms >= missing/b.capacity+1 {
		b.parts, b.at = b.capacity*partsPerToken, now // the rest of the time refilled nothing
		return
	}
	b.parts = min(b.parts+ms*b.capacity, b.capacity*partsPerToken)
	b.at = b.at.Add(time.Duration(ms) * time.Millisecond)
}

// add puts tokens in (or takes them out, if negative).
func (b *bucket) add(tokens int64) {
	tokens = min(max(tokens, -capacityMax), capacityMax)
	b.parts = min(b.parts+tokens*partsPerToken, b.capacity*partsPerToken)
}

// resize changes the capacity. What was spent of a larger bucket stays spent; a
// smaller one forgives what it could never have given.
func (b *bucket) resize(capacity int64, now time.Time) {
	capacity = min(max(capacity, 0), capacityMax)
	switch {
	case b.capacity == 0 || capacity == 0:
		*b = newBucket(capacity, now)
	case capacity > b.capacity:
		b.parts += (capacity - b.capacity) * partsPerToken
		b.capacity = capacity
	default:
		b.capacity = capacity
		b.parts = min(b.parts, capacity*partsPerToken)
	}
}

// has says whether so many whole tokens are there.
func (b bucket) has(tokens int64) bool {
	return b.capacity == 0 || b.parts >= tokens*partsPerToken
}

// remaining returns the whole tokens there are, 0 when overdrawn.
func (b bucket) remaining() int64 { return max(b.parts, 0) / partsPerToken }

// full says whether nothing is missing.
func (b bucket) full() bool { return b.parts >= b.capacity*partsPerToken }

// wait returns how long it takes until has(tokens), if nobody else takes any.
// Invariant: refill after exactly that time makes has(tokens) true, for tokens up to the capacity.
func (b bucket) wait(tokens int64) time.Duration {
	missing := tokens*partsPerToken - b.parts
	if missing <= 0 || b.capacity == 0 {
		return 0
	}
	ms := (missing + b.capacity - 1) / b.capacity
	return time.Duration(ms) * time.Millisecond
}
