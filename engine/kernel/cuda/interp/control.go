package interp

import "math/bits"

// controlOps move values and control.
var controlOps = map[string]func(*decoder){
	"mov": move, "cvta": convertAddress, "isspacep": inSpace, "selp": choose, "slct": chooseSign,
	"bra":  jumpTo,
	"ret":  func(d *decoder) { d.in.flow = exit },
	"exit": func(d *decoder) { d.in.flow = exit },
	"trap": func(d *decoder) {
		d.in.run = func(w *warp, mask uint32) { w.fail(bits.TrailingZeros32(mask), "the kernel gave up") }
	},
	"bar": bar, "barrier": bar,
	"nanosleep":      nothing,
	"griddepcontrol": nothing, // launches of a stream do not overlap here
	"prefetch":       nothing,
	"setmaxnreg":     nothing,
	"discard":        nothing,
	"applypriority":  nothing,
	"createpolicy":   createPolicy,
}

// nothing decodes what has no effect on results.
func nothing(d *decoder) { d.in.run = func(*warp, uint32) {} }

// createPolicy makes a cache policy, which means nothing here.
func createPolicy(d *decoder) {
	to := d.dst()
	d.in.run = func(w *warp, mask uint32) { w.regs[to] = vector{} }
}

func jumpTo(d *decoder) {
	d.only("uni")
	if d.s.target < 0 {
		d.fail("a branch to a register")
	}
	d.in.flow = branch
}

// move is mov, which also packs and unpacks vectors.
func move(d *decoder) {
	d.only()
	if !d.args(2, 2) {
		return
	}
	k := d.kind()
	from, to := d.s.args[1], d.s.args[0]
	switch {
	case k.class == 'p':
		d.movePredicate()
	case to.form == listOperand || from.form == listOperand:
		if n := len(to.list) + len(from.list); n < 2 || k.bits%n != 0 {
			d.fail("%d parts of %d bits", n, k.bits)
			return
		}
		if from.form == listOperand {
			d.pack(d.dst(), from.list, k)
			return
		}
		d.unpack(to.list, d.src(1, k), k)
	default:
		m := k.mask()
		t, a := d.dst(), d.src(1, k)
		d.in.run = func(w *warp, mask uint32) {
			x, z := &w.regs[a], &w.regs[t]
			for i := range z {
				if mask>>i&1 != 0 {
					z[i] = x[i] & m
				}
			}
		}
	}
}

func (d *decoder) movePredicate() {
	to := d.predDst(&d.s.args[0])
	a, not := d.predicate(1)
	d.in.run = func(w *warp, mask uint32) {
		v := w.preds[a]
		if not {
			v = ^v
		}
		w.preds[to] = w.preds[to]&^mask | v&mask
	}
}

func (d *decoder) unpack(list []operand, from int, k kind) {
	part := k.bits / len(list)
	to := make([]int, len(list))
	for i, o := range list {
		to[i] = d.target(o)
	}
	m := uint64(1)<<part - 1
	d.in.run = func(w *warp, mask uint32) {
		whole := w.regs[from]
		for i, t := range to {
			for l := range lanes {
				if mask>>l&1 != 0 {
					w.regs[t][l] = whole[l] >> (i * part) & m
				}
			}
		}
	}
}

func (d *decoder) pack(to int, list []operand, k kind) {
	part := k.bits / len(list)
	from := make([]int, len(list))
	for i, o := range list {
		from[i] = d.value(o, kind{class: 'b', bits: part})
	}
	m := uint64(1)<<part - 1
	d.in.run = func(w *warp, mask uint32) {
		for l := range lanes {
			if mask>>l&1 == 0 {
				continue
			}
			var v uint64
			for i, f := range from {
				v |= w.regs[f][l] & m << (i * part)
			}
			w.regs[to][l] = v
		}
	}
}

// predicateLogic is and, or, xor and not of predicates.
func (d *decoder) predicateLogic() {
	n := 3
	if d.s.op == "not" {
		n = 2
	}
	if !d.args(n, n) {
		return
	}
	to, op := d.predDst(&d.s.args[0]), d.s.op
	a, notA := d.predicate(1)
	b, notB := a, notA
	if n == 3 {
		b, notB = d.predicate(2)
	}
	d.in.run = func(w *warp, mask uint32) {
		x, y := w.preds[a], w.preds[b]
		if notA {
			x = ^x
		}
		if notB {
			y = ^y
		}
		switch op {
		case "and":
			x &= y
		case "or":
			x |= y
		case "xor":
			x ^= y
		case "not":
			x = ^x
		}
		w.preds[to] = w.preds[to]&^mask | x&mask
	}
}

// choose is selp.
func choose(d *decoder) {
	d.only()
	if !d.args(4, 4) {
		return
	}
	k := d.kind()
	m := k.mask()
	to, a, b := d.dst(), d.src(1, k), d.src(2, k)
	p, not := d.predicate(3)
	d.in.run = func(w *warp, mask uint32) {
		v := w.preds[p]
		if not {
			v = ^v
		}
		x, y, z := &w.regs[a], &w.regs[b], &w.regs[to]
		for i := range z {
			if mask>>i&1 == 0 {
				continue
			}
			if v>>i&1 != 0 {
				z[i] = x[i] & m
			} else {
				z[i] = y[i] & m
			}
		}
	}
}

// chooseSign is slct: by the sign of the third.
func chooseSign(d *decoder) {
	d.only("ftz")
	k, _ := d.s.kindAt(1)
	by := d.kind()
	d.ternary(k, by, func(a, b, c uint64) uint64 {
		if by.class == 's' && extend(c, 32) >= 0 || by.class == 'f' && fromSingle(c) >= 0 {
			return a & k.mask()
		}
		return b & k.mask()
	})
}

// windows are where the state spaces lie among generic addresses.
var windows = map[string]uint64{"shared": sharedWindow, "shared::cta": sharedWindow, "shared::cluster": sharedWindow,
	"local": localWindow, "param": paramWindow, "const": constWindow, "global": 0}

// convertAddress is cvta: between an address of a space and a generic one.
func convertAddress(d *decoder) {
	d.only("to", "shared", "shared::cta", "shared::cluster", "local", "param", "const", "global")
	base, found := uint64(0), false
	for _, m := range d.s.mods {
		if at, ok := windows[m]; ok {
			base, found = at, true
		}
	}
	if !found {
		d.fail("no state space")
	}
	if d.s.has("to") {
		d.unary(d.kind(), func(a uint64) uint64 { return a - base })
		return
	}
	d.unary(d.kind(), func(a uint64) uint64 { return a + base })
}

func inSpace(d *decoder) {
	if !d.args(2, 2) || len(d.s.mods) == 0 {
		d.fail("no state space")
		return
	}
	base, ok := windows[d.s.mods[0]]
	if !ok {
		d.fail("no state space")
	}
	to, a := d.predDst(&d.s.args[0]), d.src(1, kinds["u64"])
	d.in.run = func(w *warp, mask uint32) {
		for i, v := range w.regs[a] {
			inside := base == 0 && v < sharedWindow || base != 0 && v-base < windowBytes
			if mask>>i&1 != 0 {
				w.preds[to] = w.preds[to]&^(1<<i) | uint32(truth(inside))<<i
			}
		}
	}
}

// bar is bar.sync, bar.arrive, bar.red and bar.warp.sync, and the same as barrier.
func bar(d *decoder) {
	switch {
	case d.s.has("warp"):
		if !d.args(1, 1) {
			return
		}
		d.in.flow, d.in.members = meets, d.src(0, kinds["b32"])
		d.in.run = func(*warp, uint32) {}
	case d.s.has("cluster"):
		nothing(d) // a cluster is one block
	case d.s.has("red"):
		d.barReduce()
	case d.s.has("sync") || d.s.has("arrive"):
		d.barSync()
	}
}

func (d *decoder) barSync() {
	d.only("sync", "arrive", "aligned", "cta")
	if !d.args(1, 2) {
		return
	}
	id, count := d.src(0, kinds["u32"]), d.constant(0)
	if len(d.s.args) == 2 {
		count = d.src(1, kinds["u32"])
	}
	d.in.flow = waits
	if d.s.has("arrive") {
		d.in.run = func(w *warp, mask uint32) {
			l := bits.TrailingZeros32(mask)
			w.barrierArrive(mask, int(w.regs[id][l]), int(w.regs[count][l]))
		}
		return
	}
	d.in.run = func(w *warp, mask uint32) {
		l := bits.TrailingZeros32(mask)
		w.barrierWait(mask, int(w.regs[id][l]), int(w.regs[count][l]), 0)
	}
}

// barReduce is bar.red: a barrier that returns the or, the and or the count of predicates.
func (d *decoder) barReduce() {
	d.only("red", "popc", "and", "or", "aligned", "cta")
	if !d.args(3, 4) {
		return
	}
	id, count := d.src(1, kinds["u32"]), d.constant(0)
	if len(d.s.args) == 4 {
		count = d.src(2, kinds["u32"])
	}
	p, not := d.predicate(len(d.s.args) - 1)
	counts, all := d.s.has("popc"), d.s.has("and")
	var to int
	if counts {
		to = d.dst()
	} else {
		to = d.predDst(&d.s.args[0])
	}
	d.in.flow = waits
	d.in.run = func(w *warp, mask uint32) {
		v := w.preds[p]
		if not {
			v = ^v
		}
		l := bits.TrailingZeros32(mask)
		b := w.barrierWait(mask, int(w.regs[id][l]), int(w.regs[count][l]), v&mask)
		switch {
		case b == nil:
		case counts:
			for i := range lanes {
				w.regs[to][i] = b.result[2]
			}
		default:
			w.preds[to] = -uint32(b.result[truth(all)])
		}
	}
}
