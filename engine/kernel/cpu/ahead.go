package cpu

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"corenode/engine/kernel"
)

// lookahead names the memory that each thread will read first in the product
// that comes next, as far as that is known: while a thread waits it brings it
// to its own cache. Threads may read it while it changes: what they then ask
// for is only not needed.
type lookahead struct {
	fetchLines func(p *byte, lines int)
	begins     []begin // by worker
}

// begin is what a thread reads ahead: lines of 64 bytes of each stream.
type begin struct {
	streams [vecStreams]atomic.Pointer[byte]
	lines   atomic.Int32
}

const (
	aheadBytes = 512 << 10 // that a thread reads ahead; it must fit its cache beside what it works on
	aheadLines = 2         // of each stream in one look: about 0.1 us
)

// fetched is how many lines of each stream a thread has read ahead.
type fetched struct {
	plan  uint32 // which lookahead
	lines int
}

// fetch reads the next lines ahead. It returns false when nothing is left.
func (a *lookahead) fetch(worker int, c *fetched) bool {
	b := &a.begins[worker]
	if c.lines >= int(b.lines.Load()) {
		return false
	}
	for i := range b.streams {
		a.fetchLines(skip(b.streams[i].Load(), 64*c.lines), aheadLines)
	}
	c.lines += aheadLines
	return true
}

// place is one matrix of a product.
type place struct {
	w      *weight
	expert int
}

// habit is what the product with some weights was followed by when it was
// last computed: the steps of a model are all alike.
type habit struct {
	next  []kernel.Weight
	ahead *lookahead
}

// looksAhead says whether threads can read ahead at all.
func (b *Backend) looksAhead() bool { return b.ops.fetchLines != nil && b.pool.workers > 0 }

// expect tells the pool what follows the product of n rows with ws, and
// learns that this product followed the last one. Only products of few rows
// wait for memory.
func (b *Backend) expect(ws []kernel.Weight, n int) {
	if !b.looksAhead() {
		return
	}
	if n > tileMax {
		b.last = nil
		b.pool.lookAhead(nil)
		return
	}
	if h := b.last; h != nil && !slices.Equal(h.next, ws) {
		h.next, h.ahead = slices.Clone(ws), b.newLookahead()
		places := make([]place, len(ws))
		for i, w := range ws {
			places[i] = place{w: w.(*weight)}
		}
		b.beginWith(h.ahead, places)
	}
	b.expectAfter(ws[0].(*weight))
}

// expectAfter tells the pool what usually follows the product with w, and
// that the next one follows it.
func (b *Backend) expectAfter(w *weight) {
	b.last = &w.habit
	b.pool.lookAhead(w.habit.ahead)
}

func (b *Backend) newLookahead() *lookahead {
	return &lookahead{fetchLines: b.ops.fetchLines, begins: make([]begin, b.Threads())}
}

// beginWith makes a what threads read first in a product with all places.
func (b *Backend) beginWith(a *lookahead, places []place) {
	total := 0
	for _, p := range places {
		total += p.w.panels
	}
	at := 0
	for worker := range a.begins {
		end := b.unitEnd(worker, at, total)
		each, size := (end-at)/vecStreams, 0
		for i := range vecStreams {
			panel := panelOf(places, min(at+i*each, total-1))
			size = len(panel)
			a.begins[worker].streams[i].Store(unsafe.SliceData(panel))
		}
		a.begins[worker].lines.Store(int32(min(each*size, aheadBytes/vecStreams) / 64))
		at = end
	}
}

// panelOf is panel p of the places, numbered through.
func panelOf(places []place, p int) []byte {
	for _, at := range places {
		if p < at.w.panels {
			return at.w.panel(at.expert, p)
		}
		p -= at.w.panels
	}
	return nil
}
