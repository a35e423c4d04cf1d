package tree

import (
	"sync"

	"corenode/actors/account"
	"corenode/actors/ledger"
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
	sent     bool
	withheld chan struct{} // nil while the answer may leave; closed when it certainly costs nothing
}

func (b *bill) isWithheld() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.withheld != nil
}

// charge is what the request costs.
func (b *bill) charge() abi.Nano {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.charged
}

// drop says that the settlement takes nothing any more, and returns what it took.
func (b *bill) drop() (was abi.Nano) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, b.charged, b.sent = b.charged, 0, false
	return was
}

// send sends a settlement, free if its answer is withheld. A refund is never sent
// before it: both are sent under the lock, and tell does not wait.
func (b *bill) send(e account.Entry, tell func(account.Entry) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.withheld != nil {
		e = e.Withheld()
	} else {
		b.charged = -e.Amount
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

// withhold takes back what the flight was charged or will be.
func (f *flight) withhold() <-chan struct{} { return f.bill.withhold(f.refund) }

// refund asks the ledger to withdraw the settlement or to write its refund. It is
// called with the bill locked, so what waits for an answer is another goroutine's.
func (f *flight) refund() {
	e := f.entry(account.Adjustment)
	e.Refund, e.Note = true, "the answer was withheld"
	// The error is that of a ledger that ended: then nothing is certain any more.
	_ = f.t.ledger.Tell(ledger.Withhold{Refund: e, Done: f.refunded})
}

// refunded is the ledger's answer to refund.
func (f *flight) refunded(c ledger.Commit) {
	switch {
	case c.Err != nil && !c.Withdrawn && !c.Rejected:
		if f.t.ledger.Alive() { // it failed with the message in hand
			f.t.background.Go(func() {
				f.bill.mu.Lock()
				defer f.bill.mu.Unlock()
				f.refund()
			})
		}
		return
	case c.Withdrawn || c.Rejected: // there is no charge to give back
		f.bill.drop()
	default:
		back := limiter.Settle{RequestID: f.ask.RequestID, Amount: f.bill.drop(), Seq: c.Seq}
		f.t.tellLimiter(f.call.Account.ID, func(lost func()) limiter.Message { back.Lost = lost; return back })
	}
	close(f.bill.withheld)
}
