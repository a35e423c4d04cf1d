package tree

import (
	"sync"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/actors/limit"
	"corenode/actors/limiter"
	"corenode/wasm/abi"
)

// bill is what is known of a request's charge while its settlement and the
// decision to withhold its answer may cross. It is safe for concurrent use.
//
// States: open -> sent (the settlement is on its way) -> withheld (it was taken
// back), or open -> withheld: then what is sent is free.
type bill struct {
	mu       sync.Mutex
	charged  abi.Nano // what the sent settlement takes
	taken    []abi.Counter
	at       time.Time // of that settlement
	refundAt time.Time // of the row that takes it back
	sent     bool
	withheld chan struct{} // nil while the answer may leave; closed when it certainly costs nothing
}

func (b *bill) isWithheld() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.withheld != nil
}

// charge is what the request costs, and takes of counters, by a row of which time.
func (b *bill) charge() (abi.Nano, []abi.Counter, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.charged, b.taken, b.at
}

// drop says that the settlement takes nothing any more, and returns what it took.
func (b *bill) drop() (was abi.Nano, taken []abi.Counter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, b.charged, b.sent = b.charged, 0, false
	taken, b.taken = b.taken, nil
	return was, taken
}

// send sends a settlement, free if its answer is withheld. A refund is never sent
// before it: both are sent under the lock, and tell does not wait.
func (b *bill) send(e account.Entry, tell func(account.Entry) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.withheld != nil {
		e = e.Withheld()
	} else {
		b.charged, b.taken, b.at = -e.Amount, e.Counters, e.Time
	}
	b.sent = b.sent || e.Usage != (abi.Usage{})
	return tell(e)
}

// withhold marks the bill, once; refund is called when a settlement was sent.
func (b *bill) withhold(refund func()) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.withheld == nil {
		b.withheld = make(chan struct{})
		if b.sent {
			refund()
		} else {
			close(b.withheld)
		}
	}
	return b.withheld
}

// withhold takes back what the request was charged or will be.
func (r *request) withhold() <-chan struct{} { return r.bill.withhold(r.refund) }

// refund asks the ledger to withdraw the settlement or to write its refund. It is
// called with the bill locked, so what waits for an answer is another goroutine's.
func (r *request) refund() {
	e := r.entry(account.Adjustment)
	e.Refund, e.Note = true, "the answer was withheld"
	r.bill.refundAt = e.Time
	// The error is that of a ledger that ended: then nothing is certain any more.
	_ = r.t.ledger.Tell(ledger.Withhold{Refund: e, Done: r.refunded})
}

// refunded is the ledger's answer to refund.
func (r *request) refunded(c ledger.Commit) {
	switch {
	case c.Err != nil && !c.Withdrawn && !c.Rejected:
		if r.t.ledger.Alive() { // it failed with the message in hand
			r.t.background.Go(func() {
				r.bill.mu.Lock()
				defer r.bill.mu.Unlock()
				r.refund()
			})
		}
		return
	case c.Withdrawn || c.Rejected: // there is no charge to give back
		r.bill.drop()
	case r.t.clustered(): // the refund told the store
		r.bill.drop()
	default:
		back := limit.Settle{RequestID: r.ask.RequestID, KeyID: r.ask.Key.ID, Seq: c.Seq}
		var taken []abi.Counter
		back.Amount, taken = r.bill.drop()
		back.At = r.bill.refundAt // written before the ledger was asked
		for _, c := range taken {
			c.Amount = -c.Amount
			back.Counters = append(back.Counters, c)
		}
		tell := r.t.limiterOf(r.call.Account.ID)
		tell(limiter.Back{Settles: true, Settle: back, Again: tell})
	}
	close(r.bill.withheld)
}
