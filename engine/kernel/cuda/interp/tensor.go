package interp

import (
	"math/bits"
	"slices"
)

// bulkCopy is a copy between device and shared memory. It happens
// at some time after it was issued: a load when nothing else can go on or by
// chance before, a store when it is waited for.
type bulkCopy struct {
	warp, lane, pc int
	load           bool
	group          uint32 // of a store
	bar            uint64 // of a load
	at             uint64 // shared memory
	bytes          int
	tensor         tensor // n = 0: plain bytes at tensor.at
	coords         [5]int64
}

// bulk is cp.async.bulk.
func bulk(d *decoder) {
	switch {
	case d.s.has("commit_group"):
		d.in.run = func(w *warp, mask uint32) {
			for ; mask != 0; mask &= mask - 1 {
				w.stores[bits.TrailingZeros32(mask)]++
			}
		}
	case d.s.has("wait_group"):
		d.bulkWait()
	case d.s.has("prefetch"):
		nothing(d)
	default:
		d.bulkIssue()
	}
}

func (d *decoder) bulkIssue() {
	d.only("async", "bulk", "tensor", "1d", "2d", "3d", "4d", "5d", "tile", "shared::cluster", "shared::cta", "global",
		"mbarrier::complete_tx::bytes", "bulk_group", "L2::cache_hint")
	load := d.s.has("mbarrier::complete_tx::bytes")
	tensors := d.s.has("tensor")
	if n := 2 + int(truth(load)) + int(truth(!tensors)); !d.args(n, n+1) {
		return
	}
	order := map[bool][2]int{true: {0, 1}, false: {1, 0}}[load] // shared, device
	at, from := d.address(order[0], shared), d.address(order[1], global)
	var coords []int
	size, bar := d.constant(0), address{base: d.constant(0)}
	if tensors {
		from.space = generic
		for _, o := range d.s.args[order[1]].list {
			coords = append(coords, d.value(o, kinds["s32"]))
		}
		if len(coords) < 1 || len(coords) > 5 || !d.s.has(string('0'+byte(len(coords)))+"d") {
			d.fail("%d coordinates", len(coords))
		}
	} else {
		size = d.src(2, kinds["u32"])
	}
	if load {
		bar = d.address(2+int(truth(!tensors)), shared)
	}
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			l := bits.TrailingZeros32(mask)
			c := bulkCopy{warp: w.id, lane: l, pc: w.pc, load: load, group: w.stores[l], at: at.at(w, l)}
			if load {
				c.bar = bar.at(w, l)
			}
			for i, slot := range coords {
				c.coords[i] = int64(int32(w.regs[slot][l]))
			}
			w.issueBulk(&c, l, from.at(w, l), tensors, len(coords), int(uint32(w.regs[size][l])))
		}
	}
}

// issueBulk checks a copy and puts it under way.
func (w *warp) issueBulk(c *bulkCopy, lane int, from uint64, tensors bool, n, size int) {
	align := uint64(16)
	if tensors {
		align = 128
		b := w.access(generic, lane, from&^63, 128, false, 0)
		if from%64 != 0 || b == nil {
			w.fail(lane, "no tensor map at %#x", from)
			return
		}
		var ok bool
		if c.tensor, ok = decodeTensor(b); !ok || c.tensor.n != n {
			w.fail(lane, "no tensor map of %d dimensions at %#x", n, from)
			return
		}
		// The manual is silent; an H200 calls other boxes an illegal instruction.
		if c.coords[0]*int64(c.tensor.elem)%16 != 0 {
			w.fail(lane, "the box begins at element %d of %d bytes, no multiple of 16 bytes", c.coords[0], c.tensor.elem)
			return
		}
		c.bytes = c.tensor.bytes()
	} else {
		c.tensor.at, c.bytes = from, size
		if from%16 != 0 || size%16 != 0 || w.c.k.memory.find(from, size) == nil {
			w.fail(lane, "%d bytes at %#x of device memory", size, from)
			return
		}
	}
	off := c.at - sharedBase
	if c.at%align != 0 || off > uint64(len(w.c.shared)) || uint64(c.bytes) > uint64(len(w.c.shared))-off {
		w.fail(lane, "%d bytes at %#x of shared memory", c.bytes, c.at)
		return
	}
	if c.load && w.mbarrier(lane, c.bar) == nil {
		return
	}
	w.proxyTouch(lane, c.at, c.bytes, c.load, true)
	if s := w.c.shadow; s != nil {
		if c.load {
			w.proxyTouch(lane, c.bar, 8, false, false)
		}
	}
	w.c.bulk = append(w.c.bulk, *c)
}

// proxyTouch is an access of the async proxy that a thread starts: it wants what
// threads wrote before to be known and, by a fence, visible.
func (w *warp) proxyTouch(lane int, at uint64, n int, write, pending bool) {
	s := w.c.shadow
	if s == nil || w.c.fault != nil {
		return
	}
	for i := int(at - sharedBase); i < int(at-sharedBase)+n; i++ {
		old := s.writes[i]
		if old == 0 || old.flags()&(asyncBit|pendingBit) != 0 || !s.knows(w.id, lane, old) {
			continue
		}
		if old.time() > s.clock[w.id].fenced[old.actor()] {
			w.fail(lane, "no fence.proxy.async between it and line %d, where thread %d wrote shared byte %#x",
				w.c.k.code[old.pc()].source.line, old.actor()*lanes+old.lane(), i+sharedBase)
			return
		}
	}
	flags := uint32(asyncBit)
	if pending {
		flags |= pendingBit
	}
	w.touch(lane, at, n, write, flags)
}

// deliver performs a load and arrives at its mbarrier.
func (c *cta) deliver(i int) {
	b := c.bulk[i]
	c.bulk = slices.Delete(c.bulk, i, i+1)
	w := c.warps[b.warp]
	w.pc = b.pc
	if !w.moveBulk(&b) {
		return
	}
	for j := range c.bars {
		if m := &c.bars[j]; m.at == b.bar {
			m.bytes -= b.bytes
			if s := c.shadow; s != nil {
				actor := warpsMax + j%warpsMax
				s.step(actor)
				s.settle(newAccess(s.time, actor, b.lane, b.pc, asyncBit), int(b.at-sharedBase), b.bytes)
				m.clock.seen[actor] = s.time
			}
			m.settle(c)
			return
		}
	}
	w.fail(b.lane, "its mbarrier at %#x is gone", b.bar)
}

// moveBulk moves the bytes.
func (w *warp) moveBulk(b *bulkCopy) bool {
	if b.tensor.n == 0 {
		mem, err := w.c.k.memory.bytes(b.tensor.at, int64(b.bytes))
		if err != nil {
			w.fail(b.lane, "%v", err)
			return false
		}
		near := w.c.shared[b.at-sharedBase:][:b.bytes]
		if b.load {
			copy(near, mem)
		} else {
			copy(mem, near)
		}
		return true
	}
	t := &b.tensor
	return t.rows(b.coords, func(row int, at uint64, first int64, inside bool) bool {
		return w.moveRow(b, at, first, inside, b.at+uint64(row*int(t.box[0])*t.elem))
	})
}

// moveRow moves one row of a box: in pieces of an element, or of 16 bytes where all of them are inside.
func (w *warp) moveRow(b *bulkCopy, at uint64, first int64, inside bool, to uint64) bool {
	t := &b.tensor
	n := int(t.box[0])
	step := 16 / t.elem
	for i := 0; i < n; i += step {
		piece := w.c.shared[swizzled(to+uint64(i*t.elem), t.swizzle)-sharedBase:][:16]
		for j := range step {
			e := first + int64(i+j)
			in := inside && e >= 0 && e < t.dims[0]
			near := piece[j*t.elem:][:t.elem]
			if !in {
				if b.load {
					clear(near)
				}
				continue
			}
			far := w.access(global, b.lane, at+uint64((i+j)*t.elem), t.elem, !b.load, 0)
			if far == nil {
				return false
			}
			if b.load {
				copy(near, far)
			} else {
				copy(far, near)
			}
		}
	}
	return true
}

// bulkWait is cp.async.bulk.wait_group: the stores of all but the last groups
// happen. That their source was read and that they are done is one here.
func (d *decoder) bulkWait() {
	d.only("async", "bulk", "wait_group", "read")
	if !d.args(1, 1) || d.s.args[0].form != immOperand {
		d.fail("how many groups may be left is no number")
		return
	}
	left := uint32(d.s.args[0].imm)
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			l := bits.TrailingZeros32(mask)
			if n := w.stores[l]; n > left {
				w.finishStores(l, n-left)
			}
		}
	}
}

func (w *warp) finishStores(lane int, before uint32) {
	pc := w.pc
	for i := 0; i < len(w.c.bulk); {
		b := w.c.bulk[i]
		if b.load || b.warp != w.id || b.lane != lane || b.group >= before {
			i++
			continue
		}
		w.pc = b.pc
		w.moveBulk(&b)
		if s := w.c.shadow; s != nil {
			s.settleReads(newAccess(s.clock[w.id].seen[w.id], w.id, lane, b.pc, asyncBit), int(b.at-sharedBase), b.bytes)
		}
		w.c.bulk = slices.Delete(w.c.bulk, i, i+1)
	}
	w.pc = pc
}

// settleReads makes reads that were under way ones that have happened.
func (s *shadow) settleReads(me access, at, n int) {
	for r := range s.reads {
		for i := at; i < at+n; i++ {
			if old := s.reads[r][i]; old.flags()&pendingBit != 0 && old.pc() == me.pc() && old.actor() == me.actor() {
				s.reads[r][i] = me
			}
		}
	}
}
