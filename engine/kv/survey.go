package kv

import (
	"cmp"
	"slices"
)

// Prefix is one prefix of the cache: from a namespace's first token to the end of a page that
// sequences went on from, or that none follows.
type Prefix struct {
	Namespace string
	ID        uint64 // of its tokens, in this pool alone
	Tokens    int
	Hits      uint32 // sequences that went on from exactly here
	Met       int64  // when the latest of them began, or its last page was computed; Unix seconds
	Running   int32  // open tables that hold it
	Pins      int32  // pins that keep it
	Snapshot  bool   // a recurrent state is kept at its end
}

// Saved is how many tokens its hits did not compute.
func (p Prefix) Saved() int64 { return int64(p.Tokens) * int64(p.Hits) }

// Space is what one namespace has in the cache.
type Space struct {
	Namespace string
	Pages     int // in the cache
	Pinned    int // of them, by pins
	Pins      int
	Guarded   int   // snapshots that pins protect
	Running   int   // open tables
	Evicted   int64 // pages that gave way, since it last had none
}

// Survey collects the prefixes of most worth. Its pool may change between two calls of Look: then
// it shows each part as it was when it was looked at.
type Survey struct {
	Match    func(namespace string) bool // nil takes all
	Max      int                         // prefixes and namespaces, each
	Prefixes []Prefix                    // by saved tokens, then by length, descending
	Spaces   []Space                     // by pages, descending
	next     int
}

// Look looks at up to pagesMax pages more and says whether there are others. It takes some
// nanoseconds for each; the first call also looks at all namespaces.
func (p *Pool) Look(s *Survey, pagesMax int) (more bool) {
	if s.next == 0 {
		for _, sp := range p.spaces {
			if s.Match == nil || s.Match(sp.name) {
				s.Spaces = insert(s.Spaces, Space{sp.name, sp.pages, sp.pinned, sp.handles.len, sp.guarded, sp.tables, sp.evicted}, s.Max,
					func(a, b Space) int {
						return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Namespace, b.Namespace))
					})
			}
		}
	}
	end := min(len(p.pages), s.next+pagesMax)
	for ; s.next < end; s.next++ {
		n := &p.pages[s.next]
		if n.space == nil || n.hits == 0 && n.children > 0 || s.Match != nil && !s.Match(n.space.name) {
			continue
		}
		s.Prefixes = insert(s.Prefixes, Prefix{Namespace: n.space.name, ID: n.hash, Tokens: int(n.depth+1) * p.config.PageTokens,
			Hits: n.hits, Met: n.met, Running: n.refs, Pins: n.pins, Snapshot: n.snapshot != none}, s.Max, worth)
	}
	return s.next < len(p.pages)
}

// worth orders prefixes, the one of most worth first.
func worth(a, b Prefix) int {
	return cmp.Or(cmp.Compare(b.Saved(), a.Saved()), cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(b.Met, a.Met), cmp.Compare(a.ID, b.ID))
}

// insert puts one into a list in order, which keeps the first limit of them.
func insert[T any](list []T, one T, limit int, order func(a, b T) int) []T {
	if limit < 1 || len(list) == limit && order(one, list[limit-1]) >= 0 {
		return list
	}
	at, _ := slices.BinarySearchFunc(list, one, order)
	if len(list) == limit {
		list = list[:limit-1]
	}
	return slices.Insert(list, at, one)
}

// Paths hands the tokens of the cached prefixes of a namespace that are depth+1 pages long to
// yield, until it returns true. It looks at no more than pagesMax pages of the pool, and at
// triesMax prefixes. The tokens are valid during the call.
func (p *Pool) Paths(namespace string, depth, pagesMax, triesMax int, yield func(tokens []int32) bool) {
	s := p.spaces[namespace]
	if s == nil {
		return
	}
	tokens := make([]int32, (depth+1)*p.config.PageTokens)
	for i := 0; i < min(len(p.pages), pagesMax) && triesMax > 0; i++ {
		if n := &p.pages[i]; n.space != s || int(n.depth) != depth {
			continue
		}
		triesMax--
		at := int32(i)
		for d := depth; d >= 0; d-- {
			copy(tokens[d*p.config.PageTokens:], p.content(at))
			at = p.pages[at].parent
		}
		if yield(tokens) {
			return
		}
	}
}

// Chain continues a hash over further tokens, as pages are found by one. Hashes of equal tokens
// from the same start are equal; those of others hardly ever.
func Chain(hash uint64, tokens []int32) uint64 {
	if len(tokens)%2 == 1 {
		tokens = append(slices.Clip(tokens), -1) // they are taken in pairs
	}
	return hashTokens(hash, tokens)
}
