package route

import (
	"container/list"
	"time"
)

// prefixes are the beginnings of prompts that a replica is thought to have cached: those
// that were sent there, as long as they were used lately. The replica's own evictions are
// not seen, so what is not used for a time is forgotten.
type prefixes struct {
	max   int
	age   time.Duration
	order *list.List // of *prefix, the latest used first
	byKey map[uint64]*list.Element
}

type prefix struct {
	hash uint64
	used time.Time
}

func newPrefixes(max int, age time.Duration) prefixes {
	return prefixes{max: max, age: age, order: list.New(), byKey: map[uint64]*list.Element{}}
}

// thinStep is how many beginnings of a prompt there are for each that thinned keeps.
const thinStep = 8

// thinned are those beginnings of a long prompt that are worth a place: the first ones, the last ones, and of the
// others some, the same of all prompts that begin alike.
func thinned(hashes []uint64, first, last int) []uint64 {
	var kept []uint64
	for i, h := range hashes {
		if i < first || h%thinStep == 0 || i >= len(hashes)-last {
			kept = append(kept, h)
		}
	}
	return kept
}

// longest is how many of the hashes, from the front, are known. Hashes are chained: who
// knows one has had all before it, though they may have been forgotten since.
func (p *prefixes) longest(hashes []uint64, now time.Time) int {
	for n := len(hashes); n > 0; n-- {
		if e, ok := p.byKey[hashes[n-1]]; ok && now.Sub(e.Value.(*prefix).used) < p.age {
			return n
		}
	}
	return 0
}

// add remembers hashes as used now, the longest as the latest.
func (p *prefixes) add(hashes []uint64, now time.Time) {
	for _, h := range hashes {
		if e, ok := p.byKey[h]; ok {
			e.Value.(*prefix).used = now
			p.order.MoveToFront(e)
			continue
		}
		p.byKey[h] = p.order.PushFront(&prefix{h, now})
	}
	for p.order.Len() > p.max {
		oldest := p.order.Back()
		delete(p.byKey, oldest.Value.(*prefix).hash)
		p.order.Remove(oldest)
	}
}

// remove forgets hashes.
func (p *prefixes) remove(hashes []uint64) {
	for _, h := range hashes {
		if e, ok := p.byKey[h]; ok {
			delete(p.byKey, h)
			p.order.Remove(e)
		}
	}
}

func (p *prefixes) clear() {
	p.order.Init()
	clear(p.byKey)
}
