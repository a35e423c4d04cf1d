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
		jobs := make([]matJob, len(ws))
		for i, w := range ws {
			jobs[i] = matJob{w: w.(*weight)}
		}
		b.beginWith(h.ahead, jobs)
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

// beginWith makes a what threads read first in a product with all jobs.
func (b *Backend) beginWith(a *lookahead, jobs []matJob) {
	b.ends = cutUnits(b.ends[:0], jobs, len(a.begins))
	at := 0
	for worker := range a.begins {
		end := at
		if worker < len(b.ends) {
			end = int(b.ends[worker])
		}
		a.begins[worker].lines.Store(0)
		for i := range jobs {
			if j := &jobs[i]; at >= j.first && at < j.first+j.w.panels && end > at {
				a.begins[worker].run(j, at-j.first, min(end-j.first, j.w.panels))
			}
		}
		at = end
	}
}

// run reads ahead the streams of panels p to end of a job.
func (b *begin) run(j *matJob, p, end int) {
	each, size := (end-p)/vecStreams, j.w.layout.panelBytes(j.w.src.Cols)
	for i := range b.streams {
		b.streams[i].Store(unsafe.SliceData(j.w.panel(j.expert, p+i*each)))
	}
	b.lines.Store(int32(min(each*size, aheadBytes/vecStreams) / 64))
}
