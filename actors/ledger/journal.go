package ledger

import (
	"slices"

	"corenode/actors/account"
)

// item is one thing that waits for the store: rows with their answer, or a read.
type item struct {
	entry account.Entry
	done  func(Commit) // nil when nobody waits
	// must marks a settlement: it is tried until it is in the store, or until the
	// store rejects this row alone.
	must bool
	read *Read // instead of an entry
	// hold is the answer of the hold that this settlement replaced, or nil.
	hold func(Commit)
}

// journal is the queue before the store and all the deciding about it: what goes
// into the next transaction and what happens after a failure. It outlives the
// actor's restarts, because a settlement must not be lost while the process lives.
//
// Bound: rows that may be refused are at most rowsMax; settlements are bounded by
// the requests that run, each of which keeps its place until it is settled.
//
// After a failure the entries that may be refused are refused, and settlements
// are tried one at a time until each was tried once: one row that the store
// cannot take does not stop the others. One that the store rejects when it is
// alone is set aside.
type journal struct {
	rowsMax  int // waiting rows that may be refused
	batchMax int // rows in one transaction

	waiting  []item
	optional int    // of waiting, those that may be refused
	inflight []item // being committed now
	seq      uint64 // of the last commit
	failures int    // in a row
	singly   int    // attempts of one row left
}

// add queues an item and says whether there was room. A settlement takes the
// place of its request's hold when that still waits: both would be durable in
// one transaction, and then the hold says nothing.
func (j *journal) add(it item) bool {
	if it.must {
		it.hold = j.withdraw(it.entry.RequestID)
		it.entry.NeverHeld = it.hold != nil // what waits was never in flight: a row that failed is not kept
	} else {
		if j.optional >= j.rowsMax {
			return false
		}
		j.optional++
	}
	j.waiting = append(j.waiting, it)
	return true
}

// withdraw takes a waiting hold out of the queue and returns its answer. The
// hold came lately, so the search from the end is short.
func (j *journal) withdraw(requestID string) func(Commit) {
	for i := len(j.waiting) - 1; i >= 0; i-- {
		it := &j.waiting[i]
		if it.read != nil {
			return nil // a read must see the rows in the order in which they were sent
		}
		if it.entry.Kind == account.Hold && it.entry.RequestID == requestID {
			done := it.done
			j.waiting = slices.Delete(j.waiting, i, i+1)
			j.optional--
			return done
		}
	}
	return nil
}

// take moves the next batch into flight. It returns nothing while one is.
func (j *journal) take() []item {
	if len(j.inflight) > 0 || len(j.waiting) == 0 {
		return nil
	}
	n := min(len(j.waiting), j.batchMax)
	if j.singly > 0 {
		j.singly--
		n = 1
	}
	j.inflight = append(j.inflight, j.waiting[:n]...)
	rest := copy(j.waiting, j.waiting[n:])
	clear(j.waiting[rest:])
	j.waiting = j.waiting[:rest]
	for _, it := range j.inflight {
		if !it.must {
			j.optional--
		}
	}
	return j.inflight
}

// succeed ends the flight and returns what is to be answered.
func (j *journal) succeed() []item {
	done := j.inflight
	j.inflight = nil
	j.failures = 0
	return done
}

// fail ends the flight and returns what is to be refused: everything that may
// be. tried were in the failed transaction, untried waited behind it. Settlements
// go to the back of the queue.
func (j *journal) fail() (tried, untried []item) {
	untried, waiting := split(j.waiting)
	tried, failed := split(j.inflight)
	j.waiting, j.inflight, j.optional = append(waiting, failed...), nil, 0
	j.failures++
	if j.singly == 0 {
		j.singly = len(j.waiting)
	}
	return tried, untried
}

// setAside ends the flight of a settlement that was alone in it, and gives it
// up: the store has rejected this row, and would each time.
func (j *journal) setAside() (it item, alone bool) {
	if len(j.inflight) != 1 || !j.inflight[0].must {
		return item{}, false
	}
	it, j.inflight = j.inflight[0], nil
	j.failures = 0 // the store is well
	return it, true
}

// split parts the items that may be refused from those that must be kept.
func split(items []item) (optional, must []item) {
	for _, it := range items {
		if it.must {
			must = append(must, it)
		} else {
			optional = append(optional, it)
		}
	}
	return optional, must
}
