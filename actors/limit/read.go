package limit

import (
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// Sums are what all requests of an account have together.
type Sums struct {
	Permits int
	Balance abi.Nano
	// Held is reserved of the balance, and Short what those holds are below their upper bounds.
	Held, Short abi.Nano
}

// Sums returns what all requests have. It is for tests, as Counter and KeySums are.
func (s *State) Sums() Sums {
	return Sums{Permits: s.permits, Balance: s.balance, Held: s.held, Short: s.short}
}

// Open returns what a request has now; open is false when that is nothing.
func (s *State) Open(requestID string) (l Live, open bool) {
	h, open := s.open[requestID]
	return Live{RequestID: requestID, Permit: h.permit, Hold: h.hold, Upper: h.hold + h.short, Counters: h.counters, Arrival: h.arrival,
		KeyID: h.key.id, KeyHold: h.key.hold}, open
}

// Counter says what is used of a counter in a period, and what open holds have of it.
func (s *State) Counter(name, period string) (used, held int64) {
	c := s.taken[counterKey{name, period}]
	return c.used, c.held
}

// KeySums is what was charged to a key in the month, and what its requests have of its budget.
type KeySums struct{ Budget, Charged, Held, Short abi.Nano }

// KeySums returns those of a key; zero when nothing is known of it.
func (s *State) KeySums(id string) KeySums {
	k := s.keys[id]
	return KeySums{k.budget, k.charged, k.held, k.short}
}

// KeyBucket returns the bucket of a key. ok is false where none is kept: then it is full, or the key has no limit.
func (s *State) KeyBucket(id string) (b Bucket, ok bool) {
	b, ok = s.buckets[id]
	return b, ok
}

// SetKeyBucket gives a key the bucket that it had before the state was made.
func (s *State) SetKeyBucket(id string, b Bucket) { s.buckets[id] = b }

// Bucket returns the account's bucket at the time now, with the limit that the account has.
func (c Counters) Bucket(a account.Account, now time.Time) Bucket {
	b := c.bucket
	b.Refill(now)
	b.Resize(a.TokensPerMinute, now)
	return b
}
