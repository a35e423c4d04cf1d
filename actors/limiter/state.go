package limiter

import (
	"cmp"
	"fmt"
	"slices"
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
}

// Reservation is what admission took for one request. Its owner is the request;
// whoever registered the request gives it back, at the latest when it expires.
type Reservation struct {
	Tokens  int64    // taken from the bucket
	Hold    abi.Nano // reserved of the balance
	Arrival uint64   // its place among the account's reservations; rises
}

// Live is what a running request still has, as a restarted limiter is told.
type Live struct {
	RequestID string
	Permit    bool
	// Hold is what was reserved at admission, of Upper; both are 0 when that is paid.
	Hold, Upper abi.Nano
	Arrival     uint64 // of its Reservation
}

// State is what the rate-limit headers say. A limit of 0 means that there is none.
type State struct {
	RequestsLimit, RequestsRemaining int
	TokensLimit, TokensRemaining     int64
	// RequestsReset is now, or when to try again while no permit is free.
	// TokensReset is when the bucket is full again.
	RequestsReset, TokensReset time.Time
}

// Snapshot is a published copy of a limiter's counters, from which State is
// computed at any later time. It is immutable.
type Snapshot struct {
	concurrency, permits int
	bucket               bucket
	available            abi.Nano // balance without holds
}

// NewSnapshot returns the state of an account that uses nothing.
func NewSnapshot(a account.Account, now time.Time) Snapshot {
	return Snapshot{concurrency: a.Concurrency, bucket: newBucket(a.TokensPerMinute, now)}
}

// State returns what the headers say at the time now.
func (s Snapshot) State(now time.Time) State {
	b := s.bucket
	b.refill(now)
	st := State{RequestsLimit: s.concurrency, TokensLimit: b.capacity, RequestsReset: now,
		RequestsRemaining: max(s.concurrency-s.permits, 0), TokensRemaining: b.remaining(),
		TokensReset: now.Add(b.wait(b.capacity))}
	if s.concurrency > 0 && st.RequestsRemaining == 0 {
		st.RequestsReset = now.Add(permitRetry)
	}
	return st
}

// full says whether the bucket is full at the time now.
func (s Snapshot) full(now time.Time) bool {
	b := s.bucket
	b.refill(now)
	return b.full()
}

// Use is what an account has and uses, for a policy that decides by it.
type Use struct {
	Requests        int
	TokensRemaining int64
	Available       abi.Nano // balance without holds
}

// Use returns the counters at the time now.
func (s Snapshot) Use(now time.Time) Use {
	b := s.bucket
	b.refill(now)
	return Use{Requests: s.permits, TokensRemaining: b.remaining(), Available: s.available}
}

// held is what one request has. It is there from the request's admission until it
// has left and is settled.
type held struct {
	permit bool
	hold   abi.Nano
	// short is what hold is below the request's upper bound. Money that comes back goes
	// there first: given to the next request it would be spent twice.
	short   abi.Nano
	arrival uint64 // who came first is topped up first
}

// desk is the whole state of one account's admission and all the deciding: no
// clock, no waiting.
//
// Invariants: permits counts the entries of open with a permit; held sums the
// holds of open and orphans; short sums what holds of open are short of; while
// that is not zero nothing is available. Only put and setOrphan write the maps and
// their sums. With the build tag invariants all of it is checked after every call.
type desk struct {
	account account.Account
	bucket  bucket
	// balance is a cache of the ledger's, true after its commit seq.
	balance abi.Nano
	seq     uint64
	open    map[string]held // by request id; none of them is empty
	// orphans are open holds of the ledger that no live request owns: of a
	// process that died, or of a request whose end is on its way.
	orphans  map[string]abi.Nano
	permits  int
	held     abi.Nano
	short    abi.Nano
	arrivals uint64 // the highest arrival so far
}

func newDesk(a account.Account, b bucket) *desk {
	return &desk{account: a, bucket: b, open: map[string]held{}, orphans: map[string]abi.Nano{}}
}

// load sets what the ledger knew at its commit seq and what the running requests have.
func (d *desk) load(balance abi.Nano, seq uint64, holds []account.Entry, live []Live) {
	d.balance, d.seq, d.permits, d.held, d.short = balance, seq, 0, 0, 0
	clear(d.open)
	clear(d.orphans)
	for _, l := range live {
		d.put(l.RequestID, held{l.Permit, l.Hold, l.Upper - l.Hold, l.Arrival})
		d.arrivals = max(d.arrivals, l.Arrival)
	}
	for _, h := range holds {
		if _, ok := d.open[h.RequestID]; !ok && h.AccountID == d.account.ID {
			d.setOrphan(h.RequestID, h.Held)
		}
	}
	d.topUp()
	d.check()
}

// put notes what a request has now; one that has nothing any more is forgotten.
func (d *desk) put(id string, h held) {
	was := d.open[id]
	if was.permit {
		d.permits--
	}
	if h.permit {
		d.permits++
	}
	d.held += h.hold - was.hold
	d.short += h.short - was.short
	if h.permit || h.hold != 0 || h.short != 0 {
		d.open[id] = h
	} else {
		delete(d.open, id)
	}
}

// setOrphan notes an open hold that nobody owns; one of 0 is forgotten.
func (d *desk) setOrphan(id string, hold abi.Nano) {
	d.held += hold - d.orphans[id]
	if hold != 0 {
		d.orphans[id] = hold
	} else {
		delete(d.orphans, id)
	}
}

// topUp gives what is available to the holds that took less than their upper
// bound, in the order in which their requests came.
func (d *desk) topUp() {
	available := d.balance - d.held
	if d.account.Unlimited {
		available = d.short
	}
	if d.short == 0 || available <= 0 {
		return
	}
	var ids []string
	for id, h := range d.open {
		if h.short > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(d.open[a].arrival, d.open[b].arrival) })
	for _, id := range ids {
		h := d.open[id]
		more := min(h.short, available)
		h.hold, h.short = h.hold+more, h.short-more
		d.put(id, h)
		if available -= more; available == 0 {
			return
		}
	}
}

// reserve takes a permit, tokens and money, or nothing. now must not go back.
func (d *desk) reserve(a Ask, now time.Time) (Reservation, *abi.Error) {
	d.bucket.refill(now)
	r, err := d.decide(a)
	if err != nil {
		return Reservation{}, err
	}
	if _, ok := d.open[a.RequestID]; ok {
		return Reservation{}, &abi.Error{Kind: abi.Internal, Op: "limiter.reserve", Msg: "internal error: request id is in use"}
	}
	d.bucket.add(-r.Tokens)
	d.arrivals++
	r.Arrival = d.arrivals
	h := held{permit: true, hold: r.Hold, arrival: r.Arrival}
	if !a.Free {
		h.short = a.Upper - r.Hold
	}
	d.put(a.RequestID, h)
	d.check()
	return r, nil
}

// decide says what a reservation would take. Money comes first: 402 before 429.
func (d *desk) decide(a Ask) (Reservation, *abi.Error) {
	if d.account.Disabled {
		return Reservation{}, &abi.Error{Kind: abi.Unauthenticated, Op: "limiter.reserve", Msg: "this account is disabled"}
	}
	var r Reservation
	if !a.Free {
		available := d.balance - d.held
		if !d.account.Unlimited && available < a.Minimum {
			return r, shortOfMoney(available, a.Minimum)
		}
		r.Hold = a.Upper
		if !d.account.Unlimited {
			r.Hold = max(min(a.Upper, available), 0)
		}
	}
	if limit := d.account.Concurrency; limit > 0 && d.permits >= limit {
		return r, &abi.Error{Kind: abi.RateLimited, Op: "limiter.reserve", RetryAfter: permitRetry,
			Msg: fmt.Sprintf("this account's concurrency limit of %d requests at once is reached", limit)}
	}
	need := int64(1) // of a free request: the bucket must not be exhausted
	if !a.Free && d.bucket.capacity > 0 {
		need = min(a.Prompt+min(a.OutputMax, outputReserved), d.bucket.capacity)
		r.Tokens = need
	}
	if !d.bucket.has(need) {
		return r, &abi.Error{Kind: abi.RateLimited, Op: "limiter.reserve", RetryAfter: d.bucket.wait(need),
			Msg: fmt.Sprintf("this account's limit of %d tokens per minute is reached: %d needed now, %d remaining",
				d.bucket.capacity, need, d.bucket.remaining())}
	}
	return r, nil
}

func shortOfMoney(available, minimum abi.Nano) *abi.Error {
	return &abi.Error{Kind: abi.InsufficientBalance, Op: "limiter.reserve",
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

// leave ends the use of a permit and corrects the bucket from what was taken to
// what was really used. It is given both because the limiter that granted them
// may have been restarted since. Call it once per reservation.
func (d *desk) leave(id string, taken, used int64, now time.Time) {
	d.bucket.refill(now)
	if d.bucket.capacity > 0 {
		d.bucket.add(taken - used)
	}
	h := d.open[id]
	h.permit = false
	d.put(id, h)
	d.check()
}

// settle releases the hold of a request, whose settlement of amount (not above
// zero), or refund of amount, is in the ledger's commit seq. A commit that the balance knows already
// changes only the hold.
func (d *desk) settle(id string, amount abi.Nano, seq uint64) {
	if seq > d.seq {
		d.balance += amount
	}
	d.put(id, held{permit: d.open[id].permit})
	d.setOrphan(id, 0)
	d.topUp()
	d.check()
}

// change adopts new limits. Reservations already made stay.
func (d *desk) change(a account.Account, now time.Time) {
	if a.TokensPerMinute != d.account.TokensPerMinute {
		d.bucket.refill(now)
		d.bucket.resize(a.TokensPerMinute, now)
	}
	d.account = a
	d.topUp() // it may be unlimited now
	d.check()
}

func (d *desk) snapshot() Snapshot {
	return Snapshot{concurrency: d.account.Concurrency, permits: d.permits, bucket: d.bucket, available: d.balance - d.held}
}

// idle says whether the desk holds nothing that a new one would not have.
func (d *desk) idle(now time.Time) bool {
	d.bucket.refill(now)
	return len(d.open) == 0 && d.bucket.full()
}
