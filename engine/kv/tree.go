package kv

import (
	"fmt"
	"math/bits"
	"slices"
)

// hashTokens chains the tokens of one page onto the hash of those before it.
// It is not collision free, and need not be: find compares tokens.
func hashTokens(h uint64, tokens []int32) uint64 {
	for i := 0; i+1 < len(tokens); i += 2 {
		pair := uint64(uint32(tokens[i]))<<32 | uint64(uint32(tokens[i+1]))
		hi, lo := bits.Mul64(h^pair^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93^bits.RotateLeft64(h, 29))
		h = hi ^ lo ^ bits.RotateLeft64(pair, 17)
	}
	return h
}

// root is the hash before a namespace's first token.
func (p *Pool) root(s *space) uint64 {
	return hashTokens(p.config.Seed, []int32{int32(s.id >> 32), int32(s.id)})
}

// content is the tokens of a page in the tree.
func (p *Pool) content(id int32) []int32 {
	n := p.config.PageTokens
	return p.tokens[int(id)*n : int(id)*n+n]
}

// hashAt is the chained hash up to the end of page id; of the root for none.
func (p *Pool) hashAt(s *space, id int32) uint64 {
	if id == none {
		return p.root(s)
	}
	return p.pages[id].hash
}

// find returns the child of parent that holds tokens, or none.
func (p *Pool) find(s *space, parent int32, hash uint64, tokens []int32) int32 {
	id, ok := p.index[hash]
	if !ok {
		return none
	}
	for ; id != none; id = p.pages[id].sameHash {
		n := &p.pages[id]
		if n.space == s && n.parent == parent && slices.Equal(p.content(id), tokens) {
			return id
		}
	}
	return none
}

// link makes page id the child of parent that holds tokens.
func (p *Pool) link(s *space, id, parent int32, hash uint64, tokens []int32) {
	n := &p.pages[id]
	n.space, n.parent, n.hash, n.sameHash, n.depth = s, parent, hash, none, 0
	if first, ok := p.index[hash]; ok {
		n.sameHash = first
	}
	p.index[hash] = id
	if parent != none {
		p.pages[parent].children++
		n.depth = p.pages[parent].depth + 1
	}
	n.hits, n.met = 0, p.now
	copy(p.content(id), tokens)
	s.pages++
}

// unlink takes a leaf out of the tree and of every list, with its snapshot.
// The caller owns the page afterwards.
func (p *Pool) unlink(id int32) {
	n := &p.pages[id]
	if n.children != 0 || n.pins != 0 || n.refs != 0 || n.snapRefs != 0 || n.snapPins != 0 {
		panic(fmt.Sprintf("kv: page %d is in use and cannot leave the tree: %+v", id, *n))
	}
	if p.idle.has(id) {
		p.idle.remove(id)
	}
	if n.snapshot != none {
		p.forget(id)
	}
	if p.index[n.hash] == id {
		if n.sameHash == none {
			delete(p.index, n.hash)
		} else {
			p.index[n.hash] = n.sameHash
		}
	} else {
		before := p.index[n.hash]
		for p.pages[before].sameHash != id {
			before = p.pages[before].sameHash
		}
		p.pages[before].sameHash = n.sameHash
	}
	if n.parent != none {
		p.pages[n.parent].children--
	}
	s := n.space
	*n = page{parent: none, sameHash: none, snapshot: none}
	s.pages--
	p.closeSpace(s)
}

// drop frees an idle leaf, and in a hybrid pool those above it that became
// unreachable with it.
func (p *Pool) drop(id int32) {
	for {
		parent := p.pages[id].parent
		p.unlink(id)
		p.free = append(p.free, id)
		if parent == none {
			return
		}
		n := &p.pages[parent]
		if n.refs > 0 || n.pins > 0 || !p.dead(n) {
			return
		}
		id = parent
	}
}

func (p *Pool) openSpace(name string) *space {
	s := p.spaces[name]
	if s == nil {
		p.spaceNext++
		s = &space{name: name, id: p.spaceNext, handles: newList(p.handleLinks)}
		p.spaces[name] = s
	}
	return s
}

// closeSpace forgets a namespace that nothing is left of, so that their
// number is bounded by pages and open tables.
func (p *Pool) closeSpace(s *space) {
	if s.pages == 0 && s.tables == 0 && s.handles.len == 0 {
		delete(p.spaces, s.name)
	}
}
