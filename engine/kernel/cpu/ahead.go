package cpu

import (
	"slices"
	"unsafe"

	"corenode/engine/kernel"
)

// lookahead names the memory that each thread will read first in the product
// that comes next, as far as that is known: while a thread waits it brings it
// to its own cache. It is never changed once workers see it.
type lookahead struct {
	fetchLines func(p *byte, lines int)
	begin      [][vecStreams]*byte // by worker, where each stream begins
	lines      int                 // of each stream
}

const (
	aheadBytes = 256 << 10 // that a thread reads ahead; it must fit its cache beside what it works on
	aheadLines = 8         // of one look: about 0.1 us
)

// fetched is how many lines of each stream a thread has read ahead.
type fetched struct {
	plan  uint32 // which lookahead
	lines int
}

// fetch reads the next lines ahead. It returns false when nothing is left.
func (a *lookahead) fetch(worker int, c *fetched) bool {
	if c.lines >= a.lines {
		return false
	}
	n := min(aheadLines/vecStreams, a.lines-c.lines)
	for _, p := range a.begin[worker] {
		a.fetchLines(skip(p, 64*c.lines), n)
	}
	c.lines += n
	return true
}

// habit is what the product with some weights was followed by when it was
// last computed: the steps of a model are all alike.
type habit struct {
	next  []kernel.Weight
	ahead *lookahead
}

// lookAhead tells the pool what follows the product of n rows with ws, and
// learns that this product followed the last one. Only products of few rows
// wait for memory.
func (b *Backend) lookAhead(ws []kernel.Weight, n int) {
	if b.ops.fetchLines == nil || b.pool.workers == 0 {
		return
	}
	if n > tileMax {
		b.last = nil
		b.pool.lookAhead(nil)
		return
	}
	if h := b.last; h != nil && !slices.Equal(h.next, ws) {
		h.next, h.ahead = slices.Clone(ws), b.beginOf(ws)
	}
	w := ws[0].(*weight)
	b.last = &w.habit
	b.pool.lookAhead(w.habit.ahead)
}

// beginOf is where the threads begin the product with ws.
func (b *Backend) beginOf(ws []kernel.Weight) *lookahead {
	total := 0
	for _, w := range ws {
		total += w.(*weight).panels
	}
	a := &lookahead{fetchLines: b.ops.fetchLines, begin: make([][vecStreams]*byte, b.Threads()), lines: aheadBytes / vecStreams / 64}
	at := 0
	for worker := range a.begin {
		end := b.unitEnd(at, total)
		for i := range a.begin[worker] {
			a.begin[worker][i] = panelOf(ws, min(at+i*((end-at)/vecStreams), total-1))
		}
		at = min(end, total-1)
	}
	return a
}

// panelOf is panel p of the weights, numbered through.
func panelOf(ws []kernel.Weight, p int) *byte {
	for _, kw := range ws {
		w := kw.(*weight)
		if p < w.panels {
			return unsafe.SliceData(w.panel(0, p))
		}
		p -= w.panels
	}
	return nil
}
