package limit

import (
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// Kept is what a store keeps of an account's requests, all of them together.
type Kept struct {
	Permits  int
	Held     abi.Nano
	Arrivals uint64
	Bucket   Bucket
}

// Restore makes a state from what a store keeps: r is without its holds, open are those requests
// that are told apart, and k is all of them. Those in open must be all that are short of anything, if any is.
func Restore(r Loaded, k Kept, open []Live) *State {
	s := New(r.Account, k.Bucket)
	s.balance, s.arrivals = r.Balance, k.Arrivals
	s.loadKeys(r)
	for _, u := range r.Counters {
		s.taken[counterKey{u.Name, u.Period}] = counter{used: u.Used}
	}
	for _, l := range open {
		s.put(l.RequestID, held{l.Permit, l.Hold, l.Upper - l.Hold, l.Arrival, l.Counters, l.ofKey()})
	}
	s.rest = Part{Permits: k.Permits - s.permits, Money: k.Held - s.held}
	s.permits, s.held = k.Permits, k.Held
	s.topUp()
	s.check()
	return s
}

// Kept returns what a store keeps. What is lent is a part of it.
func (s *State) Kept() Kept {
	return Kept{Permits: s.permits, Held: s.held, Arrivals: s.arrivals, Bucket: s.bucket}
}

// Refill brings the buckets to now, that of a key too, and the limits of both to what they are today.
func (s *State) Refill(k account.LimitedKey, now time.Time) {
	s.bucket.Refill(now)
	s.bucket.Resize(s.account.TokensPerMinute, now)
	s.refillKey(k, now)
}

// Add notes a request that was admitted elsewhere: what it has, whatever that leaves. tokens
// are taken of the bucket.
func (s *State) Add(l Live, tokens int64) {
	s.arrivals++
	s.bucket.add(-tokens)
	s.put(l.RequestID, held{l.Permit, l.Hold, l.Upper - l.Hold, s.arrivals, l.Counters, l.ofKey()})
	s.check()
}

// Lend gives a part away: nobody else has it until it comes back, as a negative part.
func (s *State) Lend(p Part) {
	s.rest = s.rest.Plus(Part{Permits: p.Permits, Money: p.Money})
	s.permits += p.Permits
	s.held += p.Money
	s.bucket.add(-p.Tokens)
	s.topUp()
	s.check()
}

// quotesLent is how many requests like the last an account must be able to pay to lend any, and
// permitsLent how many permits for each node. What is less is decided one by one, so that no node has what
// another one needs.
const quotesLent, permitsLent = 4, 2

// Lendable is what may be lent to one of so many nodes that wishes to have that, and has left
// of what it was lent before. quote is what one request takes. It is not ok to lend where
// something would be lacking all the same.
func (s *State) Lendable(wish, left Part, nodes int, quote Part) (more Part, ok bool) {
	a := s.account
	small := a.Concurrency > 0 && a.Concurrency <= permitsLent*nodes || !a.Unlimited && s.balance < quotesLent*quote.Money ||
		s.bucket.Capacity > 0 && s.bucket.Capacity < quotesLent*quote.Tokens
	if a.Disabled || small || s.short > 0 || s.keyShort > 0 {
		return Part{}, false
	}
	share := func(free int64) int64 { return free / int64(nodes+1) }
	most := Part{
		Permits: int(share(int64(a.Concurrency - s.permits + left.Permits))),
		Tokens:  share(s.bucket.Remaining() + left.Tokens),
		Money:   abi.Nano(share(int64(s.balance - s.held + left.Money))),
	}
	more = wish.Atmost(most).Minus(left)
	more = more.Atmost(more) // nothing below zero
	anyPermits, anyTokens, anyMoney := s.Any()
	if anyPermits {
		more.Permits = 0
	}
	if anyTokens {
		more.Tokens = 0
	}
	if anyMoney {
		more.Money = 0
	}
	has := left.Plus(more)
	ok = (anyPermits || has.Permits > 0) &&
		(anyTokens || has.Tokens >= max(quote.Tokens, 1)) && (anyMoney || has.Money >= max(quote.Money, 1))
	return more, ok
}

// Any says which limits the account does not have: they are not lent.
func (s *State) Any() (permits, tokens, money bool) {
	return s.account.Concurrency <= 0, s.bucket.Capacity == 0, s.account.Unlimited
}
