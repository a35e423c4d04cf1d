package interp

import "math/bits"

// integerOps are arithmetic and logic on integers. Values of less than 64 bits
// lie zero-extended in their registers.
var integerOps = map[string]func(*decoder){
	"add": either(addInteger, addFloat),
	"sub": either(subInteger, subFloat),
	"mul": either(mulInteger, mulFloat),
	"mad": either(madInteger, fmaFloat),
	"div": either(divInteger, divFloat),
	"rem": divInteger,
	"abs": either(absInteger, absFloat),
	"neg": either(negInteger, negFloat),
	"min": either(minMaxInteger, minMaxFloat),
	"max": either(minMaxInteger, minMaxFloat),
	"and": logic, "or": logic, "xor": logic, "not": logic,
	"shl": shift, "shr": shift, "shf": funnel,
	"bfe": extract, "bfi": insert,
	"popc": bitCount, "clz": bitCount, "brev": bitCount, "bfind": bitCount,
	"prmt": permute, "lop3": logic3, "dp4a": dotBytes,
}

// extend reads the low bits of v as a signed number.
func extend(v uint64, width int) int64 { return int64(v<<(64-width)) >> (64 - width) }

func addInteger(d *decoder) {
	d.only("sat")
	k := d.kind()
	if d.s.has("sat") {
		d.binary(k, func(a, b uint64) uint64 { return clampSigned(extend(a, 32)+extend(b, 32), 32) })
		return
	}
	if k.bits == 32 && d.args(3, 3) {
		to, a, b := d.dst(), d.src(1, k), d.src(2, k)
		d.in.run = func(w *warp, mask uint32) {
			x, y, z := &w.regs[a], &w.regs[b], &w.regs[to]
			for i := range z {
				if mask>>i&1 != 0 {
					z[i] = uint64(uint32(x[i] + y[i]))
				}
			}
		}
		return
	}
	m := k.mask()
	d.binary(k, func(a, b uint64) uint64 { return (a + b) & m })
}

func subInteger(d *decoder) {
	d.only("sat")
	k := d.kind()
	m := k.mask()
	if d.s.has("sat") {
		d.binary(k, func(a, b uint64) uint64 { return clampSigned(extend(a, 32)-extend(b, 32), 32) })
		return
	}
	d.binary(k, func(a, b uint64) uint64 { return (a - b) & m })
}

// clampSigned keeps a number within the signed range of a width.
func clampSigned(v int64, width int) uint64 {
	low, high := int64(-1)<<(width-1), int64(1)<<(width-1)-1
	return uint64(min(max(v, low), high)) & (^uint64(0) >> (64 - width))
}

// product returns the function of mul with one of .lo, .hi and .wide.
func (d *decoder) product() (f func(a, b uint64) uint64, out kind) {
	k := d.kind()
	d.only("lo", "hi", "wide")
	m, n, signed := k.mask(), k.bits, k.class == 's'
	switch {
	case d.s.has("lo"):
		return func(a, b uint64) uint64 { return a * b & m }, k
	case d.s.has("wide") && n < 64:
		out = kind{class: k.class, bits: 2 * n}
		if signed {
			wide := out.mask()
			return func(a, b uint64) uint64 { return uint64(extend(a, n)*extend(b, n)) & wide }, out
		}
		return func(a, b uint64) uint64 { return (a & m) * (b & m) }, out
	case d.s.has("hi") && n < 64:
		if signed {
			return func(a, b uint64) uint64 { return uint64(extend(a, n)*extend(b, n)>>n) & m }, k
		}
		return func(a, b uint64) uint64 { return (a & m) * (b & m) >> n }, k
	case d.s.has("hi"):
		return func(a, b uint64) uint64 {
			high, _ := bits.Mul64(a, b)
			if signed {
				high -= uint64(int64(a)>>63)&b + uint64(int64(b)>>63)&a
			}
			return high
		}, k
	}
	d.fail("none of .lo, .hi and .wide")
	return func(a, b uint64) uint64 { return 0 }, k
}

func mulInteger(d *decoder) {
	f, _ := d.product()
	d.binary(d.kind(), f)
}

func madInteger(d *decoder) {
	f, out := d.product()
	m := out.mask()
	d.ternary(d.kind(), out, func(a, b, c uint64) uint64 { return (f(a, b) + c) & m })
}

// divInteger is div and rem. What a division by zero gives is left open by the
// instruction set; hardware gives all ones, and the dividend as remainder.
func divInteger(d *decoder) {
	d.only()
	k := d.kind()
	m, n, rest := k.mask(), k.bits, d.s.op == "rem"
	d.binary(k, func(a, b uint64) uint64 {
		a, b = a&m, b&m
		switch {
		case b == 0 && rest:
			return a
		case b == 0:
			return m
		case k.class == 's' && rest:
			return uint64(extend(a, n)%extend(b, n)) & m
		case k.class == 's':
			return uint64(extend(a, n)/extend(b, n)) & m
		case rest:
			return a % b
		}
		return a / b
	})
}

func absInteger(d *decoder) {
	d.only()
	k := d.kind()
	m, n := k.mask(), k.bits
	d.unary(k, func(a uint64) uint64 {
		if v := extend(a, n); v < 0 {
			return uint64(-v) & m
		}
		return a & m
	})
}

func negInteger(d *decoder) {
	d.only()
	m := d.kind().mask()
	d.unary(d.kind(), func(a uint64) uint64 { return -a & m })
}

func minMaxInteger(d *decoder) {
	d.only()
	k := d.kind()
	n, m, least, signed := k.bits, k.mask(), d.s.op == "min", k.class == 's'
	d.binary(k, func(a, b uint64) uint64 {
		less := a&m < b&m
		if signed {
			less = extend(a, n) < extend(b, n)
		}
		if less == least {
			return a & m
		}
		return b & m
	})
}

// logic is and, or, xor and not, on predicates too.
func logic(d *decoder) {
	d.only()
	k := d.kind()
	if k.class == 'p' {
		d.predicateLogic()
		return
	}
	m := k.mask()
	switch d.s.op {
	case "and":
		d.binary(k, func(a, b uint64) uint64 { return a & b & m })
	case "or":
		d.binary(k, func(a, b uint64) uint64 { return (a | b) & m })
	case "xor":
		d.binary(k, func(a, b uint64) uint64 { return (a ^ b) & m })
	case "not":
		d.unary(k, func(a uint64) uint64 { return ^a & m })
	}
}

// shift is shl and shr: what is shifted by the width or more is shifted out.
func shift(d *decoder) {
	d.only()
	k := d.kind()
	n, m := uint64(k.bits), k.mask()
	f := func(a, b uint64) uint64 { return a << min(uint64(uint32(b)), n) & m }
	if d.s.op == "shr" && k.class == 's' {
		f = func(a, b uint64) uint64 { return uint64(extend(a, k.bits)>>min(uint64(uint32(b)), n)) & m }
	} else if d.s.op == "shr" {
		f = func(a, b uint64) uint64 { return a & m >> min(uint64(uint32(b)), n) }
	}
	if d.args(3, 3) {
		d.in.run = binaryLanes(d.dst(), d.src(1, k), d.src(2, kinds["u32"]), f)
	}
}

// funnel is shf: 32 bits out of 64.
func funnel(d *decoder) {
	d.only("l", "r", "wrap", "clamp")
	wrap, left := d.s.has("wrap"), d.s.has("l")
	d.ternary(kinds["b32"], kinds["u32"], func(a, b, c uint64) uint64 {
		n := uint64(uint32(c))
		if wrap {
			n &= 31
		}
		both := b<<32 | a&0xffff_ffff
		if n = min(n, 32); left {
			return both << n >> 32 & 0xffff_ffff
		}
		return both >> n & 0xffff_ffff
	})
}

func extract(d *decoder) {
	d.only()
	k := d.kind()
	n, m, signed := uint64(k.bits), k.mask(), k.class == 's'
	if !d.args(4, 4) {
		return
	}
	u := kinds["u32"]
	d.in.run = ternaryLanes(d.dst(), d.src(1, k), d.src(2, u), d.src(3, u), func(a, at, size uint64) uint64 {
		at, size = at&255, size&255
		if size == 0 {
			return 0
		}
		if !signed {
			return a & m >> at & (1<<size - 1)
		}
		top := min(at+size, n)
		if at >= n { // only copies of the sign are left
			return uint64(extend(a, k.bits)>>63) & m
		}
		return uint64(int64(a<<(64-top))>>(64-top+at)) & m
	})
}

func insert(d *decoder) {
	d.only()
	k := d.kind()
	n, m, u := uint64(k.bits), k.mask(), kinds["u32"]
	if !d.args(5, 5) {
		return
	}
	to, a, b, at, size := d.dst(), d.src(1, k), d.src(2, k), d.src(3, u), d.src(4, u)
	d.in.run = func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask)
			p, s := w.regs[at][i]&255, w.regs[size][i]&255
			field := (uint64(1)<<min(s, n) - 1) << p & m
			if s >= 64 {
				field = ^uint64(0) << p & m
			}
			w.regs[to][i] = w.regs[b][i]&m&^field | w.regs[a][i]<<p&field
		}
	}
}

func bitCount(d *decoder) {
	d.only("shiftamt")
	k := d.kind()
	n, m, signed, amount := k.bits, k.mask(), k.class == 's', d.s.has("shiftamt")
	switch d.s.op {
	case "popc":
		d.unary(k, func(a uint64) uint64 { return uint64(bits.OnesCount64(a & m)) })
	case "clz":
		d.unary(k, func(a uint64) uint64 { return uint64(bits.LeadingZeros64(a&m) - 64 + n) })
	case "brev":
		d.unary(k, func(a uint64) uint64 { return bits.Reverse64(a) >> (64 - n) })
	case "bfind":
		d.unary(k, func(a uint64) uint64 {
			if signed && extend(a, n) < 0 {
				a = ^a
			}
			at := bits.Len64(a&m) - 1
			switch {
			case at < 0:
				return 0xffff_ffff
			case amount:
				return uint64(n - 1 - at)
			}
			return uint64(at)
		})
	}
}

// permute is prmt: bytes of two registers by a selector; bit 3 takes the sign.
func permute(d *decoder) {
	d.only()
	d.ternary(kinds["b32"], kinds["b32"], func(a, b, c uint64) uint64 {
		both := b<<32 | a&0xffff_ffff
		var out uint64
		for i := range 4 {
			sel := c >> (4 * i) & 15
			v := both >> (8 * (sel & 7)) & 255
			if sel&8 != 0 {
				v = v >> 7 * 255
			}
			out |= v << (8 * i)
		}
		return out
	})
}

// logic3 is lop3: any function of three bits, by its truth table.
func logic3(d *decoder) {
	d.only()
	if !d.args(5, 5) {
		return
	}
	table := d.s.args[4]
	if table.form != immOperand || table.imm > 255 {
		d.fail("its table is no byte")
		return
	}
	k := kinds["b32"]
	d.in.run = ternaryLanes(d.dst(), d.src(1, k), d.src(2, k), d.src(3, k), func(a, b, c uint64) uint64 {
		var out uint64
		for i := range uint64(8) {
			if table.imm>>i&1 != 0 {
				out |= (a ^ (i>>2&1 - 1)) & (b ^ (i>>1&1 - 1)) & (c ^ (i&1 - 1))
			}
		}
		return out & 0xffff_ffff
	})
}

// dotBytes is dp4a: four products of bytes and a sum.
func dotBytes(d *decoder) {
	d.only()
	ka, _ := d.s.kindAt(1)
	kb := d.kind()
	read := func(v uint64, k kind, i int) int64 {
		if v = v >> (8 * i) & 255; k.class == 's' {
			return extend(v, 8)
		}
		return int64(v)
	}
	d.ternary(kinds["b32"], kinds["b32"], func(a, b, c uint64) uint64 {
		sum := int64(c)
		for i := range 4 {
			sum += read(a, ka, i) * read(b, kb, i)
		}
		return uint64(sum) & 0xffff_ffff
	})
}
