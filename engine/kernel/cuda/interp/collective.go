package interp

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// warpOps are what the lanes of a warp do together.
var warpOps = map[string]func(*decoder){
	"shfl": shuffle, "vote": vote, "match": match, "redux": reduce, "activemask": activeMask, "elect": elect,
	"ldmatrix": loadMatrix, "stmatrix": storeMatrix,
}

// byMembers marks an instruction that the lanes of its last argument execute together.
func (d *decoder) byMembers() {
	if !d.s.has("sync") {
		d.fail("only the form with .sync is known")
	}
	d.in.flow, d.in.members = meets, d.src(len(d.s.args)-1, kinds["b32"])
}

// shuffle is shfl.sync. The third operand has the last lane that is read, and in
// bits 8 to 12 which bits of the lane stay.
func shuffle(d *decoder) {
	d.only("sync", "up", "down", "bfly", "idx")
	if !d.args(5, 5) {
		return
	}
	d.byMembers()
	k, u := kinds["b32"], kinds["u32"]
	to, a, b, c := d.dst(), d.src(1, k), d.src(2, u), d.src(3, u)
	p := d.predDst(d.s.args[0].pair)
	how := strings.Join(d.s.mods, ".")
	how = strings.TrimSuffix(strings.TrimPrefix(how, "sync."), ".b32")
	if !shuffleModes[how] {
		d.fail("no direction")
		return
	}
	d.in.run = func(w *warp, mask uint32) {
		from := w.regs[a]
		for m := mask; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			n, control := int(w.regs[b][l]&31), w.regs[c][l]
			clamp, keep := int(control&31), int(control>>8&31)
			high := l&keep | clamp&^keep
			at, valid := shuffleLane(how, l, n, keep, high)
			if !valid {
				at = l
			}
			if mask>>at&1 == 0 {
				w.fail(l, "it reads lane %d, which does not take part", at)
				return
			}
			w.regs[to][l] = from[at]
			w.preds[p] = w.preds[p]&^(1<<l) | uint32(truth(valid))<<l
		}
	}
}

// shuffleModes are the directions that are known.
var shuffleModes = map[string]bool{"up": true, "down": true, "bfly": true, "idx": true}

func shuffleLane(how string, l, n, keep, high int) (at int, valid bool) {
	switch how {
	case "up":
		at = l - n
		return at, at >= high
	case "down":
		at = l + n
	case "bfly":
		at = l ^ n
	default:
		at = l&keep | n&^keep
	}
	return at, at <= high
}

// vote is vote.sync.
func vote(d *decoder) {
	d.only("sync", "all", "any", "uni", "ballot")
	if !d.args(3, 3) {
		return
	}
	d.byMembers()
	p, not := d.predicate(1)
	ballot := d.s.has("ballot")
	var to int
	if ballot {
		to = d.dst()
	} else {
		to = d.predDst(&d.s.args[0])
	}
	all, some := d.s.has("all"), d.s.has("any")
	d.in.run = func(w *warp, mask uint32) {
		v := w.preds[p]
		if not {
			v = ^v
		}
		v &= mask
		if ballot {
			for m := mask; m != 0; m &= m - 1 {
				w.regs[to][bits.TrailingZeros32(m)] = uint64(v)
			}
			return
		}
		yes := v == 0 || v == mask
		if all {
			yes = v == mask
		} else if some {
			yes = v != 0
		}
		w.preds[to] = w.preds[to]&^mask | -uint32(truth(yes))&mask
	}
}

// match is match.sync: the lanes with the same value.
func match(d *decoder) {
	d.only("sync", "any", "all")
	if !d.args(3, 3) {
		return
	}
	d.byMembers()
	k := d.kind()
	to, a, p := d.dst(), d.src(1, k), d.predDst(d.s.args[0].pair)
	all, vm := d.s.has("all"), k.mask()
	d.in.run = func(w *warp, mask uint32) {
		from := w.regs[a]
		for m := mask; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			var same uint32
			for o := mask; o != 0; o &= o - 1 {
				if i := bits.TrailingZeros32(o); (from[i]^from[l])&vm == 0 {
					same |= 1 << i
				}
			}
			if all && same != mask {
				same = 0
			}
			w.regs[to][l] = uint64(same)
			w.preds[p] = w.preds[p]&^(1<<l) | uint32(truth(same == mask))<<l
		}
	}
}

// reduce is redux.sync.
func reduce(d *decoder) {
	d.only("sync", "add", "min", "max", "and", "or", "xor")
	if !d.args(3, 3) {
		return
	}
	d.byMembers()
	k := d.kind()
	f := d.atomicFunction(k)
	if f == nil {
		d.fail("no operation")
		return
	}
	to, a := d.dst(), d.src(1, k)
	d.in.run = func(w *warp, mask uint32) {
		first := bits.TrailingZeros32(mask)
		v := w.regs[a][first] & k.mask()
		for m := mask & (mask - 1); m != 0; m &= m - 1 {
			v = f(v, w.regs[a][bits.TrailingZeros32(m)]&k.mask(), 0)
		}
		for m := mask; m != 0; m &= m - 1 {
			w.regs[to][bits.TrailingZeros32(m)] = v
		}
	}
}

func activeMask(d *decoder) {
	to := d.dst()
	d.in.run = func(w *warp, mask uint32) {
		for m := mask; m != 0; m &= m - 1 {
			w.regs[to][bits.TrailingZeros32(m)] = uint64(mask)
		}
	}
}

// elect is elect.sync: one lane of those that meet.
func elect(d *decoder) {
	d.only("sync")
	if !d.args(2, 2) {
		return
	}
	d.byMembers()
	to, p := d.target(operandWithoutPair(d.s.args[0])), d.predDst(d.s.args[0].pair)
	d.in.run = func(w *warp, mask uint32) {
		first := bits.TrailingZeros32(mask)
		for m := mask; m != 0; m &= m - 1 {
			w.regs[to][bits.TrailingZeros32(m)] = uint64(first)
		}
		w.preds[p] = w.preds[p]&^mask | 1<<first
	}
}

func operandWithoutPair(o operand) operand {
	o.pair = nil
	return o
}

// matrixShape reads how many 8x8 matrices of 16 bits an ldmatrix moves.
func (d *decoder) matrixShape(list int) (n int, trans bool) {
	d.only("sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta")
	n = map[bool]int{d.s.has("x1"): 1, d.s.has("x2"): 2, d.s.has("x4"): 4}[true]
	if n == 0 || len(d.s.args) != 2 || d.s.args[list].form != listOperand && n > 1 || d.kind().bits != 16 {
		d.fail("the interpreter does not know this form of the instruction")
		return 0, false
	}
	if d.s.args[list].form == listOperand && len(d.s.args[list].list) != n {
		d.fail("%d registers for %d matrices", len(d.s.args[list].list), n)
	}
	d.in.flow = meets
	return n, d.s.has("trans")
}

// listOf returns the operands of an argument that may stand without braces.
func (d *decoder) listOf(i int) []operand {
	if d.s.args[i].form == listOperand {
		return d.s.args[i].list
	}
	return d.s.args[i : i+1]
}

// loadMatrix is ldmatrix: lane 8i+r has the address of row r of matrix i; lane l
// gets the values 2(l%4) and 2(l%4)+1 of row l/4, or of that column with .trans.
func loadMatrix(d *decoder) {
	n, trans := d.matrixShape(0)
	if n == 0 {
		return
	}
	from := d.address(1, shared)
	to := make([]int, n)
	for i, o := range d.listOf(0) {
		to[i] = d.target(o)
	}
	d.in.run = func(w *warp, mask uint32) {
		for i, t := range to {
			var rows [8][]byte
			for r := range rows {
				l := i*8 + r
				if rows[r] = w.matrixRow(l, from.at(w, l), false); rows[r] == nil {
					return
				}
			}
			for l := range lanes {
				r, c := l/4, l%4*2
				if !trans {
					w.regs[t][l] = uint64(binary.LittleEndian.Uint32(rows[r][c*2:]))
				} else {
					low, high := readValue(rows[c][r*2:], 2), readValue(rows[c+1][r*2:], 2)
					w.regs[t][l] = low | high<<16
				}
			}
		}
	}
}

// matrixRow is 16 bytes of shared memory whose address a lane gives.
func (w *warp) matrixRow(lane int, at uint64, write bool) []byte {
	if at&15 != 0 {
		w.fail(lane, "address %#x is no multiple of 16", at)
		return nil
	}
	return w.sharedBytes(lane, at, 16, write, 0)
}

// storeMatrix is stmatrix, the reverse.
func storeMatrix(d *decoder) {
	n, trans := d.matrixShape(1)
	if n == 0 {
		return
	}
	to := d.address(0, shared)
	from := make([]int, n)
	for i, o := range d.listOf(1) {
		from[i] = d.value(o, kinds["b32"])
	}
	d.in.run = func(w *warp, mask uint32) {
		for i, f := range from {
			for r := range 8 {
				l := i*8 + r
				row := w.matrixRow(l, to.at(w, l), true)
				if row == nil {
					return
				}
				for c := range 8 {
					src, half := r*4+c/2, c%2
					if trans {
						src, half = c*4+r/2, r%2
					}
					binary.LittleEndian.PutUint16(row[c*2:], uint16(w.regs[f][src]>>(16*half)))
				}
			}
		}
	}
}
