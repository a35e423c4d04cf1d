package interp

import "math"

var convertOps = map[string]func(*decoder){"cvt": convert}

// convert is cvt: the first type is the result's.
func convert(d *decoder) {
	d.only("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "satfinite", "relu")
	to, ok := d.s.kindAt(1)
	from := d.kind()
	if !ok {
		d.fail("it wants two types")
		return
	}
	switch {
	case to.pair:
		d.convertPair(to, from)
	case !to.float() && !from.float():
		d.unary(from, d.convertInteger(to, from))
	case !to.float():
		d.unary(from, d.toInteger(to, from))
	case !from.float():
		d.unary(from, d.toFloat(to, from))
	default:
		d.unary(from, d.convertFloat(to, from))
	}
}

func (d *decoder) convertInteger(to, from kind) func(uint64) uint64 {
	m, fm := to.mask(), from.mask()
	wide := m // of the register: what is narrower is extended by its sign
	if len(d.s.args) > 0 && d.s.args[0].sym != nil && to.class == 's' {
		wide = max(m, d.s.args[0].sym.kind.mask())
	}
	saturate := d.s.has("sat")
	return func(a uint64) uint64 {
		v := int64(a & fm)
		if from.class == 's' {
			v = extend(a, from.bits)
		}
		if saturate {
			above := from.class == 'u' && v < 0 // the signed range
			switch {
			case to.class == 'u' && from.class == 's' && v < 0:
				v = 0
			case to.class == 'u' && (above || uint64(v) > m):
				v = int64(m)
			case to.class == 's' && above:
				v = int64(m >> 1)
			case to.class == 's':
				v = extend(clampSigned(v, to.bits), to.bits)
			}
		}
		if to.class == 's' {
			v = extend(uint64(v), to.bits)
		}
		return uint64(v) & wide
	}
}

// integerMode is the rounding of a conversion to an integer.
func (d *decoder) integerMode() (rounding, bool) {
	for name, mode := range map[string]rounding{"rni": nearest, "rzi": zero, "rmi": down, "rpi": up} {
		if d.s.has(name) {
			return mode, true
		}
	}
	return nearest, false
}

// reader returns how a float type's codes become values.
func (d *decoder) reader(k kind) func(uint64) float64 {
	if k.bits == 64 {
		return math.Float64frombits
	}
	f, ok := formatOf(k)
	if !ok {
		d.fail("a type that is not converted")
	}
	if k.single() && d.s.has("ftz") {
		return func(c uint64) float64 { return fromSingle(flush(c)) }
	}
	if k.single() {
		return fromSingle
	}
	return f.value
}

// toInteger rounds and keeps within the range of the type; NaN gives 0, in 64
// bits the top bit alone.
func (d *decoder) toInteger(to, from kind) func(uint64) uint64 {
	mode, ok := d.integerMode()
	if !ok {
		d.fail("no rounding to an integer")
	}
	in, m := d.reader(from), to.mask()
	low, high := 0.0, math.Ldexp(1, to.bits)
	if to.class == 's' {
		low, high = -high/2, high/2
	}
	return func(a uint64) uint64 {
		v := integral(in(a), mode)
		switch {
		case v != v && (to.bits == 64 || from.bits == 64):
			return 1 << (to.bits - 1)
		case v != v:
			return 0
		case v <= low:
			return uint64(int64(low)) & m
		case v >= high && to.class == 's':
			return m >> 1
		case v >= high:
			return m
		case to.class == 's':
			return uint64(int64(v)) & m
		}
		return uint64(v) & m
	}
}

// writer returns how values become codes of a float type.
func (d *decoder) writer(k kind) func(float64) uint64 {
	mode, saturate, relu, unit := d.mode(), d.s.has("satfinite"), d.s.has("relu"), d.s.has("sat")
	ftz := d.s.has("ftz") && k.single()
	f, _ := formatOf(k)
	return func(v float64) uint64 {
		if relu && (v < 0 || v == 0) { // NaN stays
			v = 0
		}
		if unit {
			if v = min(max(v, 0), 1); v != v {
				v = 0
			}
		}
		switch {
		case k.bits == 64:
			return math.Float64bits(v)
		case ftz:
			return flush(single(v, mode))
		case k.class == 't' && v != v:
			return singleFormat.nan
		case k.class == 't': // the bits of a float32 whose low ones are zero
			return f.code(v, mode, saturate) << 13
		case k.single():
			return single(v, mode)
		}
		return f.code(v, mode, saturate)
	}
}

func (d *decoder) toFloat(to, from kind) func(uint64) uint64 {
	out, fm := d.writer(to), from.mask()
	return func(a uint64) uint64 {
		if v := extend(a, from.bits); from.class == 's' && v < 0 {
			return out(fromInteger(uint64(-v), true))
		}
		return out(fromInteger(a&fm, false))
	}
}

func (d *decoder) convertFloat(to, from kind) func(uint64) uint64 {
	in, out := d.reader(from), d.writer(to)
	if mode, ok := d.integerMode(); ok {
		return func(a uint64) uint64 { return out(integral(in(a), mode)) }
	}
	// Two conversions are integer instructions where they run, so NaN keeps what bits it has.
	plain := !d.s.has("ftz") && !d.s.has("sat") && !d.s.has("satfinite") && !d.s.has("relu")
	switch {
	case from.class == 'h' && to.single() && plain:
		return func(a uint64) uint64 { return a & 0xffff << 16 }
	case from.single() && to.class == 't' && d.s.has("rna") && plain:
		return func(a uint64) uint64 {
			if v := in(a); v == v {
				return out(v)
			}
			return a &^ (1<<13 - 1) // infinity, if no other bit was set
		}
	}
	return func(a uint64) uint64 { return out(in(a)) }
}

// convertPair makes two narrow values: of two float32, the first one above, or of a pair.
func (d *decoder) convertPair(to, from kind) {
	out, in := d.writer(to), d.reader(from)
	if from.pair {
		half := from.bits / 2
		m := uint64(1)<<half - 1
		d.unary(from, func(a uint64) uint64 { return out(in(a&m)) | out(in(a>>half&m))<<(to.bits/2) })
		return
	}
	if from.bits != 32 {
		d.fail("a pair is made of float32")
		return
	}
	d.binary(from, func(a, b uint64) uint64 { return out(in(b)) | out(in(a))<<(to.bits/2) })
}
