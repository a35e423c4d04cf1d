package kv

import (
	"fmt"
	"slices"
)

// Kept is one page of the prefix cache, as it is kept beyond the life of its pool.
type Kept struct {
	Namespace string
	// Parent is the place in the list of the page before it, -1 for the first of its
	// namespace. It is smaller than the page's own place.
	Parent int
	Page   int32
	// Tokens are those of the page. They are the pool's, and valid until its next call.
	Tokens []int32
	// State is the slot of the snapshot at its end, or NoState.
	State int32
	Hits  uint32 // sequences that went on from its end
	Met   int64  // when the latest of them began, in Unix seconds
}

// keeping is a list of pages under construction.
type keeping struct {
	pool *Pool
	left int64   // bytes
	at   []int32 // place of each page in the list, or none
	list []Kept
}

// Keep lists what of the prefix cache is worth most, as far as bytesMax goes: what pins
// protect, the newest pin first, then what was used last, as it is evicted last. In a
// hybrid pool every page listed has a listed snapshot at or below it: the others could
// not be hit.
func (p *Pool) Keep(bytesMax int64) []Kept {
	k := &keeping{pool: p, left: bytesMax, at: make([]int32, len(p.pages))}
	for i := range k.at {
		k.at[i] = none
	}
	for id := p.byAge.head; id != none; id = p.byAge.links[id].next {
		h := &p.handles[id]
		if !p.hybrid {
			k.path(h.leaf)
			continue
		}
		for _, g := range h.guards {
			if g != none {
				k.path(g)
			}
		}
	}
	order := &p.idle
	if p.hybrid {
		order = &p.unguarded
	}
	for id := order.head; id != none; id = order.links[id].next {
		if !p.hybrid || p.pages[id].snapshotPaid {
			k.path(id)
		}
	}
	return k.list
}

// path lists the pages up to id that are not listed yet. Those of a hybrid pool are
// listed with the snapshot at id or not at all, others as far as the bytes go.
func (k *keeping) path(id int32) {
	p := k.pool
	var missing []int32
	for at := id; at != none && k.at[at] == none; at = p.pages[at].parent {
		missing = append(missing, at)
	}
	slices.Reverse(missing)
	need := int64(len(missing)) * p.config.PageBytes
	if p.hybrid {
		if need += p.config.StateBytes; need > k.left {
			return
		}
	}
	for _, at := range missing {
		if k.left < p.config.PageBytes {
			return
		}
		n, parent := &p.pages[at], none
		if n.parent != none {
			parent = k.at[n.parent]
		}
		k.left -= p.config.PageBytes
		k.at[at] = int32(len(k.list))
		k.list = append(k.list, Kept{Namespace: n.space.name, Parent: int(parent), Page: at, Tokens: p.content(at), State: NoState,
			Hits: n.hits, Met: n.met})
	}
	if own := &k.list[k.at[id]]; p.hybrid && own.State == NoState {
		own.State = p.pages[id].snapshot
		k.left -= p.config.StateBytes
	}
}

// Refill puts what was kept into a pool that holds nothing yet. Between NewRefill and Done
// no other call is made.
type Refill struct {
	pool  *Pool
	pages []int32 // of the entries so far; none for those that were left out
	slots int64
}

// NewRefill begins. The pool must be as New made it.
func (p *Pool) NewRefill() *Refill {
	if len(p.free) != p.config.Pages || len(p.tables) > 0 {
		panic(fmt.Sprintf("kv: refill of a pool with %d of %d pages free", len(p.free), p.config.Pages))
	}
	return &Refill{pool: p}
}

// Put puts the next entry back, of which Page means nothing and State only whether there is
// a snapshot. It returns the page that the entry's bytes belong in, and the slot of the
// snapshot's, or NoState where there is none or no room for it. false says that the entry
// is left out: there is no room, its parent was left out, or there is an equal page.
func (r *Refill) Put(k Kept) (page, slot int32, ok bool) {
	p := r.pool
	r.pages = append(r.pages, none)
	parent := none
	if k.Parent >= 0 {
		if k.Parent >= len(r.pages)-1 {
			panic(fmt.Sprintf("kv: entry %d has parent %d", len(r.pages)-1, k.Parent))
		}
		if parent = r.pages[k.Parent]; parent == none {
			return none, NoState, false
		}
	}
	if len(p.free) == 0 || len(k.Tokens) != p.config.PageTokens {
		return none, NoState, false
	}
	s := p.openSpace(k.Namespace)
	hash := hashTokens(p.hashAt(s, parent), k.Tokens)
	if parent != none && p.pages[parent].space != s || p.find(s, parent, hash, k.Tokens) != none {
		p.closeSpace(s)
		return none, NoState, false
	}
	id := p.takePage()
	p.link(s, id, parent, hash, k.Tokens)
	n := &p.pages[id]
	n.paid, n.hits, n.met = true, k.Hits, k.Met
	p.idle.pushBack(id)
	r.pages[len(r.pages)-1] = id
	if !p.hybrid || k.State == NoState {
		return id, NoState, true
	}
	switch { // never in another one's place: those before it are worth more
	case p.onDevice.len < p.config.SnapshotsMax && len(p.freeStates) > 0:
		n.snapshot = pop(&p.freeStates)
		p.onDevice.pushBack(id)
	case len(p.freeHost) > 0:
		n.snapshot = pop(&p.freeHost)
		p.hostSnapshots++
	default:
		return id, NoState, true
	}
	n.snapshotPaid = true
	p.snapshots++
	r.slots++
	n.used = -r.slots // before all of this pool's own, in the order of the list
	p.unguarded.pushBack(id)
	return id, n.snapshot, true
}

// Done ends the refill and frees pages that no hit can reach.
func (r *Refill) Done() {
	p := r.pool
	for i := len(r.pages) - 1; i >= 0; i-- { // children before parents
		if id := r.pages[i]; id != none && p.dead(&p.pages[id]) {
			p.unlink(id)
			p.free = append(p.free, id)
		}
	}
	p.check()
}
