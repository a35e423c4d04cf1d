package interp

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// matrixOps multiply matrices.
var matrixOps = map[string]func(*decoder){"mma": multiply, "wgmma": groupMultiply}

// product is the arithmetic of a matrix instruction: its types and depth.
type product struct {
	a, b  kind
	k     int // columns of A
	rule  sumRule
	half  bool // accumulators of 16 bits
	apart bool // FP8 in mma.sync, see unpack
	whole bool // integers
	sat   bool
}

// matrixProduct checks the types and the depth of a matrix instruction.
func (d *decoder) matrixProduct(a, b, acc kind, k int, saturate bool) product {
	p := product{a: a, b: b, k: k, half: acc.bits == 16, whole: acc.class == 's', sat: saturate}
	switch {
	case a.class == 'f' && a.bits == 16 && b == a, a.class == 'h' && b == a && !p.half:
		p.rule = wideSums
	case a.class == 't' && b == a && !p.half:
		p.rule = tf32Sums
	case (a.class == 'e' || a.class == 'q') && (b.class == 'e' || b.class == 'q') && !p.half:
		if p.rule = narrowSums; d.s.op == "mma" {
			p.rule, p.apart = wideSums, true
		}
	case a.bits == 8 && b.bits == 8 && p.whole:
	default:
		d.fail("types of the matrices")
	}
	if k*a.bits > 256 || k*a.bits < 128 || p.whole == (acc.class == 'f') {
		d.fail("depth %d", k)
	}
	return p
}

// shape reads m16n8k16 and the like.
func shape(mod string) (m, n, k int, ok bool) {
	rest, ok := strings.CutPrefix(mod, "m")
	if !ok {
		return 0, 0, 0, false
	}
	first, rest, ok1 := strings.Cut(rest, "n")
	second, third, ok2 := strings.Cut(rest, "k")
	m, err1 := strconv.Atoi(first)
	n, err2 := strconv.Atoi(second)
	k, err3 := strconv.Atoi(third)
	return m, n, k, ok1 && ok2 && err1 == nil && err2 == nil && err3 == nil
}

// tile is a decoded operand: rows of factors.
type tile struct {
	terms [256][32]term
	ints  [256][32]int32
}

// set writes the values of one 32-bit register into a row.
func (t *tile) set(p *product, k kind, row, col int, reg uint32) {
	for i := range 32 / k.bits {
		v := reg >> (i * k.bits) & uint32(k.mask())
		switch {
		case p.whole && k.class == 's':
			t.ints[row][col+i] = int32(extend(uint64(v), k.bits))
		case p.whole:
			t.ints[row][col+i] = int32(v)
		case p.apart:
			t.unpack(p, k, row, col, i, v)
		default:
			f, _ := formatOf(k)
			if k.class == 't' {
				v >>= 13
			}
			t.terms[row][col+i] = termOf(f, uint64(v))
		}
	}
}

// unpack writes a code of FP8 for mma.sync. Hopper has no unit for that: a compiler makes float16 of the codes and multiplies
// twice, the lower two of each register and then the upper two, which lie in the second half of a row here. The accumulator is
// added to the sum of both.
func (t *tile) unpack(p *product, k kind, row, col, i int, code uint32) {
	f, _ := formatOf(k)
	t.terms[row][i/2*p.k/2+col/2+i%2] = termOf(halfFormat, halfFormat.code(f.value(uint64(code)), nearest, false))
}

// dot returns an accumulator's new code.
func (p *product) dot(acc uint32, a, b *tile, row, col int) uint32 {
	if p.whole {
		sum := int64(int32(acc))
		for i := range p.k {
			sum += int64(a.ints[row][i]) * int64(b.ints[col][i])
		}
		if p.sat {
			return uint32(clampSigned(sum, 32))
		}
		return uint32(sum)
	}
	x, y := a.terms[row][:p.k], b.terms[col][:p.k]
	if p.apart {
		h := p.k / 2
		return uint32(canonical(p.rule.sum(p.rule.sum(0, x[:h], y[:h]), x[h:], y[h:]) + math.Float32frombits(acc)))
	}
	if p.half {
		c := float32(halfFormat.value(uint64(acc)))
		return uint32(halfFormat.code(float64(p.rule.sum(c, x, y)), nearest, false))
	}
	return math.Float32bits(p.rule.sum(math.Float32frombits(acc), x, y))
}

// multiply is mma.sync.m16n8.
func multiply(d *decoder) {
	d.only(append([]string{"sync", "aligned", "row", "col", "satfinite"}, slices.Collect(shapesOf(d.s))...)...)
	m, n, k, ok := 0, 0, 0, false
	for _, mod := range d.s.mods {
		if m, n, k, ok = shape(mod); ok {
			break
		}
	}
	acc, ok0 := d.s.kindAt(0)
	b, ok1 := d.s.kindAt(1)
	a, ok2 := d.s.kindAt(2)
	out, ok3 := d.s.kindAt(3)
	if !ok || m != 16 || n != 8 || !(ok0 && ok1 && ok2 && ok3) || out != acc || !d.args(4, 4) {
		d.fail("the interpreter does not know this form of the instruction")
		return
	}
	p := d.matrixProduct(a, b, acc, k, d.s.has("satfinite"))
	regsA, regsB := d.registers(1, k*a.bits/64), d.registers(2, k*b.bits/128)
	count := 4
	if p.half {
		count = 2
	}
	to, from := d.destinations(count), d.registers(3, count)
	if d.err != nil {
		return
	}
	d.in.flow = meets
	d.in.run = func(w *warp, mask uint32) {
		s := w.c.tiles
		for i, r := range regsA {
			setA(&s.a, &p, &w.regs[r], i, 0)
		}
		per := 32 / b.bits
		for i, r := range regsB {
			for l := range lanes {
				s.b.set(&p, b, l/4, l%4*per+4*per*i, uint32(w.regs[r][l]))
			}
		}
		p.accumulate(w, s, to, from, 0, true)
	}
}

// setA reads register i of the A fragment of a warp into 16 rows.
func setA(t *tile, p *product, v *vector, i, row int) {
	per := 32 / p.a.bits
	for l := range lanes {
		t.set(p, p.a, row+l/4+8*(i&1), l%4*per+4*per*(i>>1), uint32(v[l]))
	}
}

// accumulate computes 16 rows of results: registers 4j to 4j+3 are columns 8j to
// 8j+7, two neighbors of a row and the same of the row 8 below. Accumulators of
// 16 bits lie two in a register.
func (p *product) accumulate(w *warp, s *tiles, to, from []int, row int, add bool) {
	for i := range to {
		for l := range lanes {
			var old uint32
			if add {
				old = uint32(w.regs[from[i]][l])
			}
			g, c := l/4, l%4*2
			if p.half {
				r, col := row+g+8*(i&1), i/2*8+c
				low := p.dot(old&0xffff, &s.a, &s.b, r, col)
				w.regs[to[i]][l] = uint64(low | p.dot(old>>16, &s.a, &s.b, r, col+1)<<16)
				continue
			}
			w.regs[to[i]][l] = uint64(p.dot(old, &s.a, &s.b, row+g+8*(i>>1&1), i/4*8+c+i&1))
		}
	}
}

// tiles are the operands of the matrix instruction that runs.
type tiles struct{ a, b tile }

func shapesOf(s *statement) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, m := range s.mods {
			if _, _, _, ok := shape(m); ok && !yield(m) {
				return
			}
		}
	}
}

// registers returns the slots of a vector argument of n registers.
func (d *decoder) registers(i, n int) []int {
	return d.slots(i, n, func(o operand) int { return d.value(o, kinds["b32"]) })
}

// destinations are those of one that is written.
func (d *decoder) destinations(n int) []int { return d.slots(0, n, d.target) }

func (d *decoder) slots(i, n int, of func(operand) int) []int {
	list := d.listOf(i)
	if len(list) != n {
		d.fail("argument %d has %d registers, want %d", i+1, len(list), n)
		return nil
	}
	all := make([]int, n)
	for j, o := range list {
		all[j] = of(o)
	}
	return all
}
