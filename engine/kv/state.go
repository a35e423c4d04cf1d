package kv

import (
	"fmt"
	"slices"
)

// StateOp is work on state slots for the backend. Ops must be done in the
// order in which they were handed out: a slot may be read by one op and given
// a new owner by the next.
type StateOp struct {
	Dst int32
	// Src is copied to Dst; NoState says that Dst becomes the state before any token.
	Src int32
}

// StatesAvailable is the number of slots that TakeState could hand out now:
// all but those that tables own and snapshots that tables will start from and that
// the host has no slot for.
func (p *Pool) StatesAvailable() int {
	return len(p.freeStates) + p.onDevice.len - max(0, p.refSnapshots-p.config.HostStates)
}

// TakeState gives an open table a slot, evicting snapshots if it must, and
// returns the op that fills it: a copy of the snapshot that Open found, or a
// reset. The reference to that snapshot ends with it. What Moves says comes before it.
func (p *Pool) TakeState(t *Table) (StateOp, error) {
	defer p.check()
	if !t.IsOpen() || t.State != NoState {
		panic("kv: TakeState of a table that is closed or has a state")
	}
	p.mustHaveMoves()
	if t.start != none {
		p.stamp(t.start) // so that others move first
	}
	for len(p.freeStates) == 0 {
		if !p.vacate() {
			return StateOp{}, ErrNoState
		}
	}
	t.State = pop(&p.freeStates)
	op := StateOp{Dst: t.State, Src: NoState}
	if t.start != none {
		op.Src = p.pages[t.start].snapshot
		p.unrefSnapshot(t)
	}
	return op, nil
}

// StatesFree is the number of slots that are nobody's, not even a snapshot's.
func (p *Pool) StatesFree() int { return len(p.freeStates) }

// TakeSaves gives a table with a state n more slots, which must be free: what
// they are for, a step that may be taken back in part, is not worth a snapshot.
func (p *Pool) TakeSaves(t *Table, n int) {
	defer p.check()
	if t.State == NoState || len(t.Saves) > 0 || n > len(p.freeStates) {
		panic(fmt.Sprintf("kv: %d saves for a table with state %d and %d saves, %d slots free",
			n, t.State, len(t.Saves), len(p.freeStates)))
	}
	for range n {
		t.Saves = append(t.Saves, pop(&p.freeStates))
	}
}

// KeepSave ends what TakeSaves began: the sequence goes on from its save i, or,
// with i the number of saves, from the state after the whole step. The slot
// changes hands, nothing is copied; the others are free again.
func (p *Pool) KeepSave(t *Table, i int) {
	defer p.check()
	if i < 0 || i > len(t.Saves) {
		panic(fmt.Sprintf("kv: save %d of %d", i, len(t.Saves)))
	}
	if i < len(t.Saves) {
		t.State, t.Saves[i] = t.Saves[i], t.State
	}
	p.giveSaves(t)
}

// giveSaves frees the saves so that they are taken in the same order again: few
// slots are used, and their memory is not taken anew.
func (p *Pool) giveSaves(t *Table) {
	slices.Reverse(t.Saves)
	p.freeStates = append(p.freeStates, t.Saves...)
	t.Saves = t.Saves[:0]
}

// GiveState takes the slots of a table back; without any it does nothing.
func (p *Pool) GiveState(t *Table) {
	defer p.check()
	if t.State == NoState {
		return
	}
	p.giveSaves(t)
	p.freeStates = append(p.freeStates, t.State)
	t.State = NoState
}

// Snapshot keeps the state of a table after exactly n computed tokens, a
// multiple of PageTokens, and indexes the pages up to there. ok says that op
// must be done, after the step that computed token n-1 and before the next, and before it what Moves says.
// Nothing is to be done if there is a snapshot at n already, or all others are
// what waiting tables will start from. The one used longest ago gives way; a pin
// gives way, too, where nothing else can: nobody comes back to most sessions, and
// a cache that takes nothing new is of no use to anyone.
func (p *Pool) Snapshot(t *Table, tokens []int32, n int) (op StateOp, ok bool) {
	defer p.check()
	if n <= 0 || n%p.config.PageTokens != 0 || t.State == NoState {
		panic(fmt.Sprintf("kv: snapshot at %d of a table with state %d", n, t.State))
	}
	p.mustHaveMoves()
	p.Index(t, tokens, n)
	id := t.Pages[n/p.config.PageTokens-1]
	if end := &p.pages[id]; end.snapshot != none {
		end.snapshotPaid = end.snapshotPaid || !t.unpaid
		p.touch(id)
		return StateOp{}, false
	}
	slot, ok := p.snapshotSlot()
	if !ok {
		p.count.SnapshotsSkipped++
		return StateOp{}, false
	}
	p.place(id, slot)
	p.pages[id].snapshotPaid = !t.unpaid
	p.stamp(id)
	p.unguarded.pushFront(id)
	p.count.SnapshotsTaken++
	return StateOp{Dst: slot, Src: t.State}, true
}

// DropSnapshot forgets the snapshot at n of a table's path, unless someone
// else could be after it: another table on the page, a reference or a pin.
func (p *Pool) DropSnapshot(t *Table, n int) {
	defer p.check()
	at := n/p.config.PageTokens - 1
	if at < 0 || at >= t.indexed {
		return
	}
	id := t.Pages[at]
	if n := &p.pages[id]; n.refs == 1 && n.children <= 1 && p.unguarded.has(id) {
		p.forget(id)
	}
}

// freeSnapshot evicts the unguarded snapshot used longest ago, or ends the oldest
// pins until there is one; false when there are only referenced ones.
func (p *Pool) freeSnapshot() bool {
	for p.unguarded.len == 0 {
		if !p.breakPin(p.unguards) {
			return false
		}
	}
	p.evictSnapshot()
	return true
}

// evictSnapshot frees the unguarded snapshot used longest ago, and the pages
// that only it made reachable. An inner page stays for the snapshots below.
func (p *Pool) evictSnapshot() {
	id := p.unguarded.tail
	p.count.SnapshotsEvicted++
	p.forget(id)
	if n := &p.pages[id]; n.refs == 0 && n.pins == 0 && p.dead(n) {
		p.drop(id)
	}
}

// forget frees the slot of an unguarded snapshot; the page stays.
func (p *Pool) forget(id int32) {
	p.unguarded.remove(id)
	p.unplace(id)
}

// stamp notes that a snapshot is used now.
func (p *Pool) stamp(id int32) {
	p.clock++
	p.pages[id].used = p.clock
	if p.onDevice.has(id) {
		p.onDevice.remove(id)
		p.onDevice.pushFront(id)
	}
}

// touch makes a snapshot the one used last.
func (p *Pool) touch(id int32) {
	p.stamp(id)
	if p.unguarded.has(id) {
		p.unguarded.remove(id)
		p.unguarded.pushFront(id)
	}
}

// refSnapshot keeps the snapshot at the end of a table's pages until TakeState.
func (p *Pool) refSnapshot(t *Table) {
	t.start = t.Pages[len(t.Pages)-1]
	n := &p.pages[t.start]
	if n.snapRefs+n.snapPins == 0 {
		p.unguarded.remove(t.start)
	}
	if n.snapRefs == 0 {
		p.refSnapshots++
	}
	n.snapRefs++
	p.stamp(t.start)
}

func (p *Pool) unrefSnapshot(t *Table) {
	if t.start == none {
		return
	}
	n := &p.pages[t.start]
	n.snapRefs--
	if n.snapRefs == 0 {
		p.refSnapshots--
	}
	p.stamp(t.start)
	p.unguard(t.start)
	t.start = none
}

// unguard lets a snapshot without reference or pin be evicted, in
// the order of use: that of a pin which ended by its age is old, and not to
// outlive those that were used since.
func (p *Pool) unguard(id int32) {
	n := &p.pages[id]
	if n.snapRefs+n.snapPins > 0 {
		return
	}
	if head := p.unguarded.head; head == none || p.pages[head].used < n.used {
		p.unguarded.pushFront(id)
		return
	}
	at := p.unguarded.tail // old ones are unguarded most often
	for p.pages[at].used < n.used {
		at = p.unguarded.links[at].prev
	}
	p.unguarded.insertAfter(id, at)
}
