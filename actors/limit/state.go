// Package limit is the arithmetic of admission: what one account's requests have of its
// permits, its token bucket, its money, its counters and the budgets of its keys, and what a new one
// gets of all of them at once or of none.
//
// It is pure: no clock, no waiting, no actor. A limiter owns a State of each account that is
// active on its node. The store that many nodes share decides by the same State, made from the
// rows that it locked.
package limit

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// outputReserved is the most output a reservation takes from the bucket before
// it is produced; what is really produced is settled later.
const outputReserved = 1024

// permitRetry is the Retry-After of a request that found no permit: nobody
// knows when the next one ends.
const permitRetry = time.Second

// Ask is what a request needs before it starts.
type Ask struct {
	RequestID string
	// Free marks count_tokens and the model list: they need a permit and a bucket
	// that is not exhausted, and take neither tokens nor money.
	Free bool
	// Prompt and OutputMax are tokens.
	Prompt, OutputMax int64
	// Upper bounds the charge; Minimum is the price of all input uncached plus
	// one token of output.
	Upper, Minimum abi.Nano
	// Takes is what it may take of the billing module's counters. If it gets all of that,
	// CoveredUpper and CoveredMinimum stand in the place of the others.
	Takes                        []abi.Counter
	CoveredUpper, CoveredMinimum abi.Nano
	// Needs is what it takes of the admission policies' counters.
	Needs []Need
	// Key is what the request came with: its limits count beside the account's.
	Key account.LimitedKey
}

// Tokens is what it takes of a bucket of that capacity.
func (a Ask) Tokens(capacity int64) int64 {
	return min(a.Prompt+min(a.OutputMax, outputReserved), capacity)
}

// Need is an amount of a counter without which a request does not start, and why not.
type Need struct {
	Counter abi.Counter
	Refusal *abi.Error
}

// Reservation is what admission took for one request. Its owner is the request;
// whoever registered the request gives it back, at the latest when it expires.
type Reservation struct {
	Tokens  int64    // taken from the bucket
	Hold    abi.Nano // reserved of the balance
	Upper   abi.Nano // what Hold should be
	Arrival uint64   // its place among the account's reservations; rises
	// Counters is what it has of the counters that it asked for, in that order: of Takes, then of Needs.
	Counters []abi.Counter
	// KeyTokens was taken from the bucket of its key, KeyHold of the key's budget; it should be Upper.
	KeyTokens int64
	KeyHold   abi.Nano
	// Durable says that a cluster's store wrote its hold when it decided. GrantNumber names the grant
	// that it is a part of; 0 without one. AnyPermits and AnyMoney say that the grant did not count these.
	Durable              bool
	GrantNumber          int64
	AnyPermits, AnyMoney bool
	// Until is when a cluster's store may take it for that of a lost node. A request that has not begun by
	// then does not. Nil is never.
	Until *End
}

// End is until when a node believes in what a cluster's store gave it. It only rises, as when a grant is renewed, which holds for all
// that was given of the grant. One writer raises it, and it is safe for concurrent readers.
type End struct{ at atomic.Pointer[time.Time] }

// NewEnd is an end at a time.
func NewEnd(at time.Time) *End {
	e := &End{}
	e.at.Store(&at)
	return e
}

// Rise moves it to a time, unless that is earlier.
func (e *End) Rise(at time.Time) {
	if e.at.Load().Before(at) {
		e.at.Store(&at)
	}
}

// Passed says whether it was before now, or is.
func (e *End) Passed(now time.Time) bool { return e != nil && !now.Before(*e.at.Load()) }

// Leave says that a request no longer runs: its permit is free and Used tokens,
// not the Taken ones, were spent. Exactly one per granted Reserve.
type Leave struct {
	RequestID   string
	Taken, Used int64
	// Key is that of the request, and KeyTaken what was taken from its bucket.
	Key      account.LimitedKey
	KeyTaken int64
}

// Settle says that a request's settlement of Amount is durable in commit Seq of
// the ledger. Exactly one per granted Reserve with money, and another one with what
// a refund gives back. Amount 0 and Seq 0 give a hold back that never reached the ledger.
type Settle struct {
	RequestID string
	Amount    abi.Nano
	Counters  []abi.Counter // what was taken of them, or with a refund given back
	// KeyID is the key of the request, At the time of the row: in that month it counts against the budget.
	KeyID string
	At    time.Time
	Seq   uint64
}

// Loaded is what the ledger and the accounts know of one account, as of commit Seq.
type Loaded struct {
	Account account.Account
	Balance abi.Nano
	Holds   []account.Entry // open ones; those of other accounts are ignored
	// Counters are those of periods from account.OldestPeriod on.
	Counters []account.CounterUse
	// Keys are those with a budget, and what they were charged in the month of At.
	Keys []account.KeyUse
	At   time.Time
	Seq  uint64
}

// Live is what a running request still has, as a new State is told.
type Live struct {
	RequestID string
	Permit    bool
	// Hold is what was reserved at admission, of Upper; both are 0 when that is paid.
	Hold, Upper abi.Nano
	Counters    []abi.Counter // likewise
	Arrival     uint64        // of its Reservation
	// KeyID is the key that it came with, and KeyHold what it reserved of that one's budget, of Upper.
	KeyID   string
	KeyHold abi.Nano
}

// Counters is a copy of a State's numbers, from which Limits are
// computed at any later time. It is immutable.
type Counters struct {
	concurrency, permits int
	bucket               Bucket
	available            abi.Nano // balance without holds
}

// NewCounters returns the state of an account that uses nothing.
func NewCounters(a account.Account, now time.Time) Counters {
	return Counters{concurrency: a.Concurrency, bucket: NewBucket(a.TokensPerMinute, now)}
}

// Limits returns what the headers say at the time now.
func (c Counters) Limits(now time.Time) account.Limits {
	b := c.bucket
	b.Refill(now)
	l := account.Limits{RequestsLimit: c.concurrency, TokensLimit: b.Capacity, RequestsReset: now,
		RequestsRemaining: max(c.concurrency-c.permits, 0), TokensRemaining: b.Remaining(),
		TokensReset: now.Add(b.Wait(b.Capacity))}
	if c.concurrency > 0 && l.RequestsRemaining == 0 {
		l.RequestsReset = now.Add(permitRetry)
	}
	return l
}

// Full says whether the bucket is full at the time now.
func (c Counters) Full(now time.Time) bool {
	b := c.bucket
	b.Refill(now)
	return b.Full()
}

// Use returns what an admission policy decides by at the time now: the account's
// requests, the tokens that remain and the money that is available.
func (c Counters) Use(now time.Time) abi.Counters {
	b := c.bucket
	b.Refill(now)
	return abi.Counters{AccountRequests: int64(c.permits), TokensRemaining: b.Remaining(), Available: c.available}
}

// held is what one request has. It is there from the request's admission until it
// has left and is settled.
type held struct {
	permit bool
	hold   abi.Nano
	// short is what hold is below the request's upper bound. Money that comes back goes
	// there first: given to the next request it would be spent twice.
	short    abi.Nano
	arrival  uint64 // who came first is topped up first
	counters []abi.Counter
	key      keyHeld
}

// empty says whether a request has nothing any more.
func (h held) empty() bool {
	return !h.permit && h.hold == 0 && h.short == 0 && len(h.counters) == 0
}

// orphan is what an open hold has that no live request owns.
type orphan struct {
	hold     abi.Nano
	counters []abi.Counter
	key      keyHeld
}

// counterKey names a counter of the account in one period.
type counterKey struct{ name, period string }

// counter is what was used of it and what open holds have of it.
type counter struct{ used, held int64 }

// State is the whole state of one account's admission and all the deciding.
//
// Invariants: permits counts the entries of open with a permit. held sums the holds of
// open and orphans; both have the rest beside. short sums what the holds of open are short of; while it is not zero
// nothing is available. The same holds of each key and its
// budget. Only put and setOrphan write the maps and their sums. With the
// build tag invariants all of it is checked after every call.
type State struct {
	account account.Account
	bucket  Bucket
	// balance is a cache of the ledger's, true after its commit seq.
	balance abi.Nano
	seq     uint64
	open    map[string]held // by request id; none of them is empty
	// orphans are open holds of the ledger that no live request owns: of a
	// process that died, or of a request whose end is on its way.
	orphans map[string]orphan
	// taken is of the billing module's counters in periods that may still be asked for, and of
	// no others: forget bounds it.
	taken map[counterKey]counter
	// keys are those with a budget or with something open, buckets those of keys with a limit.
	keys     map[string]keyState
	buckets  map[string]Bucket
	month    int      // of what keys were charged; nothing of it was forgotten
	keyShort abi.Nano // what all keys are short of
	permits  int
	held     abi.Nano
	short    abi.Nano
	arrivals uint64 // the highest arrival so far
	// rest is what of permits and held is of requests that are not in open, and lent to nodes.
	rest Part
}

// New returns the state of an account that uses nothing; its bucket is b.
func New(a account.Account, b Bucket) *State {
	return &State{account: a, bucket: b, open: map[string]held{}, orphans: map[string]orphan{},
		taken: map[counterKey]counter{}, keys: map[string]keyState{}, buckets: map[string]Bucket{}}
}

// Load sets what the ledger knew at its commit and what the running requests have.
func (s *State) Load(r Loaded, live []Live) {
	s.balance, s.seq, s.permits, s.held, s.short, s.rest = r.Balance, r.Seq, 0, 0, 0, Part{}
	clear(s.open)
	clear(s.orphans)
	clear(s.taken)
	s.loadKeys(r)
	for _, u := range r.Counters {
		s.taken[counterKey{u.Name, u.Period}] = counter{used: u.Used}
	}
	for _, l := range live {
		s.put(l.RequestID, held{l.Permit, l.Hold, l.Upper - l.Hold, l.Arrival, l.Counters, l.ofKey()})
		s.arrivals = max(s.arrivals, l.Arrival)
	}
	for _, h := range r.Holds {
		if _, ok := s.open[h.RequestID]; !ok && h.AccountID == s.account.ID {
			s.setOrphan(h.RequestID, orphan{h.Held, h.Counters, keyHeld{h.KeyID, h.Held, 0}})
		}
	}
	s.topUp()
	s.check()
}

// put notes what a request has now; one that has nothing any more is forgotten.
func (s *State) put(id string, h held) {
	was := s.open[id]
	if was.permit {
		s.permits--
	}
	if h.permit {
		s.permits++
	}
	s.held += h.hold - was.hold
	s.short += h.short - was.short
	s.count(was.counters, h.counters)
	s.countKey(was.key, h.key)
	if h.empty() {
		delete(s.open, id)
	} else {
		s.open[id] = h
	}
}

// setOrphan notes an open hold that nobody owns; one of nothing is forgotten.
func (s *State) setOrphan(id string, o orphan) {
	was := s.orphans[id]
	s.held += o.hold - was.hold
	s.count(was.counters, o.counters)
	s.countKey(was.key, o.key)
	if o.hold != 0 || len(o.counters) > 0 {
		s.orphans[id] = o
	} else {
		delete(s.orphans, id)
	}
}

// count notes what is held of counters instead of what was.
func (s *State) count(was, is []abi.Counter) {
	for _, c := range was {
		k := counterKey{c.Name, c.Period}
		now := s.taken[k]
		now.held -= c.Amount
		s.taken[k] = now
	}
	for _, c := range is {
		k := counterKey{c.Name, c.Period}
		now := s.taken[k]
		now.held += c.Amount
		s.taken[k] = now
	}
}

// takes is what a request gets of the counters that it asks for, and whether that is all.
func (s *State) takes(asked []abi.Counter) (got []abi.Counter, covered bool) {
	covered = len(asked) > 0
	for _, c := range asked {
		now := s.taken[counterKey{c.Name, c.Period}]
		most := c.Amount
		c.Amount = max(min(most, c.Limit-now.used-now.held), 0)
		covered = covered && c.Amount == most
		if c.Amount > 0 {
			got = append(got, c)
		}
	}
	return got, covered
}

// needs adds what a request must get of counters to what it has; one that it does not get
// refuses it. Two policies may ask for one counter, as versions of one name at two places do:
// the ledger has it once.
func (s *State) needs(all []Need, got []abi.Counter) ([]abi.Counter, *abi.Error) {
	own := len(got)
	for _, n := range all {
		c := n.Counter
		now := s.taken[counterKey{c.Name, c.Period}]
		left := c.Limit - now.used - now.held
		before := slices.IndexFunc(got[own:], func(b abi.Counter) bool { return b.Name == c.Name })
		if before >= 0 {
			left -= got[own+before].Amount
		}
		switch {
		case c.Amount == 0: // all of nothing is there
		case c.Amount > left:
			return nil, n.Refusal
		case before >= 0:
			b := &got[own+before]
			if b.Period != c.Period {
				return nil, &abi.Error{Kind: abi.Internal, Op: "limit.Reserve",
					Msg: "two policies count " + c.Name + " by day and by month"}
			}
			b.Amount, b.Limit = b.Amount+c.Amount, max(b.Limit, c.Limit)
		default:
			got = append(got, c)
		}
	}
	return got, nil
}

// forget drops counters of periods that ended over a month ago: what is used of them is in
// the ledger, and nothing asks for it.
func (s *State) forget(now time.Time) {
	oldest := account.OldestPeriod(now)
	for k, c := range s.taken {
		if c.held == 0 && k.period < oldest {
			delete(s.taken, k)
		}
	}
}

// topUp gives what is available to the holds that took less than their upper
// bound, in the order in which their requests came.
func (s *State) topUp() {
	s.topUpKeys()
	available := s.balance - s.held
	if s.account.Unlimited {
		available = s.short
	}
	if s.short == 0 || available <= 0 {
		return
	}
	var ids []string
	for id, h := range s.open {
		if h.short > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(s.open[a].arrival, s.open[b].arrival) })
	for _, id := range ids {
		h := s.open[id]
		more := min(h.short, available)
		h.hold, h.short = h.hold+more, h.short-more
		s.put(id, h)
		if available -= more; available == 0 {
			return
		}
	}
}

// Reserve takes a permit, tokens and money, or nothing. now must not go back; a wall clock that did so is for Knows to notice.
func (s *State) Reserve(a Ask, now time.Time) (Reservation, *abi.Error) {
	defer s.check()
	s.bucket.Refill(now)
	s.refillKey(a.Key, now)
	s.BeginMonth(now)
	r, err := s.decide(a)
	if err != nil {
		return Reservation{}, err
	}
	if _, ok := s.open[a.RequestID]; ok {
		return Reservation{}, &abi.Error{Kind: abi.Internal, Op: "limit.Reserve", Msg: "internal error: request id is in use"}
	}
	s.bucket.add(-r.Tokens)
	s.addKey(a.Key.ID, -r.KeyTokens)
	s.arrivals++
	r.Arrival = s.arrivals
	known := len(s.taken)
	s.put(a.RequestID, held{permit: true, hold: r.Hold, short: r.Upper - r.Hold, arrival: r.Arrival, counters: r.Counters,
		key: heldOf(a.Key.ID, r.KeyHold, r.Upper)})
	if len(s.taken) > known { // a day or a month began
		s.forget(now)
	}
	return r, nil
}

// decide says what a reservation would take. Money comes first: 402 before 429.
func (s *State) decide(a Ask) (Reservation, *abi.Error) {
	if s.account.Disabled {
		return Reservation{}, &abi.Error{Kind: abi.Unauthenticated, Op: "limit.Reserve", Msg: "this account is disabled"}
	}
	var r Reservation
	if !a.Free {
		minimum, covered := a.Minimum, false
		r.Upper = a.Upper
		if r.Counters, covered = s.takes(a.Takes); covered {
			minimum, r.Upper = a.CoveredMinimum, a.CoveredUpper
		}
		available := s.balance - s.held
		if !s.account.Unlimited && available < minimum {
			return r, shortOfMoney(available, minimum)
		}
		r.Hold = r.Upper
		if !s.account.Unlimited {
			r.Hold = max(min(r.Upper, available), 0)
		}
		var err *abi.Error
		if r.KeyHold, err = s.budget(a.Key.ID, minimum, r.Upper); err != nil {
			return r, err
		}
		if r.Counters, err = s.needs(a.Needs, r.Counters); err != nil {
			return r, err
		}
	}
	if limit := s.account.Concurrency; limit > 0 && s.permits >= limit {
		return r, &abi.Error{Kind: abi.RateLimited, Op: "limit.Reserve", RetryAfter: permitRetry,
			Msg: fmt.Sprintf("this account's concurrency limit of %d requests at once is reached", limit)}
	}
	need := int64(1) // of a free request: the bucket must not be exhausted
	if !a.Free && s.bucket.Capacity > 0 {
		need = a.Tokens(s.bucket.Capacity)
		r.Tokens = need
	}
	if !s.bucket.has(need) {
		return r, shortOfTokens("account", s.bucket, need)
	}
	var err *abi.Error
	r.KeyTokens, err = s.keyTokens(a)
	return r, err
}

func shortOfTokens(whose string, b Bucket, need int64) *abi.Error {
	return &abi.Error{Kind: abi.RateLimited, Op: "limit.Reserve", RetryAfter: b.Wait(need),
		Msg: fmt.Sprintf("this %s's limit of %d tokens per minute is reached: %d needed now, %d remaining",
			whose, b.Capacity, need, b.Remaining())}
}

func shortOfMoney(available, minimum abi.Nano) *abi.Error {
	return &abi.Error{Kind: abi.InsufficientBalance, Op: "limit.Reserve",
		Msg: fmt.Sprintf("insufficient balance: %s available, this request needs at least %s", dollars(available), dollars(minimum))}
}

// dollars writes money exactly.
func dollars(n abi.Nano) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s$%d.%09d", sign, n/1e9, n%1e9)
}

// Leave ends the use of a permit and corrects the bucket from what was taken to
// what was really used. It is given both because the limiter that granted them
// may have been restarted since. Call it once per reservation.
func (s *State) Leave(m Leave, now time.Time) {
	s.bucket.Refill(now)
	if s.bucket.Capacity > 0 {
		s.bucket.add(m.Taken - m.Used)
	}
	s.leaveKey(m, now)
	h := s.open[m.RequestID]
	h.permit = false
	s.put(m.RequestID, h)
	s.check()
}

// Settle releases the hold of a request, whose settlement of m.Amount (not above
// zero), or refund of it, is in the ledger's commit m.Seq, and took so much of counters. A
// commit that the balance knows already changes only the hold.
func (s *State) Settle(m Settle) {
	if m.Seq > s.seq {
		s.balance += m.Amount
		s.charge(m)
		for _, c := range m.Counters {
			k := counterKey{c.Name, c.Period}
			now := s.taken[k]
			now.used += c.Amount
			s.taken[k] = now
		}
	}
	s.put(m.RequestID, held{permit: s.open[m.RequestID].permit})
	s.setOrphan(m.RequestID, orphan{})
	s.topUp()
	s.check()
}

// Change adopts new limits. Reservations already made stay.
func (s *State) Change(a account.Account, now time.Time) {
	s.bucket.Refill(now)
	s.bucket.Resize(a.TokensPerMinute, now)
	s.account = a
	s.topUp() // it may be unlimited now
	s.check()
}

// Counters returns a copy of the numbers.
func (s *State) Counters() Counters {
	return Counters{concurrency: s.account.Concurrency, permits: s.permits, bucket: s.bucket, available: s.balance - s.held}
}

// Idle says whether the state holds nothing that a new one would not have.
func (s *State) Idle(now time.Time) bool {
	s.bucket.Refill(now)
	return len(s.open) == 0 && s.bucket.Full() && s.keysFull(now)
}
