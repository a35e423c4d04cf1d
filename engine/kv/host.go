package kv

// Snapshots may lie in host memory, too, in slots behind those of the device. Nothing is computed there: a state comes
// back by the copy that begins a sequence. What was used longest ago of the snapshots on the device moves to the
// host when its slot is needed, whether it is referenced, pinned or neither: only where it lies changes. When no slot of
// the host is free either, the snapshot used longest ago of all that may go is evicted, wherever it lies.

// onHost says whether a slot is one of the host's.
func (p *Pool) onHost(slot int32) bool { return int(slot) >= p.config.States }

// snapshotsMax is how many snapshots there may be on the device and on the host.
func (p *Pool) snapshotsMax() int { return p.config.SnapshotsMax + p.config.HostStates }

// Moves appends the copies that make room for what TakeState or Snapshot has just handed out. They are to be done
// right before it.
func (p *Pool) Moves(ops []StateOp) []StateOp {
	ops = append(ops, p.moves...)
	p.moves = p.moves[:0]
	return ops
}

// mustHaveMoves finds a caller that has left moves undone: what follows would be done before them.
func (p *Pool) mustHaveMoves() {
	if len(p.moves) > 0 {
		panic("kv: copies that made room for a state were not taken")
	}
}

// place makes a slot the snapshot of a page.
func (p *Pool) place(id, slot int32) {
	p.pages[id].snapshot = slot
	p.snapshots++
	if p.onHost(slot) {
		p.hostSnapshots++
	} else {
		p.onDevice.pushFront(id)
	}
}

// unplace takes the snapshot of a page away and frees its slot.
func (p *Pool) unplace(id int32) {
	slot := p.pages[id].snapshot
	p.pages[id].snapshot = none
	p.snapshots--
	if p.onHost(slot) {
		p.hostSnapshots--
		p.freeHost = append(p.freeHost, slot)
		return
	}
	p.onDevice.remove(id)
	p.freeStates = append(p.freeStates, slot)
}

// vacate frees a slot of the device that a snapshot has; false where none can go.
func (p *Pool) vacate() bool {
	if p.onDevice.len == 0 {
		return false
	}
	for before := len(p.freeStates); len(p.freeHost) == 0; {
		if !p.freeSnapshot() {
			return false
		}
		if len(p.freeStates) > before { // it was on the device
			return true
		}
	}
	id, to := p.onDevice.tail, pop(&p.freeHost)
	n := &p.pages[id]
	p.moves = append(p.moves, StateOp{Dst: to, Src: n.snapshot})
	p.unplace(id)
	p.place(id, to)
	p.count.SnapshotsMoved++
	return true
}

// snapshotSlot returns a free slot for a snapshot, on the device if it can; ok is false where none can go for it.
func (p *Pool) snapshotSlot() (slot int32, ok bool) {
	for p.onDevice.len >= p.config.SnapshotsMax || len(p.freeStates) == 0 {
		if !p.vacate() {
			return p.hostSlot()
		}
	}
	return pop(&p.freeStates), true
}

// hostSlot is such a slot on the host.
func (p *Pool) hostSlot() (slot int32, ok bool) {
	if p.config.HostStates == 0 {
		return none, false
	}
	for len(p.freeHost) == 0 {
		if !p.freeSnapshot() {
			return none, false
		}
	}
	return pop(&p.freeHost), true
}
