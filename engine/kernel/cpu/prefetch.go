package cpu

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"corenode/engine/kernel"
)

// prefetchPlan names the memory that each thread will read first in the product
// that comes next, as far as that is known: while a thread waits it brings it
// to its own cache. Threads may read it while it changes: what they then ask
// for is only not needed.
type prefetchPlan struct {
	fetchLines func(p *byte, lines int)
	begins     []begin // by worker
}

// begin is what a thread prefetches: lines of 64 bytes of each stream, in runs of
// so many that begin stride bytes apart.
type begin struct {
	streams [vecStreams]atomic.Pointer[byte]
	lines   atomic.Int32
	run     atomic.Int32
	stride  atomic.Int64
}

const (
	prefetchBytes = 512 << 10 // that a thread prefetches; it must fit its cache beside what it works on
	prefetchLines = 2         // of each stream in one look: about 0.1 us
	prefetchRows  = 16        // of products that wait for memory more than they compute
)

// fetched is how many lines of each stream a thread has prefetched.
type fetched struct {
	plan  uint32 // which prefetchPlan
	lines int
}

// fetch reads the next lines. It returns false when nothing is left.
func (a *prefetchPlan) fetch(worker int, c *fetched) bool {
	b := &a.begins[worker]
	if c.lines >= int(b.lines.Load()) {
		return false
	}
	for i := range b.streams {
		a.fetchLines(skip(b.streams[i].Load(), b.at(c.lines)), prefetchLines)
	}
	c.lines += prefetchLines
	return true
}

// at is where a line lies in each stream.
func (b *begin) at(line int) int {
	run := int(b.run.Load())
	return line/run*int(b.stride.Load()) + line%run*64
}

// habit is what the product with some weights was followed by when it was
// last computed: the steps of a model are all alike.
type habit struct {
	next     []kernel.Weight
	prefetch *prefetchPlan
}

// prefetches says whether threads can prefetch at all.
func (b *Backend) prefetches() bool { return b.ops.fetchLines != nil && b.pool.workers > 0 }

// habitOf is that of products with w and few rows: one row is read in another
// order than more.
func (w *weight) habitOf(n int) *habit { return &w.habits[min(n, 2)-1] }

// expect tells the pool what follows the product of n rows with ws, and
// learns that this product followed the last one. Only products of few rows
// wait for memory.
func (b *Backend) expect(ws []kernel.Weight, n int) {
	if !b.prefetches() {
		return
	}
	if n > prefetchRows {
		b.last = nil
		b.pool.setPrefetch(nil)
		return
	}
	if h := b.last; h != nil && !slices.Equal(h.next, ws) {
		h.next, h.prefetch = slices.Clone(ws), b.newPrefetchPlan()
		jobs := make([]matJob, len(ws))
		for i, w := range ws {
			jobs[i] = matJob{w: w.(*weight), n: n}
		}
		b.beginWith(h.prefetch, jobs)
	}
	b.expectAfter(ws[0].(*weight), n)
}

// expectAfter tells the pool what usually follows the product of n rows with w,
// and that the next one follows it.
func (b *Backend) expectAfter(w *weight, n int) {
	b.last = w.habitOf(n)
	b.pool.setPrefetch(b.last.prefetch)
}

func (b *Backend) newPrefetchPlan() *prefetchPlan {
	return &prefetchPlan{fetchLines: b.ops.fetchLines, begins: make([]begin, b.Threads())}
}

// beginWith makes a what threads read first in a product with all jobs.
func (b *Backend) beginWith(a *prefetchPlan, jobs []matJob) {
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
				a.begins[worker].of(j, at-j.first, min(end-j.first, j.w.panels))
			}
		}
		at = end
	}
}

// of makes b panels p to end of a job: the streams of one row, else panel
// after panel, each in as many streams.
func (b *begin) of(j *matJob, p, end int) {
	size := j.w.layout.panelBytes(j.w.src.Cols)
	run := size / (64 * vecStreams * prefetchLines) * prefetchLines
	apart, lines := 64*run, (end-p)*run
	if j.n == 1 {
		apart = (end - p) / vecStreams * size
		run = apart / 64
		lines = run
	}
	first := unsafe.SliceData(j.w.panel(j.expert, p))
	for i := range b.streams {
		b.streams[i].Store(skip(first, i*apart))
	}
	b.run.Store(int32(max(run, 1)))
	b.stride.Store(int64(size))
	b.lines.Store(int32(min(lines, prefetchBytes/(64*vecStreams))))
}
