package kv

import "slices"

const (
	// guardsMax is the most snapshots that one handle protects: the deepest, and
	// the latest of the places that the sequence named as useful.
	guardsMax = 4
	// pinShare is the part of the pool's pages, and of its snapshots, that all pins
	// together may keep: one in so many. The rest is for sequences that run and for a
	// cache of what is used, whoever uses it.
	pinShare = 2
)

// Handle names one pin. The zero Handle names none. Epoch makes a handle that
// was released, or broken, different from the next one with its ID.
type Handle struct {
	ID    int32
	Epoch uint32
}

// handle is what a Handle refers to; leaf is none when it is free.
type handle struct {
	space  *space
	leaf   int32 // deepest page of the pinned path
	guards [guardsMax]int32
	epoch  uint32
}

// Pin keeps the indexed pages of an open table from eviction beyond Close, for
// a session that will go on from there; in a hybrid pool up to the deepest
// snapshot, which is protected too, as are the latest of those at positions
// keep (ascending). bytesMax bounds what the whole namespace pins: its oldest
// pins end first, and a path that alone exceeds it is pinned in part. So it is
// with the share of the pool that all pins may take, for which the oldest pins end
// of the namespaces that have more than an equal part of it. The zero Handle says
// that nothing could be pinned, as nothing of a table that is not paid for is.
func (p *Pool) Pin(t *Table, keep []int, bytesMax int64) Handle {
	defer p.check()
	depth := p.pinDepth(t, bytesMax)
	if depth == 0 || t.unpaid {
		return Handle{}
	}
	if len(p.freeHandles) == 0 {
		p.count.PinsBroken++
		p.unpin(p.byAge.tail)
	}
	id := pop(&p.freeHandles)
	h := &p.handles[id]
	*h = handle{space: t.space, leaf: t.Pages[depth-1], epoch: h.epoch + 1}
	p.byAge.pushFront(id)
	t.space.handles.pushFront(id)
	if t.space.handles.len == 1 {
		p.pinners++
	}
	for _, page := range t.Pages[:depth] {
		p.pages[page].pins++ // the table holds it, so it is not idle
		if p.pages[page].pins == 1 {
			t.space.pinned++
			p.pinned++
		}
	}
	p.guard(h, t, depth, keep, bytesMax)
	for p.pinnedBytes(t.space) > bytesMax {
		p.count.PinsDisplaced++
		p.unpin(t.space.handles.tail)
	}
	for p.pinned > p.pinnedMax() {
		p.displace(id, p.pinnedMax(), func(s *space) int { return s.pinned })
	}
	for p.guarded > p.guardedMax() {
		p.displace(id, p.guardedMax(), func(s *space) int { return s.guarded })
	}
	return Handle{ID: id, Epoch: h.epoch}
}

// pinnedMax is how many distinct pages all pins may keep, guardedMax how many snapshots.
func (p *Pool) pinnedMax() int  { return max(1, p.config.Pages/pinShare) }
func (p *Pool) guardedMax() int { return max(1, p.snapshotsMax()/pinShare) }

// displace ends the oldest pin of those namespaces that have more than an equal
// part of limit, so that one which pins much displaces its own and not those of
// others; never the pin newest, which alone is within the limit. Where only that
// one's namespace has more, the oldest of all others goes.
func (p *Pool) displace(newest int32, limit int, has func(*space) int) {
	victim := none
	for id := p.byAge.tail; id != newest; id = p.byAge.links[id].prev {
		if has(p.handles[id].space)*p.pinners > limit {
			victim = id
			break
		}
		if victim == none {
			victim = id
		}
	}
	p.count.PinsDisplaced++
	p.unpin(victim)
}

// pinDepth is how many pages of the table can be pinned within bytesMax and the
// share of the pool.
func (p *Pool) pinDepth(t *Table, bytesMax int64) int {
	depth := min(t.indexed, p.pinnedMax())
	if !p.hybrid {
		return int(min(int64(depth), bytesMax/p.config.PageBytes))
	}
	for ; depth > 0; depth-- {
		if p.pages[t.Pages[depth-1]].startable() &&
			int64(depth)*p.config.PageBytes+p.config.StateBytes <= bytesMax {
			break
		}
	}
	return depth
}

// guard fills h.guards: the snapshot at depth, then those at keep from the
// last one back, while the path stays within bytesMax.
func (p *Pool) guard(h *handle, t *Table, depth int, keep []int, bytesMax int64) {
	n := 0
	add := func(at int) {
		id := t.Pages[at-1]
		bytes := int64(depth)*p.config.PageBytes + int64(n+1)*p.config.StateBytes
		if !p.pages[id].startable() || slices.Contains(h.guards[:n], id) || bytes > bytesMax {
			return
		}
		h.guards[n] = id
		n++
		if g := &p.pages[id]; g.snapRefs+g.snapPins == 0 {
			p.unguarded.remove(id)
		}
		p.pages[id].snapPins++
		if p.pages[id].snapPins == 1 {
			t.space.guarded++
			p.guarded++
		}
	}
	if p.hybrid {
		add(depth)
		for i := len(keep) - 1; i >= 0 && n < min(guardsMax, p.guardedMax()); i-- {
			if at := keep[i] / p.config.PageTokens; at >= 1 && at <= depth {
				add(at)
			}
		}
	}
	for ; n < guardsMax; n++ {
		h.guards[n] = none
	}
}

func (p *Pool) pinnedBytes(s *space) int64 {
	return int64(s.pinned)*p.config.PageBytes + int64(s.guarded)*p.config.StateBytes
}

// Unpin ends a pin. A handle that is stale, because it was released already or
// its pin had to give way, changes nothing, is counted and gives false.
func (p *Pool) Unpin(h Handle) bool {
	defer p.check()
	if h == (Handle{}) {
		return false
	}
	if !p.Pinned(h) {
		p.count.StaleHandles++
		return false
	}
	p.unpin(h.ID)
	return true
}

// Pinned says whether the handle's pin still stands.
func (p *Pool) Pinned(h Handle) bool {
	return h.ID >= 0 && int(h.ID) < len(p.handles) &&
		p.handles[h.ID].space != nil && p.handles[h.ID].epoch == h.Epoch
}

func (p *Pool) unpin(id int32) {
	h := &p.handles[id]
	s := h.space
	for _, g := range h.guards {
		if g == none {
			continue
		}
		p.pages[g].snapPins--
		if p.pages[g].snapPins == 0 {
			s.guarded--
			p.guarded--
			p.unguard(g)
		}
	}
	s.tables++ // keeps the namespace while its pages may go
	for at := h.leaf; at != none; {
		n := &p.pages[at]
		parent := n.parent
		n.pins--
		if n.pins == 0 {
			s.pinned--
			p.pinned--
			if n.refs == 0 {
				p.idlePinned--
				p.settle(at)
			}
		}
		at = parent
	}
	p.byAge.remove(id)
	s.handles.remove(id)
	if s.handles.len == 0 {
		p.pinners--
	}
	p.freeHandles = append(p.freeHandles, id)
	h.space = nil
	s.tables--
	p.closeSpace(s)
}

// breakPin ends the oldest pin that is useful to end, if there is one.
func (p *Pool) breakPin(useful func(*handle) bool) bool {
	for id := p.byAge.tail; id != none; id = p.byAge.links[id].prev {
		if useful(&p.handles[id]) {
			p.count.PinsBroken++
			p.unpin(id)
			return true
		}
	}
	return false
}

// frees: its deepest page is idle, so evictable once its pins are gone.
func (p *Pool) frees(h *handle) bool { return p.pages[h.leaf].refs == 0 }

// unguards: it protects a snapshot that no table is about to start from.
func (p *Pool) unguards(h *handle) bool {
	for _, g := range h.guards {
		if g != none && p.pages[g].snapRefs == 0 {
			return true
		}
	}
	return false
}
