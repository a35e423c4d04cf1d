package interp

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

var memoryOps = map[string]func(*decoder){
	"ld": load, "ldu": load, "st": store, "atom": atomically, "red": atomically, "fence": fence, "membar": fence,
}

// address is where an instruction accesses memory.
type address struct {
	space  space
	base   int // register
	offset uint64
}

// cacheMods are hints without effect on results.
var cacheMods = []string{"nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "volatile", "relaxed", "acquire", "release", "acq_rel", "weak",
	"cta", "cluster", "gpu", "sys", "v2", "v4", "L1::no_allocate", "L1::evict_last", "L1::evict_first", "L1::evict_normal",
	"L2::64B", "L2::128B", "L2::256B", "L2::cache_hint", "global", "shared", "shared::cta", "local", "param", "const"}

var spaceNames = map[string]space{"global": global, "shared": shared, "shared::cta": shared, "shared::cluster": shared,
	"local": local, "param": param, "const": constant}

// space returns the state space that the instruction names first.
func (d *decoder) space() space {
	for _, m := range d.s.mods {
		if sp, ok := spaceNames[m]; ok {
			return sp
		}
	}
	return generic
}

// address decodes "[base+offset]".
func (d *decoder) address(i int, sp space) address {
	if i >= len(d.s.args) || d.s.args[i].form != memOperand {
		d.fail("argument %d is no address", i+1)
		return address{}
	}
	o := d.s.args[i]
	switch {
	case o.sym == nil:
		return address{sp, d.constant(0), o.imm}
	case o.sym.reg:
		if o.sym.kind.bits < 32 {
			d.fail("an address in %s", o.sym.name)
		}
		return address{sp, o.sym.slot, o.imm}
	case sp == generic && o.sym.space != global:
		d.fail("a variable without its state space")
	}
	return address{sp, d.constant(o.sym.at), o.imm}
}

// at is the address of a lane. Addresses of shared memory have 32 bits.
func (a *address) at(w *warp, lane int) uint64 {
	v := w.regs[a.base][lane] + a.offset
	if a.space == shared {
		v &= 0xffff_ffff
	}
	return v
}

// access returns n bytes of memory for a lane, nil when the access breaks a rule.
func (w *warp) access(sp space, lane int, at uint64, n int, write bool, flags uint32) []byte {
	if at&uint64(n-1) != 0 {
		w.fail(lane, "address %#x is no multiple of %d", at, n)
		return nil
	}
	if sp == generic && at >= sharedWindow {
		switch at &^ (windowBytes - 1) {
		case sharedWindow:
			sp = shared
		case localWindow:
			sp = local
		case paramWindow:
			sp = param
		case constWindow:
			sp = constant
		}
		at &= windowBytes - 1
	}
	switch sp {
	case global, generic:
		c := w.hint
		if c == nil || at < c.at || at+uint64(n) > c.end() {
			if c = w.c.k.memory.find(at, n); c == nil {
				w.fail(lane, "%d bytes at %#x are outside of every allocation", n, at)
				return nil
			}
			w.hint = c
		}
		return c.data[at-c.at:][:n]
	case shared:
		return w.sharedBytes(lane, at, n, write, flags)
	case local:
		size := w.c.k.localBytes
		if at > uint64(size-n) || n > size {
			w.fail(lane, "%d bytes at %#x of %d bytes of local memory", n, at, size)
			return nil
		}
		return w.local[lane*size+int(at):][:n]
	case param, constant:
		b := w.c.k.params
		if sp == constant {
			b = w.c.k.constMemory
		}
		if write || uint64(n) > uint64(len(b)) || at > uint64(len(b)-n) {
			w.fail(lane, "%d bytes at %#x of %d constant bytes", n, at, len(b))
			return nil
		}
		return b[at:][:n]
	}
	w.fail(lane, "address %#x is in no state space", at)
	return nil
}

// sharedBytes returns shared memory and records the access.
func (w *warp) sharedBytes(lane int, at uint64, n int, write bool, flags uint32) []byte {
	off := at - sharedBase
	if off > uint64(len(w.c.shared)) || uint64(n) > uint64(len(w.c.shared))-off {
		w.fail(lane, "%d bytes at %#x of shared memory, which has %#x to %#x", n, at, sharedBase, sharedBase+len(w.c.shared))
		return nil
	}
	w.touch(lane, at, n, write, flags)
	return w.c.shared[off:][:n]
}

func readValue(b []byte, n int) uint64 {
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func writeValue(b []byte, n int, v uint64) {
	switch n {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

// items returns the operands of a scalar or vector argument.
func (d *decoder) items(i int) []operand {
	if i >= len(d.s.args) {
		d.fail("argument %d is missing", i+1)
		return nil
	}
	list := []operand{d.s.args[i]}
	if list[0].form == listOperand {
		list = list[0].list
	}
	want := 1
	if d.s.has("v2") {
		want = 2
	} else if d.s.has("v4") {
		want = 4
	}
	if len(list) != want {
		d.fail("%d values, want %d", len(list), want)
	}
	return list
}

// weak says how an access counts for races: what is marked for use by others does not race.
func (d *decoder) weak() uint32 {
	if slices.ContainsFunc([]string{"volatile", "relaxed", "acquire", "release", "acq_rel"}, d.s.has) {
		return atomicBit
	}
	return 0
}

func load(d *decoder) {
	d.only(cacheMods...)
	if !d.args(2, 3) {
		return
	}
	k, sp := d.kind(), d.space()
	list := d.items(0)
	to, widths := make([]int, len(list)), make([]int, len(list))
	for i, o := range list {
		to[i], widths[i] = d.target(o), 64
		if o.sym != nil {
			widths[i] = o.sym.kind.bits
		}
		if widths[i] < k.bits {
			d.fail("a register narrower than what is loaded")
		}
	}
	from, n, flags := d.address(1, sp), k.bits/8, d.weak()
	signed := k.class == 's' && widths[0] > k.bits
	all := n * len(to)
	if all > 16 {
		d.fail("more than 16 bytes")
	}
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			l := bits.TrailingZeros32(mask) & 31
			b := w.access(sp, l, from.at(w, l), all, false, flags)
			if b == nil {
				return
			}
			for i, t := range to {
				v := readValue(b[i*n:], n)
				if signed {
					v = uint64(extend(v, k.bits)) & (^uint64(0) >> (64 - widths[i]))
				}
				w.regs[t][l] = v
			}
		}
	}
}

func store(d *decoder) {
	d.only(append([]string{"async"}, cacheMods...)...)
	if !d.args(2, 3) || d.s.has("async") {
		d.fail("the interpreter does not know this form of the instruction")
		return
	}
	k, sp := d.kind(), d.space()
	list := d.items(1)
	from := make([]int, len(list))
	for i, o := range list {
		from[i] = d.value(o, k)
	}
	to, n, flags := d.address(0, sp), k.bits/8, d.weak()
	all := n * len(from)
	if all > 16 {
		d.fail("more than 16 bytes")
	}
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			l := bits.TrailingZeros32(mask) & 31
			b := w.access(sp, l, to.at(w, l), all, true, flags)
			if b == nil {
				return
			}
			for i, f := range from {
				writeValue(b[i*n:], n, w.regs[f][l])
			}
		}
	}
}

// fence is fence and membar. Threads of a block see what is ordered by barriers
// only; what counts here is the fence between threads and the async proxy.
func fence(d *decoder) {
	if d.s.has("proxy") && d.s.has("async") || d.s.has("mbarrier_init") {
		d.in.run = func(w *warp, mask uint32) { w.proxyFence() }
		return
	}
	d.only("sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "sys", "gl", "proxy", "alias")
	nothing(d)
}
