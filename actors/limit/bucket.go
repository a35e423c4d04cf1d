package limit

import "time"

// partsPerToken makes the refill exact: n tokens per minute are n parts per millisecond.
const partsPerToken = 60_000

// capacityMax keeps all arithmetic on parts within an int64.
const capacityMax = 1_000_000_000_000

// Bucket is a token bucket that holds up to capacity tokens and refills by
// capacity per minute, continuously. It may be overdrawn. A capacity of 0 means
// no limit. It is a plain value: copying it copies its state.
type Bucket struct {
	Capacity int64     // tokens
	Parts    int64     // what is in it at the time at; never above capacity
	At       time.Time // moves on in whole milliseconds so that no part is lost
}

// NewBucket returns a full bucket.
func NewBucket(capacity int64, now time.Time) Bucket {
	capacity = min(max(capacity, 0), capacityMax)
	return Bucket{Capacity: capacity, Parts: capacity * partsPerToken, At: now}
}

// Refill brings the bucket to now. A clock that steps back refills nothing.
func (b *Bucket) Refill(now time.Time) {
	ms := now.Sub(b.At).Milliseconds()
	if ms <= 0 || b.Capacity == 0 {
		return
	}
	missing := b.Capacity*partsPerToken - b.Parts
	if ms >= missing/b.Capacity+1 {
		b.Parts, b.At = b.Capacity*partsPerToken, now // the rest of the time refilled nothing
		return
	}
	b.Parts = min(b.Parts+ms*b.Capacity, b.Capacity*partsPerToken)
	b.At = b.At.Add(time.Duration(ms) * time.Millisecond)
}

// add puts tokens in (or takes them out, if negative).
func (b *Bucket) add(tokens int64) {
	tokens = min(max(tokens, -capacityMax), capacityMax)
	b.Parts = min(b.Parts+tokens*partsPerToken, b.Capacity*partsPerToken)
}

// Resize changes the capacity. What was spent of a larger bucket stays spent; a
// smaller one forgives what it could never have given.
func (b *Bucket) Resize(capacity int64, now time.Time) {
	capacity = min(max(capacity, 0), capacityMax)
	switch {
	case b.Capacity == 0 || capacity == 0:
		*b = NewBucket(capacity, now)
	case capacity > b.Capacity:
		b.Parts += (capacity - b.Capacity) * partsPerToken
		b.Capacity = capacity
	default:
		b.Capacity = capacity
		b.Parts = min(b.Parts, capacity*partsPerToken)
	}
}

// has says whether so many whole tokens are there.
func (b Bucket) has(tokens int64) bool {
	return b.Capacity == 0 || b.Parts >= tokens*partsPerToken
}

// Remaining returns the whole tokens there are, 0 when overdrawn.
func (b Bucket) Remaining() int64 { return max(b.Parts, 0) / partsPerToken }

// Full says whether nothing is missing.
func (b Bucket) Full() bool { return b.Parts >= b.Capacity*partsPerToken }

// Wait returns how long it takes until has(tokens), if nobody else takes any.
// Invariant: Refill after exactly that time makes has(tokens) true, for tokens up to the capacity.
func (b Bucket) Wait(tokens int64) time.Duration {
	missing := tokens*partsPerToken - b.Parts
	if missing <= 0 || b.Capacity == 0 {
		return 0
	}
	ms := (missing + b.Capacity - 1) / b.Capacity
	return time.Duration(ms) * time.Millisecond
}
