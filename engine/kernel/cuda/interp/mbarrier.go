package interp

import "math/bits"

// mbarrier is a barrier object in shared memory. What its 8 bytes have is nobody's
// business, so it lies beside them.
type mbarrier struct {
	at      uint64
	want    int // arrivals per phase
	pending int // arrivals that are missing
	bytes   int // of copies that are missing
	phase   uint32
	clock   clocks // of what arrived in this phase
	passed  clocks // of the phases that are complete
}

const mbarrierCountMax = 1<<20 - 1

// mbarrier finds the object at an address.
func (w *warp) mbarrier(lane int, at uint64) *mbarrier {
	for i := range w.c.bars {
		if b := &w.c.bars[i]; b.at == at {
			w.touch(lane, at, 8, false, atomicBit)
			return b
		}
	}
	w.fail(lane, "address %#x has no mbarrier that was initialized", at)
	return nil
}

// arrive counts arrivals.
func (b *mbarrier) arrive(w *warp, lane, n int) {
	if b.pending -= n; b.pending < 0 {
		w.fail(lane, "%d arrivals too many in this phase", -b.pending)
		return
	}
	b.settle(w.c)
}

// settle completes the phase when nothing is missing.
func (b *mbarrier) settle(c *cta) {
	if b.pending > 0 || b.bytes != 0 {
		return
	}
	b.passed.join(&b.clock)
	b.clock.clear()
	b.pending = b.want
	b.phase++
	c.wake()
}

func mbarrierOp(d *decoder) {
	d.only("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "parity", "noComplete",
		"release", "acquire", "relaxed", "cta", "cluster", "shared", "shared::cta", "shared::cluster")
	if len(d.s.mods) == 0 {
		d.fail("no operation")
		return
	}
	switch d.s.mods[0] {
	case "init", "inval":
		d.mbarrierInit()
	case "arrive", "arrive_drop":
		d.mbarrierArrive()
	case "expect_tx", "complete_tx":
		d.mbarrierBytes()
	case "test_wait", "try_wait":
		d.mbarrierWait()
	}
}

func (d *decoder) mbarrierInit() {
	at, count := d.address(0, shared), d.constant(0)
	begins := d.s.has("init")
	if begins {
		count = d.src(1, kinds["u32"])
	}
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			l := bits.TrailingZeros32(mask)
			w.initBarrier(l, at.at(w, l), int(uint32(w.regs[count][l])), begins)
		}
	}
}

func (w *warp) initBarrier(lane int, at uint64, count int, begins bool) {
	if at%8 != 0 || w.sharedBytes(lane, at, 8, true, 0) == nil || begins && (count < 1 || count > mbarrierCountMax) {
		w.fail(lane, "mbarrier of %d arrivals at %#x", count, at)
		return
	}
	i := 0
	for i < len(w.c.bars) && w.c.bars[i].at != at {
		i++
	}
	switch {
	case !begins && i < len(w.c.bars):
		w.c.bars[i] = w.c.bars[len(w.c.bars)-1]
		w.c.bars = w.c.bars[:len(w.c.bars)-1]
	case begins && i == len(w.c.bars):
		w.c.bars = append(w.c.bars, mbarrier{at: at, want: count, pending: count})
	case begins:
		w.fail(lane, "an mbarrier is initialized that is in use")
	}
}

func (d *decoder) mbarrierArrive() {
	if !d.args(1, 3) {
		return
	}
	first := int(truth(d.s.args[0].form != memOperand)) // the state, where it is asked for
	to := d.unread()
	if first == 1 {
		to = d.dst()
	}
	at, expects, drops := d.address(first, shared), d.s.has("expect_tx"), d.s.mods[0] == "arrive_drop"
	n := d.constant(1)
	if len(d.s.args) > first+1 {
		n = d.src(first+1, kinds["u32"])
	} else if expects {
		d.fail("no number of bytes")
	}
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			l := bits.TrailingZeros32(mask)
			b := w.mbarrier(l, at.at(w, l))
			if b == nil {
				return
			}
			w.regs[to][l] = uint64(b.phase)
			w.releaseOnce(&b.clock, mask&(mask-1) == 0)
			count := int(uint32(w.regs[n][l]))
			if expects {
				b.bytes += count
				count = 1
			}
			if drops {
				b.want -= count
			}
			b.arrive(w, l, count)
		}
	}
}

// releaseOnce hands on what the warp did; the time goes on with the last lane.
func (w *warp) releaseOnce(to *clocks, last bool) {
	if s := w.c.shadow; s != nil {
		to.join(&s.clock[w.id])
		if last {
			s.step(w.id)
		}
	}
}

func (d *decoder) mbarrierBytes() {
	if !d.args(2, 2) {
		return
	}
	at, n, sign := d.address(0, shared), d.src(1, kinds["u32"]), 1
	if d.s.mods[0] == "complete_tx" {
		sign = -1
	}
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			l := bits.TrailingZeros32(mask)
			if b := w.mbarrier(l, at.at(w, l)); b != nil {
				b.bytes += sign * int(uint32(w.regs[n][l]))
				b.settle(w.c)
			}
		}
	}
}

// mbarrierWait is test_wait and try_wait. The latter mostly blocks until the phase
// is complete for some lane, so that a phase that never completes is a deadlock.
func (d *decoder) mbarrierWait() {
	if !d.args(3, 4) {
		return
	}
	p, at, parity, tries := d.predDst(&d.s.args[0]), d.address(1, shared), d.s.has("parity"), d.s.mods[0] == "try_wait"
	phase := d.src(2, kinds["u32"])
	if !parity {
		phase = d.src(2, kinds["b64"])
	}
	d.in.flow = blocks
	d.in.run = func(w *warp, mask uint32) {
		var done uint32
		for m := mask; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			b := w.mbarrier(l, at.at(w, l))
			if b == nil {
				return
			}
			v := uint32(w.regs[phase][l])
			if parity && v > 1 {
				w.fail(l, "parity %d", v)
				return
			}
			if parity && b.phase&1 != v || !parity && b.phase != v {
				done |= 1 << l
				w.acquire(&b.passed)
			}
		}
		w.again = tries && done == 0 && w.c.random.IntN(4) > 0 // else the time that hardware waits is over
		w.preds[p] = w.preds[p]&^mask | done
	}
}
