package ledger

import (
	"slices"

	"corenode/actors/account"
)

// item is one thing that waits for the store: rows with their answer, or a read.
type item struct {
	entry account.Entry
	done  func(Commit) // nil when nobody waits
	// must marks a settlement or a refund: it is tried until it is in the store, or
	// until the store rejects this row alone.
	must bool
	// tried says that a transaction with the row failed: the store may have it or not.
	tried bool
	// read, ask and back stand in the place of an entry.
	read *Read
	ask  *Propose
	back *GiveBack
	// refund is written in the same transaction, behind entry; or nil.
	refund *refund
	// hold is the answer of the hold that this settlement replaced, or nil.
	hold func(Commit)
}

// refund is a row that takes a settlement back, with its answer.
type refund struct {
	entry account.Entry
	done  func(Commit)
}

// journal is the queue before the store and all the deciding about it: what goes
// into the next transaction and what happens after a failure. It outlives the
// actor's restarts, because a settlement must not be lost while the process lives.
//
// Bound: rows that may be refused are at most rowsMax; settlements and refunds are
// bounded by the requests that run, each of which keeps its place until it is settled.
//
// After a failure the entries that may be refused are refused, and settlements
// are tried one at a time until each was tried once: one row that the store
// cannot take does not stop the others. One that the store rejects when it is
// alone is set aside.
type journal struct {
	rowsMax  int // waiting rows that may be refused
	batchMax int // rows in one transaction

	waiting    []item
	optional   int    // of waiting, those that may be refused
	committing []item // being committed now, or being read
	reads      []item // what was taken with rows: the next batch, so that those are answered first
	// late are the refunds of settlements that are being committed now. They follow
	// when it is known what became of those.
	late     []*refund
	owed     []item // what was given back, and the store was not told: it waits for the store
	seq      uint64 // of the last commit
	failures int    // in a row
	singly   int    // attempts of one row left
}

// add queues an item and says whether there was room. A settlement takes the
// place of its request's hold when that still waits: both would be durable in
// one transaction, and then the hold says nothing.
func (j *journal) add(it item) bool {
	if it.must {
		it.hold = j.takeHold(it.entry.RequestID)
		it.entry.NeverHeld = it.hold != nil // what waits was never tried: a row that failed is not kept
	} else {
		if j.optional >= j.rowsMax {
			return false
		}
		j.optional++
	}
	j.waiting = append(j.waiting, it)
	return true
}

// withhold sees to it that a settlement which was queued before charges nothing.
// One that the store was never asked for is made free where it waits: withdrawn.
// Else the refund goes behind it, in one transaction or in the next.
func (j *journal) withhold(r *refund) (withdrawn bool) {
	for i := len(j.waiting) - 1; i >= 0; i-- {
		it := &j.waiting[i]
		if it.entry.Kind != account.Settlement || it.entry.RequestID != r.entry.RequestID {
			continue
		}
		if it.tried {
			it.refund = r
			return false
		}
		it.entry = it.entry.Withheld()
		return true
	}
	for i := range j.committing {
		if it := &j.committing[i]; it.entry.Kind == account.Settlement && it.entry.RequestID == r.entry.RequestID {
			j.late = append(j.late, r)
			return false
		}
	}
	j.waiting = append(j.waiting, r.item())
	return false
}

// item is a refund whose settlement is durable.
func (r *refund) item() item { return item{entry: r.entry, done: r.done, must: true} }

// lateOf takes the late refund of a request, or nil.
func (j *journal) lateOf(requestID string) *refund {
	for i, r := range j.late {
		if r.entry.RequestID == requestID {
			j.late = slices.Delete(j.late, i, i+1)
			return r
		}
	}
	return nil
}

// takeHold takes a waiting hold out of the queue and returns its answer. The
// hold came lately, so the search from the end is short.
func (j *journal) takeHold(requestID string) func(Commit) {
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

// take starts the next batch: of rows, or of the reads that were taken with the rows before. It returns
// nothing while one is being committed.
func (j *journal) take() []item {
	switch {
	case len(j.committing) > 0:
		return nil
	case len(j.reads) > 0:
		j.committing, j.reads = j.reads, nil
		return j.committing
	case len(j.waiting) == 0:
		return nil
	}
	n := min(len(j.waiting), j.batchMax)
	if j.singly > 0 {
		j.singly--
		n = 1
	}
	j.committing = make([]item, 0, n)
	for _, it := range j.waiting[:n] {
		if !it.must {
			j.optional--
		}
		if it.read != nil {
			j.reads = append(j.reads, it)
		} else {
			j.committing = append(j.committing, it)
		}
	}
	rest := copy(j.waiting, j.waiting[n:])
	clear(j.waiting[rest:])
	j.waiting = j.waiting[:rest]
	if len(j.committing) == 0 {
		j.committing, j.reads = j.reads, nil
	}
	return j.committing
}

// succeed ends the commit and returns what is to be answered.
func (j *journal) succeed() []item {
	done := j.committing
	j.committing = nil
	j.failures = 0
	for _, r := range j.late {
		j.waiting = append(j.waiting, r.item())
	}
	j.late = nil
	return done
}

// fail ends the commit and returns what is to be refused: everything that may
// be. tried were in the failed transaction, untried waited behind it. Settlements
// go to the back of the queue, with their refunds.
func (j *journal) fail() (tried, untried []item) {
	untried, waiting := split(j.waiting)
	tried, failed := split(slices.Concat(j.committing, j.reads))
	for i := range failed {
		it := &failed[i]
		it.tried = true
		if r := j.lateOf(it.entry.RequestID); r != nil {
			it.refund = r
		}
	}
	j.waiting, j.committing, j.reads, j.optional = append(waiting, failed...), nil, nil, 0
	j.failures++
	if j.singly == 0 {
		j.singly = len(j.waiting)
	}
	return tried, untried
}

// setAside ends the commit of a settlement that was alone in it, and gives it
// up: the store has rejected this row, and would each time. Its refund has
// nothing to take back.
func (j *journal) setAside() (it item, alone bool) {
	if len(j.committing) != 1 || !j.committing[0].must {
		return item{}, false
	}
	it, j.committing = j.committing[0], nil
	if r := j.lateOf(it.entry.RequestID); r != nil {
		it.refund = r
	}
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
