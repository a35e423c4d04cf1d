package interp

import "math/bits"

// barrier is one of the 16 barriers of a block.
type barrier struct {
	phase   uint32 // completions so far
	arrived int    // threads
	want    int    // threads, 0: all that live
	any     bool   // the or and the and of predicates so far
	all     bool
	count   int
	result  [3]uint64 // or, and, count of the completed phase
	clock   clocks    // of what the arrived warps did before
	passed  clocks    // of the completed phase
}

// ticket is a warp's arrival at a barrier that it waits for.
type ticket struct {
	taken bool
	id    int
	phase uint32
}

// arrive counts a warp in. The last one completes the phase.
func (b *barrier) arrive(w *warp, mask uint32, want int, votes uint32) {
	if b.arrived > 0 && want != b.want {
		w.fail(-1, "it waits for %d threads, others wait for %d", want, b.want)
		return
	}
	if b.arrived == 0 {
		b.any, b.all, b.count, b.want = false, true, 0, want
		b.clock.clear()
	}
	n := bits.OnesCount32(mask)
	if want != 0 {
		n += lanes - bits.OnesCount32(w.began) // an incomplete warp counts as a whole one
	}
	b.arrived += n
	b.any = b.any || votes != 0
	b.all = b.all && votes == mask
	b.count += bits.OnesCount32(votes)
	w.release(&b.clock)
	if want != 0 && b.arrived > want {
		w.fail(-1, "%d threads arrive at a barrier of %d", b.arrived, want)
		return
	}
	b.settle(w.c)
}

// settle completes the phase if all that it waits for are there: without a count
// these are the threads that have not ended.
func (b *barrier) settle(c *cta) {
	want := b.want
	if want == 0 {
		for _, w := range c.warps {
			want += bits.OnesCount32(w.alive)
		}
	}
	if b.arrived == 0 || b.arrived < want {
		return
	}
	b.result = [3]uint64{truth(b.any), truth(b.all), uint64(b.count)}
	b.passed = b.clock
	b.arrived = 0
	b.phase++
	c.wake()
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// barrierWait is bar.sync and bar.red: it returns the barrier once the phase is complete.
func (w *warp) barrierWait(mask uint32, id, want int, votes uint32) *barrier {
	if id < 0 || id > 15 || want < 0 || want%lanes != 0 {
		w.fail(-1, "barrier %d of %d threads", id, want)
		return nil
	}
	b := &w.c.barriers[id]
	if !w.ticket.taken {
		if mask != w.alive {
			w.again = true
			return nil
		}
		w.ticket = ticket{true, id, b.phase}
		b.arrive(w, mask, want, votes)
	}
	if b.phase == w.ticket.phase {
		w.again = true
		return nil
	}
	w.ticket.taken = false
	w.acquire(&b.passed)
	return b
}

// barrierArrive is bar.arrive.
func (w *warp) barrierArrive(mask uint32, id, want int) {
	if id < 0 || id > 15 || want <= 0 || want%lanes != 0 {
		w.fail(-1, "arrival at barrier %d of %d threads", id, want)
		return
	}
	if mask != w.alive {
		w.again = true
		return
	}
	w.c.barriers[id].arrive(w, mask, want, 0)
}
