package tree

import (
	"errors"
	"sync/atomic"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// hold is what is known of the row that reserves a request's money. Its fate may be read by anyone.
//
// States: none -> sent -> known, or back to none when the ledger did not take it.
type hold struct {
	sent         atomic.Bool // the row is or was on its way
	began, ended time.Time   // began is written before sent is set, ended before known is
	told         chan error  // what Stream.Held gives out; has room for one
	known        atomic.Bool // err and refused are written
	err          *abi.Error
	refused      bool // the store never saw the row
}

// holdFate is what is known of a hold when its request settles.
type holdFate uint8

const (
	// holdPending: on its way. No output has left a stream yet. A request that does not
	// stream needs no hold: its settlement, which may take the hold's place in the ledger,
	// is durable before its answer.
	holdPending holdFate = iota
	holdDurable
	holdFailed  // the store may have the row or not
	holdRefused // the store never saw it
)

// begin says that the row is on its way, before it is.
func (h *hold) begin() {
	h.began = time.Now()
	h.sent.Store(true)
}

// withdraw says that the ledger did not take the row.
func (h *hold) withdraw() { h.sent.Store(false) }

// committed is the ledger's answer, given once.
func (h *hold) committed(c ledger.Commit) {
	h.err, h.refused, h.ended = c.Err, c.Refused, time.Now()
	h.known.Store(true) // before anyone can settle because of it
	if c.Err != nil {
		h.told <- c.Err
	} else {
		h.told <- nil // a nil *abi.Error would not be a nil error
	}
}

func (h *hold) fate() holdFate {
	switch {
	case !h.sent.Load():
		return holdRefused
	case !h.known.Load():
		return holdPending
	case h.err == nil:
		return holdDurable
	case h.refused:
		return holdRefused
	}
	return holdFailed
}

// took is how long the ledger took for a row whose fate is known.
func (h *hold) took() time.Duration { return h.ended.Sub(h.began) }

// sendHold sends the hold row to the ledger, unless it is there already. The model may have taken the request long after its
// grant covered it: one that has ended covers no hold. Called once, by Generate.
func (r *request) sendHold() *abi.Error {
	if r.reservation.Durable {
		return nil
	}
	if err := r.overdue("tree.sendHold"); err != nil {
		return err
	}
	r.hold.begin()
	e := r.HoldRow()
	e.Held, e.Counters = r.reservation.Hold, r.reservation.Counters
	r.annotate(&e, abi.Usage{})
	if err := r.t.ledger.Send(ledger.Append{Entry: e, Done: r.hold.committed}); err != nil {
		r.hold.withdraw()
		return system.LedgerUnavailable("tree.sendHold", err)
	}
	return nil
}

// HoldRow is the hold row before anything is reserved.
func (r *request) HoldRow() account.Entry {
	e := r.entry(account.Hold)
	e.Time, e.ModuleDigest, e.Provisional = r.beganAt(), r.billing, r.quote.Provisional()
	return e
}

func errNoHold() *abi.Error {
	return system.LedgerUnavailable("tree.settle", errors.New("the request has no hold"))
}
