package interp

import "math"

// relation is what two values are to each other.
type relation uint8

const (
	less relation = 1 << iota
	equal
	greater
	unordered
)

// relations say when a comparison holds.
var relations = map[string]relation{
	"eq": equal, "ne": less | greater, "lt": less, "le": less | equal, "gt": greater, "ge": greater | equal,
	"lo": less, "ls": less | equal, "hi": greater, "hs": greater | equal,
	"equ": equal | unordered, "neu": less | greater | unordered, "ltu": less | unordered, "leu": less | equal | unordered,
	"gtu": greater | unordered, "geu": greater | equal | unordered, "num": less | equal | greater, "nan": unordered,
}

func relate[T int64 | uint64 | float64](a, b T) relation {
	switch {
	case a < b:
		return less
	case a > b:
		return greater
	case a == b:
		return equal
	}
	return unordered
}

// relater returns the comparison of a type.
func (d *decoder) relater(k kind) func(a, b uint64) relation {
	n, m := k.bits, k.mask()
	switch {
	case k.class == 's':
		return func(a, b uint64) relation { return relate(extend(a, n), extend(b, n)) }
	case !k.float():
		return func(a, b uint64) relation { return relate(a&m, b&m) }
	case n == 64:
		return func(a, b uint64) relation { return relate(math.Float64frombits(a), math.Float64frombits(b)) }
	case k.pair:
		d.fail("pairs are not compared")
	}
	in, _ := d.converters(k)
	return func(a, b uint64) relation { return relate(in(a), in(b)) }
}

// compare is setp and set: a comparison, which may be joined with a predicate.
func compare(d *decoder) {
	k := d.kind()
	var want relation
	join := ""
	for _, m := range d.s.mods {
		if r, ok := relations[m]; ok {
			want = r
		} else if m == "and" || m == "or" || m == "xor" {
			join = m
		} else if _, ok := kinds[m]; !ok && m != "ftz" {
			d.fail("the interpreter does not know .%s here", m)
		}
	}
	if want == 0 {
		d.fail("no comparison")
	}
	if n := 3 + int(truth(join != "")); !d.args(n, n) {
		return
	}
	a, b, f := d.src(1, k), d.src(2, k), d.relater(k)
	other, not := -1, false
	if join != "" {
		other, not = d.predicate(3)
	}
	joined := func(w *warp, v uint32) uint32 {
		if other < 0 {
			return v
		}
		p := w.preds[other]
		if not {
			p = ^p
		}
		switch join {
		case "and":
			return v & p
		case "or":
			return v | p
		}
		return v ^ p
	}
	result := func(w *warp) (v uint32) {
		x, y := &w.regs[a], &w.regs[b]
		for i := range x {
			if f(x[i], y[i])&want != 0 {
				v |= 1 << i
			}
		}
		return v
	}
	if d.s.op == "set" {
		d.setValue(result, joined)
		return
	}
	to, second := d.predDst(&d.s.args[0]), -1
	if pair := d.s.args[0].pair; pair != nil {
		second = d.predDst(pair)
	}
	d.in.run = func(w *warp, mask uint32) {
		v := result(w)
		no := joined(w, ^v)
		v = joined(w, v)
		w.preds[to] = w.preds[to]&^mask | v&mask
		if second >= 0 {
			w.preds[second] = w.preds[second]&^mask | no&mask
		}
	}
}

// setValue writes a comparison as a number: all ones or 1.0 when it holds.
func (d *decoder) setValue(result func(*warp) uint32, joined func(*warp, uint32) uint32) {
	k, _ := d.s.kindAt(1)
	yes := k.mask()
	if k.float() {
		yes = 0x3f80_0000
	}
	if k.bits != 32 || k.pair {
		d.fail("a result of another type than 32 bits")
	}
	to := d.dst()
	d.in.run = func(w *warp, mask uint32) {
		v := joined(w, result(w))
		for i := range lanes {
			if mask>>i&1 != 0 {
				w.regs[to][i] = uint64(v>>i&1) * yes
			}
		}
	}
}
