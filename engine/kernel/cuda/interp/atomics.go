package interp

import "math/bits"

// atomically is atom and red. Lanes go one after another; warps and blocks in
// the random order of the run, so that a sum of floats that depends on the order
// shows it.
func atomically(d *decoder) {
	d.only("global", "shared", "shared::cta", "relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz",
		"add", "and", "or", "xor", "exch", "cas", "min", "max", "inc", "dec")
	k, sp := d.kind(), d.space()
	returns := d.s.op == "atom"
	first := int(truth(returns))
	f := d.atomicFunction(k)
	if f == nil || len(d.s.args) < first+2 {
		d.fail("the interpreter does not know this form of the instruction")
		return
	}
	to, at := d.unread(), d.address(first, sp)
	if returns {
		to = d.dst()
	}
	b := d.src(first+1, k)
	c := b
	if d.s.has("cas") {
		c = d.src(first+2, k)
	}
	if sp != shared {
		d.k.ordered = true
	}
	n := k.bits / 8
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			l := bits.TrailingZeros32(mask)
			m := w.access(sp, l, at.at(w, l), n, true, atomicBit)
			if m == nil {
				return
			}
			old := readValue(m, n)
			writeValue(m, n, f(old, w.regs[b][l], w.regs[c][l]))
			w.regs[to][l] = old
		}
	}
}

// atomicFunction returns what the memory becomes from its old value and the operands.
func (d *decoder) atomicFunction(k kind) func(old, b, c uint64) uint64 {
	m := k.mask()
	switch {
	case d.s.has("exch"):
		return func(_, b, _ uint64) uint64 { return b & m }
	case d.s.has("cas"):
		return func(old, b, c uint64) uint64 {
			if old == b&m {
				return c & m
			}
			return old
		}
	case d.s.has("and"):
		return func(old, b, _ uint64) uint64 { return old & b }
	case d.s.has("or"):
		return func(old, b, _ uint64) uint64 { return (old | b) & m }
	case d.s.has("xor"):
		return func(old, b, _ uint64) uint64 { return (old ^ b) & m }
	case d.s.has("inc"):
		return func(old, b, _ uint64) uint64 {
			if old >= b&m {
				return 0
			}
			return old + 1
		}
	case d.s.has("dec"):
		return func(old, b, _ uint64) uint64 {
			if old == 0 || old > b&m {
				return b & m
			}
			return old - 1
		}
	case d.s.has("add") && k.float():
		return d.atomicAddFloat(k)
	case d.s.has("add"):
		return func(old, b, _ uint64) uint64 { return (old + b) & m }
	case d.s.has("min"), d.s.has("max"):
		if k.float() {
			return nil
		}
		relate, want := d.relater(k), less
		if d.s.has("max") {
			want = greater
		}
		return func(old, b, _ uint64) uint64 {
			if relate(b, old) == want {
				return b & m
			}
			return old
		}
	}
	return nil
}

func (d *decoder) atomicAddFloat(k kind) func(old, b, c uint64) uint64 {
	if k.bits == 64 {
		return nil
	}
	in, out := d.converters(k)
	one := func(a, b uint64) uint64 { return out(addOdd(in(a), in(b), nearest)) }
	if k.pair {
		return func(a, b, _ uint64) uint64 {
			return one(a&0xffff, b&0xffff) | one(a>>16&0xffff, b>>16&0xffff)<<16
		}
	}
	return func(a, b, _ uint64) uint64 { return one(a, b) }
}
