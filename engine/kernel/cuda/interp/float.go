package interp

import "math"

// floatOps are arithmetic on floating point numbers that has no integer form.
var floatOps = map[string]func(*decoder){
	"fma":   fmaFloat,
	"sqrt":  rootFloat,
	"rcp":   approximate(func(x float64) float64 { return divOdd(1, x) }),
	"rsqrt": approximate(func(x float64) float64 { return 1 / math.Sqrt(x) }),
	"ex2":   approximate(math.Exp2),
	"lg2":   approximate(math.Log2),
	"sin":   approximate(math.Sin),
	"cos":   approximate(math.Cos),
	"tanh":  approximate(math.Tanh),
	"setp":  compare,
	"set":   compare,
	"testp": classify,
	"copysign": func(d *decoder) {
		d.only()
		k := d.kind()
		top := uint64(1) << (k.bits - 1)
		d.binary(k, func(a, b uint64) uint64 { return a&top | b&^top })
	},
}

// mode returns the rounding mode that the instruction names.
func (d *decoder) mode() rounding {
	for name, mode := range map[string]rounding{"rz": zero, "rm": down, "rp": up, "rna": awayTies} {
		if d.s.has(name) {
			return mode
		}
	}
	return nearest
}

// realBinary decodes an operation of two numbers by what it is in float64,
// rounded to odd: on one number or on a pair.
func (d *decoder) realBinary(f func(a, b float64) float64) {
	d.only("rn", "rz", "rm", "rp", "ftz", "sat", "full", "approx")
	k := d.kind()
	if k.bits == 64 {
		d.doubles()
		d.binary(k, func(a, b uint64) uint64 {
			return math.Float64bits(f(math.Float64frombits(a), math.Float64frombits(b)))
		})
		return
	}
	in, out := d.converters(k)
	if !k.pair {
		d.binary(k, func(a, b uint64) uint64 { return out(f(in(a), in(b))) })
		return
	}
	d.binary(k, func(a, b uint64) uint64 {
		return out(f(in(a&0xffff), in(b&0xffff))) | out(f(in(a>>16&0xffff), in(b>>16&0xffff)))<<16
	})
}

// doubles refuses rounding modes for float64, which nobody uses.
func (d *decoder) doubles() {
	if d.mode() != nearest || d.s.has("approx") {
		d.fail("a mode of float64 that the interpreter does not know")
	}
}

// converters returns how a type's values are read and written, with the
// instruction's rounding, flush and saturation.
func (d *decoder) converters(k kind) (in func(uint64) float64, out func(float64) uint64) {
	f, ok := formatOf(k)
	if !ok {
		d.fail("no arithmetic on this type")
	}
	mode, ftz, sat := d.mode(), d.s.has("ftz"), d.s.has("sat")
	isSingle := k.single()
	in = f.value
	if isSingle {
		in = fromSingle
	}
	if ftz && isSingle {
		in = func(c uint64) float64 { return fromSingle(flush(c)) }
	}
	return in, func(v float64) uint64 {
		if sat {
			if v = min(max(v, 0), 1); v != v {
				v = 0
			}
		}
		if isSingle {
			if c := single(v, mode); !ftz {
				return c
			} else {
				return flush(c)
			}
		}
		return f.code(v, mode, false)
	}
}

func addFloat(d *decoder) {
	if d.kind().bits == 64 {
		d.realBinary(func(a, b float64) float64 { return a + b })
		return
	}
	if d.plainSingle() {
		d.binary(d.kind(), func(a, b uint64) uint64 {
			return canonical(math.Float32frombits(uint32(a)) + math.Float32frombits(uint32(b)))
		})
		return
	}
	mode := d.mode()
	d.realBinary(func(a, b float64) float64 { return addOdd(a, b, mode) })
}

// plainSingle says that it is float32 with nothing but round to nearest.
func (d *decoder) plainSingle() bool {
	k := d.kind()
	return k.single() && d.mode() == nearest && !d.s.has("ftz") && !d.s.has("sat")
}

// canonical is a float32 as a register has it: all NaNs are one.
func canonical(v float32) uint64 {
	if v != v {
		return 0x7fffffff
	}
	return uint64(math.Float32bits(v))
}

func subFloat(d *decoder) {
	if d.kind().bits == 64 {
		d.realBinary(func(a, b float64) float64 { return a - b })
		return
	}
	mode := d.mode()
	d.realBinary(func(a, b float64) float64 { return addOdd(a, -b, mode) })
}

// mulFloat needs no rounding to odd: products of 24 bits are exact in float64.
func mulFloat(d *decoder) {
	if d.kind().bits != 64 && d.plainSingle() {
		d.binary(d.kind(), func(a, b uint64) uint64 {
			return canonical(math.Float32frombits(uint32(a)) * math.Float32frombits(uint32(b)))
		})
		return
	}
	d.realBinary(func(a, b float64) float64 { return a * b })
}

func divFloat(d *decoder) {
	if d.kind().bits == 64 {
		d.realBinary(func(a, b float64) float64 { return a / b })
		return
	}
	d.realBinary(divOdd)
}

// fmaFloat is fma and the float form of mad: one rounding.
func fmaFloat(d *decoder) {
	d.only("rn", "rz", "rm", "rp", "ftz", "sat", "relu")
	k := d.kind()
	if k.bits == 64 {
		d.doubles()
		d.ternary(k, k, func(a, b, c uint64) uint64 {
			return math.Float64bits(math.FMA(math.Float64frombits(a), math.Float64frombits(b), math.Float64frombits(c)))
		})
		return
	}
	in, out := d.converters(k)
	relu, mode := d.s.has("relu"), d.mode()
	one := func(a, b, c uint64) uint64 {
		v := addOdd(in(a)*in(b), in(c), mode)
		if relu && v < 0 {
			v = 0
		}
		return out(v)
	}
	if !k.pair {
		d.ternary(k, k, one)
		return
	}
	d.ternary(k, k, func(a, b, c uint64) uint64 {
		return one(a&0xffff, b&0xffff, c&0xffff) | one(a>>16&0xffff, b>>16&0xffff, c>>16&0xffff)<<16
	})
}

// perValue decodes an operation on the code of one number or of each of a pair.
func (d *decoder) perValue(f func(a uint64) uint64) {
	k := d.kind()
	if !k.pair {
		d.unary(k, f)
		return
	}
	d.unary(k, func(a uint64) uint64 { return f(a&0xffff) | f(a>>16&0xffff)<<16 })
}

func absFloat(d *decoder) {
	d.only("ftz")
	d.signs(func(a, sign uint64) uint64 { return a &^ sign })
}

func negFloat(d *decoder) {
	d.only("ftz")
	d.signs(func(a, sign uint64) uint64 { return a ^ sign })
}

func (d *decoder) signs(f func(a, sign uint64) uint64) {
	k := d.kind()
	sign := uint64(1) << (k.bits - 1)
	if k.pair {
		sign = 1 << 15
	}
	ftz := d.s.has("ftz") && k.bits == 32 && !k.pair
	d.perValue(func(a uint64) uint64 {
		if ftz {
			a = flush(a)
		}
		return f(a, sign)
	})
}

// minMaxFloat returns the number if one operand is NaN, unless .NaN is named;
// -0 is less than +0.
func minMaxFloat(d *decoder) {
	d.only("ftz", "NaN")
	least, strict := d.s.op == "min", d.s.has("NaN")
	pick := func(a, b float64) float64 {
		switch {
		case strict && (a != a || b != b):
			return math.NaN()
		case a != a:
			return b
		case b != b:
			return a
		case least:
			return min(a, b)
		}
		return max(a, b)
	}
	k := d.kind()
	if k.bits == 64 {
		d.binary(k, func(a, b uint64) uint64 {
			return math.Float64bits(pick(math.Float64frombits(a), math.Float64frombits(b)))
		})
		return
	}
	in, out := d.converters(k)
	if k.pair {
		d.binary(k, func(a, b uint64) uint64 {
			return out(pick(in(a&0xffff), in(b&0xffff))) | out(pick(in(a>>16&0xffff), in(b>>16&0xffff)))<<16
		})
		return
	}
	d.binary(k, func(a, b uint64) uint64 { return out(pick(in(a), in(b))) })
}

func rootFloat(d *decoder) {
	d.only("rn", "rz", "rm", "rp", "ftz", "approx")
	k := d.kind()
	if k.bits == 64 {
		d.doubles()
		d.unary(k, func(a uint64) uint64 { return math.Float64bits(math.Sqrt(math.Float64frombits(a))) })
		return
	}
	in, out := d.converters(k)
	d.unary(k, func(a uint64) uint64 { return out(rootOdd(in(a))) })
}

// approximate decodes a function that hardware approximates. The interpreter
// rounds the float64 result: it is nearer to the truth than hardware, whose bits
// nobody documents.
func approximate(f func(float64) float64) func(*decoder) {
	return func(d *decoder) {
		d.only("approx", "ftz", "rn", "rz", "rm", "rp")
		k := d.kind()
		if k.bits == 64 || d.s.op != "rcp" && d.mode() != nearest {
			d.fail("no approximation of that kind")
			return
		}
		in, out := d.converters(k)
		d.perValue(func(a uint64) uint64 { return out(f(in(a))) })
	}
}

// classify is testp.
func classify(d *decoder) {
	d.only("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	k := d.kind()
	if !d.args(2, 2) {
		return
	}
	test := map[string]func(v float64, tiny bool) bool{
		"finite":     func(v float64, _ bool) bool { return !math.IsInf(v, 0) && v == v },
		"infinite":   func(v float64, _ bool) bool { return math.IsInf(v, 0) },
		"number":     func(v float64, _ bool) bool { return v == v },
		"notanumber": func(v float64, _ bool) bool { return v != v },
		"normal":     func(v float64, tiny bool) bool { return !math.IsInf(v, 0) && v == v && (v == 0 || !tiny) },
		"subnormal":  func(v float64, tiny bool) bool { return v != 0 && tiny },
	}[d.s.mods[0]]
	if test == nil || k.bits != 32 {
		d.fail("this test is not known")
		return
	}
	to, a := d.predDst(&d.s.args[0]), d.src(1, k)
	d.in.run = func(w *warp, mask uint32) {
		var out uint32
		for i, c := range w.regs[a] {
			if test(fromSingle(c), c&0x7f80_0000 == 0) {
				out |= 1 << i
			}
		}
		w.preds[to] = w.preds[to]&^mask | out&mask
	}
}
