package kv

import (
	"fmt"
	"slices"
)

// Check verifies every invariant of the package comment from scratch and
// returns the first that does not hold. It takes time in the size of the pool: it is
// for tests, and for builds with the tag invariants, after each call that changes the pool.
func (p *Pool) Check() error {
	for _, check := range []func() error{
		p.checkRefs, p.checkPages, p.checkTree, p.checkOrder, p.checkStates, p.checkSpaces,
	} {
		if err := check(); err != nil {
			return fmt.Errorf("kv: %w", err)
		}
	}
	return nil
}

// checkRefs recounts refs from tables, pins from handles.
func (p *Pool) checkRefs() error {
	refs, pins := make([]int32, len(p.pages)), make([]int32, len(p.pages))
	snapRefs, guards := make([]int32, len(p.pages)), make([]int32, len(p.pages))
	for i, t := range p.tables {
		if t.slot != i || t.space == nil || t.indexed > len(t.Pages) {
			return fmt.Errorf("table %d has slot %d, %d of %d pages indexed", i, t.slot, t.indexed, len(t.Pages))
		}
		parent := none
		for k, id := range t.Pages {
			refs[id]++
			n := &p.pages[id]
			if indexed := k < t.indexed; indexed != (n.space != nil) || indexed && (n.parent != parent || n.space != t.space) {
				return fmt.Errorf("table %d: page %d at %d is not on its path: %+v", i, id, k, *n)
			}
			parent = id
		}
		if t.start != none {
			snapRefs[t.start]++
		}
	}
	for i := range p.handles {
		h := &p.handles[i]
		if (h.space != nil) != p.byAge.has(int32(i)) {
			return fmt.Errorf("handle %d: in use and in the list of ages differ", i)
		}
		if h.space == nil {
			continue
		}
		for at := h.leaf; at != none; at = p.pages[at].parent {
			pins[at]++
		}
		for _, g := range h.guards {
			if g != none {
				guards[g]++
			}
		}
	}
	referenced := 0
	for i := range p.pages {
		n := &p.pages[i]
		if n.refs != refs[i] || n.pins != pins[i] || n.snapRefs != snapRefs[i] || n.snapPins != guards[i] {
			return fmt.Errorf("page %d has owners %d, pins %d, snapshot references %d, guards %d, but says %+v",
				i, refs[i], pins[i], snapRefs[i], guards[i], *n)
		}
		if snapRefs[i] > 0 {
			referenced++
		}
	}
	if referenced != p.refSnapshots {
		return fmt.Errorf("%d snapshots are referenced, counted %d", referenced, p.refSnapshots)
	}
	return nil
}

// checkPages verifies that each page is in exactly one state.
func (p *Pool) checkPages() error {
	free := make([]bool, len(p.pages))
	for _, id := range p.free {
		if free[id] {
			return fmt.Errorf("page %d is free twice", id)
		}
		free[id] = true
	}
	idlePinned := 0
	for i := range p.pages {
		n, id := &p.pages[i], int32(i)
		inTree := n.space != nil
		owned, idle := n.refs > 0, p.idle.has(id)
		pinned := inTree && n.refs == 0 && n.pins > 0
		states := 0
		for _, in := range []bool{free[i], owned, idle, pinned} {
			if in {
				states++
			}
		}
		switch {
		case states != 1:
			return fmt.Errorf("page %d: free %v, owned %v, cached %v, cached and pinned %v: %+v", i, free[i], owned, idle, pinned, *n)
		case idle && !inTree, free[i] && inTree:
			return fmt.Errorf("page %d: cached %v, free %v, but in the tree %v", i, idle, free[i], inTree)
		case !inTree && n.refs > 1:
			return fmt.Errorf("page %d is shared by %d but not in the tree", i, n.refs)
		case inTree && p.dead(n) && n.refs == 0:
			return fmt.Errorf("page %d can never be hit but is kept: %+v", i, *n)
		}
		if pinned {
			idlePinned++
		}
	}
	if idlePinned != p.idlePinned {
		return fmt.Errorf("%d idle pages are pinned, counted %d", idlePinned, p.idlePinned)
	}
	return nil
}

// checkTree verifies links between pages and that every node can be found.
func (p *Pool) checkTree() error {
	children, nodes := make([]int32, len(p.pages)), 0
	for i := range p.pages {
		n, id := &p.pages[i], int32(i)
		if n.space == nil {
			continue
		}
		nodes++
		hash := hashTokens(p.hashAt(n.space, n.parent), p.content(id))
		if n.hash != hash || p.find(n.space, n.parent, hash, p.content(id)) != id {
			return fmt.Errorf("page %d is not found by its tokens", i)
		}
		depth := int32(0)
		if n.parent != none {
			up := &p.pages[n.parent]
			children[n.parent]++
			depth = up.depth + 1
			if up.space != n.space || up.refs < n.refs && up.refs == 0 || up.pins < n.pins || n.paid && !up.paid {
				return fmt.Errorf("page %d %+v has parent %d %+v", i, *n, n.parent, *up)
			}
		}
		if n.depth != depth {
			return fmt.Errorf("page %d says depth %d, is at %d", i, n.depth, depth)
		}
	}
	for i := range p.pages {
		if p.pages[i].space != nil && p.pages[i].children != children[i] {
			return fmt.Errorf("page %d has %d children, counted %d", i, children[i], p.pages[i].children)
		}
	}
	indexed := 0
	for _, id := range p.index {
		for ; id != none; id = p.pages[id].sameHash {
			indexed++
		}
	}
	if indexed != nodes {
		return fmt.Errorf("the index holds %d pages, the tree %d", indexed, nodes)
	}
	return nil
}

// checkOrder verifies that every idle page is newer than those below it, so
// that the oldest is a leaf.
func (p *Pool) checkOrder() error {
	rank, at := make([]int, len(p.pages)), 0
	for id := p.idle.head; id != none; id = p.idle.links[id].next {
		rank[id] = at
		at++
	}
	if at != p.idle.len {
		return fmt.Errorf("the idle list has %d pages, counted %d", at, p.idle.len)
	}
	for id := p.idle.head; id != none; id = p.idle.links[id].next {
		up := p.pages[id].parent
		if up != none && p.idle.has(up) && rank[up] > rank[id] {
			return fmt.Errorf("idle page %d is older than its child %d", up, id)
		}
	}
	return nil
}

// checkStates verifies that each slot is in exactly one state.
func (p *Pool) checkStates() error {
	owners := make([]int, p.config.States+p.config.HostStates)
	for _, slot := range slices.Concat(p.freeStates, p.freeHost) {
		owners[slot]++
	}
	for _, t := range p.tables {
		if t.State != NoState {
			owners[t.State]++
			if p.onHost(t.State) {
				return fmt.Errorf("a table runs on slot %d of the host", t.State)
			}
		} else if len(t.Saves) > 0 {
			return fmt.Errorf("a table has %d saves and no state", len(t.Saves))
		}
		for _, slot := range t.Saves {
			owners[slot]++
		}
	}
	snapshots, onHost := 0, 0
	for i := range p.pages {
		n := &p.pages[i]
		if p.onDevice.has(int32(i)) != (n.snapshot != none && !p.onHost(n.snapshot)) {
			return fmt.Errorf("page %d: whether its snapshot is on the device is wrong: %+v", i, *n)
		}
		if n.snapshot == none {
			if p.unguarded.has(int32(i)) || n.snapRefs+n.snapPins > 0 {
				return fmt.Errorf("page %d has no snapshot, yet %+v", i, *n)
			}
			continue
		}
		snapshots++
		if n.snapshotPaid && !n.paid || !n.snapshotPaid && (n.refs == 0 || n.snapRefs+n.snapPins > 0) {
			return fmt.Errorf("page %d: whether its snapshot is paid for is wrong: %+v", i, *n)
		}
		if p.onHost(n.snapshot) {
			onHost++
		}
		owners[n.snapshot]++
		if p.unguarded.has(int32(i)) != (n.snapRefs+n.snapPins == 0) {
			return fmt.Errorf("page %d: the snapshot's place in the list is wrong: %+v", i, *n)
		}
	}
	last := p.clock + 1
	for id := p.unguarded.head; id != none; id = p.unguarded.links[id].next {
		if p.pages[id].used >= last {
			return fmt.Errorf("page %d: the snapshot was used at %d, the one before it in the list at %d", id, p.pages[id].used, last)
		}
		last = p.pages[id].used
	}
	if at := slices.IndexFunc(owners, func(n int) bool { return n != 1 }); at >= 0 {
		return fmt.Errorf("state slot %d has %d owners", at, owners[at])
	}
	if snapshots != p.snapshots || onHost != p.hostSnapshots || snapshots-onHost > p.config.SnapshotsMax {
		return fmt.Errorf("%d snapshots, %d on the host, counted %d and %d, of at most %d on the device",
			snapshots, onHost, p.snapshots, p.hostSnapshots, p.config.SnapshotsMax)
	}
	return nil
}

// checkSpaces recounts what each namespace has.
func (p *Pool) checkSpaces() error {
	type sum struct{ pages, tables, pinned, guarded, handles int }
	got := map[*space]sum{}
	for i := range p.pages {
		if n := &p.pages[i]; n.space != nil {
			s := got[n.space]
			s.pages++
			s.pinned += min(1, int(n.pins))
			s.guarded += min(1, int(n.snapPins))
			got[n.space] = s
		}
	}
	for _, t := range p.tables {
		s := got[t.space]
		s.tables++
		got[t.space] = s
	}
	for _, h := range p.handles {
		if h.space != nil {
			s := got[h.space]
			s.handles++
			got[h.space] = s
		}
	}
	if len(got) != len(p.spaces) {
		return fmt.Errorf("%d namespaces are in use, %d known", len(got), len(p.spaces))
	}
	pinned, guarded, pinners := 0, 0, 0
	for name, s := range p.spaces {
		pinned += s.pinned
		guarded += s.guarded
		pinners += min(1, s.handles.len)
		if want := got[s]; want != (sum{s.pages, s.tables, s.pinned, s.guarded, s.handles.len}) {
			return fmt.Errorf("namespace %q holds %+v, counted %+v", name, want, *s)
		}
	}
	if pinned != p.pinned || guarded != p.guarded || pinners != p.pinners {
		return fmt.Errorf("%d namespaces pin %d pages and guard %d snapshots, counted %d, %d and %d",
			pinners, pinned, guarded, p.pinners, p.pinned, p.guarded)
	}
	if pinned > p.pinnedMax() || guarded > p.guardedMax() {
		return fmt.Errorf("pins keep %d pages and %d snapshots, of at most %d and %d", pinned, guarded, p.pinnedMax(), p.guardedMax())
	}
	return nil
}
