package kv

import "fmt"

// Table is the memory of one sequence: its page table and its state slot. The
// zero Table is closed. A table belongs to the pool between Open and Close.
type Table struct {
	// Pages covers the positions of the sequence in order. Read only, and
	// valid until the next call with this table.
	Pages []int32
	// State is the slot of the sequence's recurrent state, or NoState.
	State int32
	// Saves are slots for the states after each of the first rows of a step whose
	// last rows may be taken back. Read only, from TakeSaves to KeepSave or Close.
	Saves []int32

	space   *space
	indexed int   // leading pages that are in the tree; the rest is private
	start   int32 // page whose snapshot the sequence will start from, or none
	slot    int   // place in Pool.tables
	matched int   // leading pages that Open found
	unpaid  bool  // between Disown and Pay
}

// IsOpen says whether the table is between Open and Close.
func (t *Table) IsOpen() bool { return t.space != nil }

// Open starts a sequence in a namespace with the longest cached prefix of
// tokens that leaves at least one token to compute, and keeps that prefix from
// eviction. cached is its length, a multiple of PageTokens. branch is 0 or a
// larger multiple up to which pages match while a snapshot is missing: earlier
// sequences went separate ways there, so a snapshot at it is worth taking.
// With tokens nil nothing is looked up.
func (p *Pool) Open(t *Table, namespace string, tokens []int32) (cached, branch int) {
	defer p.check()
	if t.IsOpen() {
		panic("kv: Open of an open table")
	}
	s := p.openSpace(namespace)
	*t = Table{Pages: t.Pages[:0], State: NoState, Saves: t.Saves[:0], space: s, start: none, slot: len(p.tables)}
	p.tables = append(p.tables, t)
	s.tables++
	if tokens == nil {
		return 0, 0
	}
	matched := p.match(t, tokens)
	if p.hybrid {
		branch = len(t.Pages)
		t.Pages = t.Pages[:matched]
	}
	for _, id := range t.Pages {
		p.retain(id)
	}
	t.indexed, t.matched = matched, matched
	if matched == 0 {
		return 0, branch * p.config.PageTokens
	}
	if p.hybrid {
		p.refSnapshot(t)
	}
	if branch == matched {
		branch = 0
	}
	return matched * p.config.PageTokens, branch * p.config.PageTokens
}

// CountHit counts a lookup, and what Open found as a hit. It is for a table right before its sequence first computes: the cache
// saved nothing to one that is refused or leaves before, and what a sequence finds again it saved already.
func (p *Pool) CountHit(t *Table) {
	p.count.Lookups++
	if t.matched == 0 {
		return
	}
	p.count.Hits++
	p.count.HitTokens += int64(t.matched * p.config.PageTokens)
	end := &p.pages[t.Pages[t.matched-1]]
	end.hits++
	end.met = p.now
}

// match collects the matching pages in t, up to the first that is not paid for, and
// returns how many of them can be used: all, or up to the last snapshot that is.
func (p *Pool) match(t *Table, tokens []int32) int {
	size, usable := p.config.PageTokens, 0
	parent, hash := none, p.root(t.space)
	for end := size; end < len(tokens); end += size {
		part := tokens[end-size : end]
		hash = hashTokens(hash, part)
		id := p.find(t.space, parent, hash, part)
		if id == none || !p.pages[id].paid {
			break
		}
		t.Pages = append(t.Pages, id)
		if !p.hybrid || p.pages[id].startable() {
			usable = len(t.Pages)
		}
		parent = id
	}
	return usable
}

// Grow extends the table to cover n positions, evicting what is cached if it
// must, or takes nothing and returns ErrNoPages.
func (p *Pool) Grow(t *Table, n int) error {
	defer p.check()
	if !t.IsOpen() {
		panic("kv: Grow of a closed table")
	}
	need := p.PagesFor(n) - len(t.Pages)
	if need <= 0 {
		return nil
	}
	if need > p.PagesAvailable() {
		return ErrNoPages
	}
	for range need {
		id := p.takePage()
		p.pages[id].refs = 1
		t.Pages = append(t.Pages, id)
	}
	return nil
}

// Index makes the full pages of tokens[:n] findable. tokens are the sequence's
// from position 0 on, and [0, n) must be computed. Those of a table that is not paid
// for are hit by nobody until it is. Where the tree
// has an equal page already, the table takes that one and frees its own: two
// sequences that computed the same prompt side by side share it from here on.
func (p *Pool) Index(t *Table, tokens []int32, n int) {
	defer p.check()
	size := p.config.PageTokens
	for t.indexed < n/size {
		at, parent := t.indexed, none
		if at > 0 {
			parent = t.Pages[at-1]
		}
		part := tokens[at*size : (at+1)*size]
		hash := hashTokens(p.hashAt(t.space, parent), part)
		own := t.Pages[at]
		if equal := p.find(t.space, parent, hash, part); equal != none {
			p.retain(equal)
			t.Pages[at] = equal
			p.freePrivate(own)
		} else {
			p.link(t.space, own, parent, hash, part)
		}
		if !t.unpaid {
			p.pages[t.Pages[at]].paid = true
		}
		t.indexed++
	}
}

func (p *Pool) freePrivate(id int32) {
	n := &p.pages[id]
	if n.refs != 1 || n.space != nil {
		panic(fmt.Sprintf("kv: page %d is not private: %+v", id, *n))
	}
	n.refs = 0
	p.free = append(p.free, id)
}

// Move gives all that a table holds to a closed one, and closes the first.
func (p *Pool) Move(to, from *Table) {
	defer p.check()
	if to.IsOpen() || !from.IsOpen() {
		panic("kv: Move to an open table, or of a closed one")
	}
	*to = *from
	p.tables[to.slot] = to
	*from = Table{State: NoState, start: none}
}

// Disown says of a table, right after Open, that nobody pays for what it computes, until Pay. What only such tables
// bring to the tree is no hit for anyone, and it goes with the last of them: else a request that leaves before it is
// paid for would leave its prompt to the next one at the price of a hit.
func (p *Pool) Disown(t *Table) { t.unpaid = t.IsOpen() }

// Pay says that all that the table computed is paid for, and what it will. Of any other table it does nothing.
func (p *Pool) Pay(t *Table) {
	defer p.check()
	if !t.unpaid {
		return
	}
	t.unpaid = false
	for _, id := range t.Pages[t.matched:t.indexed] {
		n := &p.pages[id]
		n.paid, n.snapshotPaid = true, n.snapshot != none
	}
}

// Close gives back all that the table holds. Pages in the tree stay cached if they are paid for.
// Closing a closed table does nothing.
func (p *Pool) Close(t *Table) {
	defer p.check()
	if !t.IsOpen() {
		return
	}
	p.unrefSnapshot(t)
	p.GiveState(t)
	for i := len(t.Pages) - 1; i >= 0; i-- {
		id := t.Pages[i]
		if i >= t.indexed {
			p.freePrivate(id)
			continue
		}
		n := &p.pages[id]
		if n.refs--; n.refs == 0 {
			p.settle(id)
		}
	}
	last := p.tables[len(p.tables)-1]
	p.tables[t.slot], last.slot = last, t.slot
	p.tables[len(p.tables)-1] = nil
	p.tables = p.tables[:len(p.tables)-1]
	s := t.space
	s.tables--
	p.closeSpace(s)
	*t = Table{Pages: t.Pages[:0], State: NoState, Saves: t.Saves[:0], start: none}
}

// Freed is how many pages would come to be available if these tables were closed:
// those that no other table holds.
func (p *Pool) Freed(tables []*Table) int {
	freed := 0
	for _, t := range tables {
		for _, id := range t.Pages {
			if p.pages[id].refs--; p.pages[id].refs == 0 {
				freed++
			}
		}
	}
	for _, t := range tables {
		for _, id := range t.Pages {
			p.pages[id].refs++
		}
	}
	return freed
}
