package interp

import "math/bits"

// asyncOps are copies that run beside their threads, and what waits for them.
var asyncOps = map[string]func(*decoder){
	"cp": copyAsync, "mbarrier": mbarrierOp,
}

// asyncState is what the lanes of a warp have under way by cp.async. A copy
// happens when a wait allows it, or, at random, when it is issued: both are
// right, and a kernel that needs one of them is wrong.
type asyncState struct {
	copies    []laneCopy
	committed [lanes]uint32 // groups
}

// laneCopy is one cp.async.
type laneCopy struct {
	lane, pc int
	group    uint32
	at       uint64 // shared memory
	n, size  int    // bytes written; bytes read, the rest are zero
	from     []byte
	done     bool // the bytes are there, which nobody may know yet
}

// copyAsync is cp.async with its groups; the bulk forms are in tensor.go.
func copyAsync(d *decoder) {
	switch {
	case d.s.has("bulk"):
		bulk(d)
	case d.s.has("commit_group"):
		d.in.run = func(w *warp, mask uint32) {
			for ; mask != 0; mask &= mask - 1 {
				w.async.committed[bits.TrailingZeros32(mask)]++
			}
		}
	case d.s.has("wait_group") || d.s.has("wait_all"):
		d.copyWait()
	case d.s.has("mbarrier"):
		d.copyArrive()
	default:
		d.copyIssue()
	}
}

func (d *decoder) copyIssue() {
	d.only("async", "ca", "cg", "shared", "shared::cta", "global", "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint")
	if !d.args(3, 5) {
		return
	}
	to, from := d.address(0, shared), d.address(1, global)
	o := d.s.args[2]
	if n := int(o.imm); o.form != immOperand || n != 4 && n != 8 && n != 16 {
		d.fail("a size that is not 4, 8 or 16")
		return
	}
	n := int(o.imm)
	size := d.constant(uint64(n))
	if len(d.s.args) > 3 && !d.s.has("L2::cache_hint") {
		size = d.src(3, kinds["u32"])
	}
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			l := bits.TrailingZeros32(mask)
			w.issueCopy(l, to.at(w, l), from.at(w, l), n, int(uint32(w.regs[size][l])))
		}
	}
}

func (w *warp) issueCopy(lane int, to, from uint64, n, size int) {
	if size > n || to%uint64(n) != 0 {
		w.fail(lane, "%d of %d bytes to address %#x", size, n, to)
		return
	}
	dst := w.sharedBytes(lane, to, n, true, pendingBit)
	if dst == nil {
		return
	}
	c := laneCopy{lane: lane, pc: w.pc, group: w.async.committed[lane], at: to, n: n, size: size}
	if size > 0 { // else the source is not read
		if c.from = w.access(global, lane, from, n, false, 0); c.from == nil {
			return
		}
	}
	if w.c.random.IntN(4) == 0 {
		c.deliver(dst)
	}
	w.async.copies = append(w.async.copies, c)
}

func (c *laneCopy) deliver(dst []byte) {
	clear(dst[copy(dst, c.from[:min(c.size, len(c.from))]):])
	c.done = true
}

// finish completes the copies of a lane in the groups before one: from now on
// they are writes of the lane.
func (w *warp) finish(lane int, before uint32) {
	kept := w.async.copies[:0]
	for _, c := range w.async.copies {
		if c.lane != lane || c.group >= before {
			kept = append(kept, c)
			continue
		}
		if off := c.at - sharedBase; !c.done {
			c.deliver(w.c.shared[off:][:c.n])
		}
		if s := w.c.shadow; s != nil {
			s.settle(newAccess(s.clock[w.id].seen[w.id], w.id, lane, c.pc, 0), int(c.at-sharedBase), c.n)
		}
	}
	w.async.copies = kept
}

// settle makes a write that was under way one that has happened.
func (s *shadow) settle(me access, at, n int) {
	for i := at; i < at+n; i++ {
		if s.writes[i].flags()&pendingBit != 0 && s.writes[i].pc() == me.pc() {
			s.writes[i] = me
		}
	}
}

func (d *decoder) copyWait() {
	d.only("async", "wait_group", "wait_all")
	left, all := uint32(0), d.s.has("wait_all")
	if !all {
		if !d.args(1, 1) || d.s.args[0].form != immOperand {
			d.fail("how many groups may be left is no number")
			return
		}
		left = uint32(d.s.args[0].imm)
	}
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			l := bits.TrailingZeros32(mask)
			if all {
				w.async.committed[l]++
			}
			if n := w.async.committed[l]; n > left {
				w.finish(l, n-left)
			}
		}
	}
}

// copyArrive is cp.async.mbarrier.arrive: the copies of the lane arrive at an mbarrier.
func (d *decoder) copyArrive() {
	d.only("async", "mbarrier", "arrive", "noinc", "shared", "shared::cta", "b64")
	if !d.args(1, 1) {
		return
	}
	at, counted := d.address(0, shared), d.s.has("noinc")
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			l := bits.TrailingZeros32(mask)
			w.async.committed[l]++
			w.finish(l, w.async.committed[l])
			if b := w.mbarrier(l, at.at(w, l)); b != nil {
				w.release(&b.clock)
				if counted {
					b.arrive(w, l, 1)
				}
			}
		}
	}
}
