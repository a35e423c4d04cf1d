package tree

import (
	"errors"
	"fmt"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/actors/limit"
	"corenode/actors/system"
	"corenode/engine"
	"corenode/extensions"
	"corenode/wasm/abi"
)

// billed says what of a result is paid for. checkpoint is the last observed usage, or zero.
//
// A finished or canceled request pays what the engine counted, and so does a
// stream that a drain ended. When the engine failed, a stream pays its input and
// the output of the last checkpoint, or what this node counted of another server's
// answer; a request whose client has received nothing pays nothing.
func billed(r engine.Result, stream bool, checkpoint abi.Usage) (abi.Usage, account.Reason) {
	u := r.Usage
	switch {
	case r.Err == nil:
		return u, account.Finished
	case r.Err.Kind == abi.Canceled || r.Err.Kind == abi.Timeout:
		return u, account.Canceled
	case !stream:
		return abi.Usage{}, account.Failed
	case errors.Is(r.Err, errStopping):
		return u, account.Canceled
	case r.Source.Usage != engine.UsageOwn: // the engine failed elsewhere, and the count of what it delivered is here
		return u, account.Failed
	}
	u.Output = min(u.Output, checkpoint.Output)
	u.Reasoning = min(u.Reasoning, u.Output)
	return u, account.Failed
}

// settle bills the request once its job has ended and sends the settlement to the
// ledger. The first caller does it; it returns when the row is on its way.
func (r *request) settle() {
	if !r.settling.CompareAndSwap(false, true) {
		return
	}
	<-r.done
	var checkpoint abi.Usage
	if c := r.checkpoint.Load(); c != nil {
		checkpoint = *c
	}
	u, reason := billed(r.result, r.call.Request.Stream, checkpoint)
	if reason == account.Finished && r.givenUp.Load() { // between the last token and this
		reason = account.Canceled
	}
	if r.bill.isWithheld() || r.phase.Load() != accepted { // nothing has left, nor will it: as when the engine failed
		u, reason = abi.Usage{}, account.Failed
	}
	source := r.result.Source
	r.settled = account.Settled{Usage: u, Reason: reason, Attempts: source.Attempts,
		Source:  account.Source{Replica: source.Replica, RequestID: source.RequestID, Usage: source.Usage.String()},
		Billing: r.billing, Quote: r.quoteTook, Verdict: r.verdictTook, Session: [16]byte(r.key[:16]), Attempted: r.result.Attempts,
		Done:      *r.doneAt.Load(),
		Admission: r.admitted.Sub(r.began), Queue: r.result.Queue, Prefill: r.result.Prefill, Decode: r.result.Decode}
	if r.peer() {
		r.settlePeer(u)
		return
	}
	fate := r.hold.fate()
	if fate == holdRefused || fate == holdFailed { // free: not one byte of output has left
		r.settled.Usage = abi.Usage{}
		if reason == account.Finished { // nor may it, although all of it is there
			r.settleErr = errNoHold()
		}
	}
	if fate == holdRefused { // the store never heard of it
		r.settlementCommitted(ledger.Commit{})
		return
	}
	e := r.entry(account.Settlement)
	e.Reason = reason
	e.Source = r.settled.Source
	if fate != holdFailed { // else the row only closes what may be open
		e.Usage = u
		r.charge(&e)
	}
	r.annotate(&e, r.taken())
	r.settled.Charge = -e.Amount
	r.commit(e)
}

// commit sends the settlement row, a free one if the answer was withheld meanwhile. The
// ledger does not refuse it. It answers with an error if it failed or ended with the
// message in hand, or if the store rejects the row: then nothing is charged.
func (r *request) commit(e account.Entry) {
	done := func(c ledger.Commit) {
		if c.Rejected {
			r.bill.drop()
		} else if c.Err != nil && r.t.ledger.Alive() {
			r.t.background.Go(func() { r.commit(e) })
			return
		}
		r.settlementCommitted(c)
	}
	err := r.bill.send(e, func(e account.Entry) error { return r.t.ledger.Tell(ledger.Append{Entry: e, Done: done}) })
	if err != nil {
		r.settlementCommitted(ledger.Commit{Err: system.LedgerUnavailable("tree.settle", err)})
	}
}

// settlementCommitted ends the request: its settlement is durable, or there is none.
func (r *request) settlementCommitted(c ledger.Commit) {
	if r.t.clustered() {
		r.endClustered(c)
	} else {
		amount, taken, at := r.bill.charge()
		r.giveBack(r.taken(), limit.Settle{Amount: -amount, Counters: taken, At: at, Seq: c.Seq})
	}
	if c.Err != nil {
		r.settleErr = c.Err
	}
	if r.hold.fate() == holdDurable { // of an answer without streaming it was not when the job ended
		r.settled.Hold = r.hold.took()
	}
	r.t.requests.remove(r)
	close(r.settledCh)
}

// charge prices the usage of e by the quote of its request. When billing fails
// the request is charged the upper bound for its tokens, else its hold,
// provisionally: never free by accident.
func (r *request) charge(e *account.Entry) {
	if e.Usage == (abi.Usage{}) {
		return
	}
	began := time.Now()
	c, err := r.price(e.Usage)
	r.settled.Price = time.Since(began)
	if err != nil {
		r.t.log.Error("billing failed", "request", r.call.RequestID, "err", err)
		c = extensions.Charge{Amount: r.reservation.Hold, Counters: abi.Settled(r.reservation.Counters, e.Usage), Provisional: true}
		in := abi.QuoteInput{Input: e.Usage.Input(), OutputMax: e.Usage.Output, At: r.beganAt().Unix(), Model: e.Model,
			Account: e.AccountID}
		if q, err := r.t.quote(e.RequestID, in); err == nil {
			c.Amount = q.Bounds().Upper
			q.Close()
		}
	}
	if c.Provisional {
		r.t.counters.Provisional.Add(1)
	}
	e.Amount, e.Tier, e.Provisional = -c.Amount, c.Tier, c.Provisional
	e.ModuleDigest, e.InputHash, e.ChargeInput, e.Counters = c.ModuleDigest, c.InputHash, c.Input, c.Counters
}

// price asks Billing; its panic is an error like any other.
func (r *request) price(u abi.Usage) (c extensions.Charge, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("billing panicked: %v", p)
		}
	}()
	c, err = r.quote.Charge(u, r.reservation.Counters)
	if err == nil && c.Amount < 0 {
		err = fmt.Errorf("billing returned a negative charge of %d", c.Amount)
	}
	return c, err
}

// quote asks Billing for an offer whose bounds make sense.
func (t *Tree) quote(requestID string, in abi.QuoteInput) (q Quote, err error) {
	defer func() {
		if r := recover(); r != nil {
			q, err = nil, fmt.Errorf("billing panicked: %v", r)
		}
	}()
	if q, err = t.deps.Billing.Quote(requestID, in); err != nil {
		return nil, err
	}
	if b := q.Bounds(); b.Minimum < 0 || b.Upper < b.Minimum || b.CoveredMinimum < 0 || b.CoveredUpper < b.CoveredMinimum {
		q.Close()
		return nil, fmt.Errorf("billing quoted from %d to %d, covered from %d to %d", b.Minimum, b.Upper, b.CoveredMinimum, b.CoveredUpper)
	}
	return q, nil
}
