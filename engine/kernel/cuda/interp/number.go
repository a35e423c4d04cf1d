package interp

import (
	"math"
	"math/bits"
)

// Arithmetic goes through float64: every value of a narrower type is one. A
// result that float64 cannot represent is rounded to odd there (its last bit is
// set), so that rounding it once more gives what one rounding would have given.

// rounding is a rounding mode.
type rounding uint8

const (
	nearest  rounding = iota // ties to even
	zero                     // toward zero
	down                     // toward -infinity
	up                       // toward +infinity
	awayTies                 // nearest, ties away from zero
)

// format is a binary floating point type.
type format struct {
	exponent, mantissa int    // bits
	finite             bool   // no infinity: e4m3
	nan                uint64 // what operations return
}

var (
	halfFormat   = format{5, 10, false, 0x7fff}
	brainFormat  = format{8, 7, false, 0x7fff}
	singleFormat = format{8, 23, false, 0x7fffffff}
	tf32Format   = format{8, 10, false, 0x7fffffff}
	e4m3Format   = format{4, 3, true, 0x7f}
	e5m2Format   = format{5, 2, false, 0x7f}
)

// formatOf returns the format of a type and whether it has one of less than 64 bits.
func formatOf(k kind) (format, bool) {
	switch k.class {
	case 'h':
		return brainFormat, true
	case 'e':
		return e4m3Format, true
	case 'q':
		return e5m2Format, true
	case 't':
		return tf32Format, true
	case 'f':
		if k.bits == 16 || k.pair {
			return halfFormat, true
		}
		return singleFormat, k.bits == 32
	}
	return format{}, false
}

// bias is the exponent of 1.
func (f format) bias() int { return 1<<(f.exponent-1) - 1 }

// most is the code of the largest finite value.
func (f format) most() uint64 {
	if f.finite {
		return 1<<(f.exponent+f.mantissa) - 2
	}
	return (1<<f.exponent-1)<<f.mantissa - 1
}

// value reads a code.
func (f format) value(code uint64) float64 {
	e := int(code >> f.mantissa & (1<<f.exponent - 1))
	m := code & (1<<f.mantissa - 1)
	negative := code>>(f.exponent+f.mantissa)&1 != 0
	top := 1<<f.exponent - 1
	var v float64
	switch {
	case e == top && f.finite && m == 1<<f.mantissa-1, e == top && !f.finite && m != 0:
		return math.NaN()
	case e == top && !f.finite:
		v = math.Inf(1)
	case e == 0:
		v = math.Ldexp(float64(m), 1-f.bias()-f.mantissa)
	default:
		v = math.Ldexp(float64(m|1<<f.mantissa), e-f.bias()-f.mantissa)
	}
	if negative {
		return math.Copysign(v, -1)
	}
	return v
}

// code rounds a value. With saturate what is too large becomes the largest
// finite value, infinities too; without, infinity or, where there is none, NaN.
func (f format) code(v float64, mode rounding, saturate bool) uint64 {
	if v != v {
		return f.nan
	}
	raw := math.Float64bits(v)
	sign := raw >> 63 << (f.exponent + f.mantissa)
	negative := sign != 0
	overflow := (uint64(1)<<f.exponent - 1) << f.mantissa
	if f.finite {
		overflow = f.nan
	}
	if saturate {
		overflow = f.most()
	}
	if math.IsInf(v, 0) {
		return sign | overflow
	}
	m := raw & (1<<52 - 1)
	e := int(raw >> 52 & 2047)
	if e == 0 { // no format but float64 itself reaches values that small
		if m == 0 {
			return sign
		}
		e = 1
	} else {
		m |= 1 << 52
	}
	e += f.bias() - 1023
	drop := 52 - f.mantissa
	if e < 1 { // subnormal
		drop += 1 - e
		e = 1
	}
	q := roundShift(m, drop, mode, negative)
	// The hidden bit of q adds 1 to an exponent that is one too small.
	out := uint64(e-1)<<f.mantissa + q
	if out > f.most() {
		if !saturate && !f.finite && (mode == zero || mode == down && !negative || mode == up && negative) {
			return sign | f.most()
		}
		return sign | overflow
	}
	return sign | out
}

// roundShift drops low bits of m.
func roundShift(m uint64, drop int, mode rounding, negative bool) uint64 {
	if drop >= 64 {
		if m != 0 && (mode == up && !negative || mode == down && negative) {
			return 1
		}
		return 0
	}
	q, rest, half := m>>drop, m&(1<<drop-1), uint64(1)<<drop>>1
	switch {
	case rest == 0:
	case mode == nearest && (rest > half || rest == half && q&1 != 0),
		mode == awayTies && rest >= half,
		mode == up && !negative, mode == down && negative:
		q++
	}
	return q
}

// single rounds to float32.
func single(v float64, mode rounding) uint64 {
	if mode == nearest {
		if v != v {
			return 0x7fffffff
		}
		return uint64(math.Float32bits(float32(v)))
	}
	return singleFormat.code(v, mode, false)
}

func fromSingle(code uint64) float64 { return float64(math.Float32frombits(uint32(code))) }

// odd returns a float64 that stands for sum + rest, where |rest| is less than a
// step of sum: sum itself if rest is 0, else the neighbor with an odd last bit.
func odd(sum, rest float64) float64 {
	if rest == 0 || math.IsInf(sum, 0) || sum != sum {
		return sum
	}
	raw := math.Float64bits(sum)
	if raw&1 != 0 {
		return sum
	}
	if (rest > 0) == (sum > 0) {
		return math.Float64frombits(raw + 1)
	}
	return math.Float64frombits(raw - 1)
}

// addOdd is a + b, rounded to odd. What cancels is +0, rounding down -0.
func addOdd(a, b float64, mode rounding) float64 {
	sum := a + b
	if sum == 0 && mode == down && math.Signbit(a) != math.Signbit(b) {
		return math.Copysign(0, -1)
	}
	bb := sum - a
	return odd(sum, (a-(sum-bb))+(b-bb))
}

// divOdd is a / b, rounded to odd, for values of at most 24 bits.
func divOdd(a, b float64) float64 {
	q := a / b
	if math.IsInf(q, 0) || q != q || q == 0 {
		return q
	}
	rest := math.FMA(-q, b, a) // exact
	if b < 0 {
		rest = -rest
	}
	return odd(q, rest)
}

// rootOdd is the square root, rounded to odd.
func rootOdd(a float64) float64 {
	r := math.Sqrt(a)
	if math.IsInf(r, 0) || r != r || r == 0 {
		return r
	}
	return odd(r, math.FMA(-r, r, a))
}

// flush replaces subnormal float32 codes by zero of their sign.
func flush(code uint64) uint64 {
	if code&0x7f80_0000 == 0 {
		return code & 0x8000_0000
	}
	return code
}

// integral rounds to an integer.
func integral(v float64, mode rounding) float64 {
	switch mode {
	case zero:
		return math.Trunc(v)
	case down:
		return math.Floor(v)
	case up:
		return math.Ceil(v)
	}
	return math.RoundToEven(v)
}

// fromInteger converts a magnitude of up to 64 bits, rounded to odd.
func fromInteger(magnitude uint64, negative bool) float64 {
	drop := max(bits.Len64(magnitude)-53, 0)
	m := magnitude >> drop
	if magnitude != m<<drop {
		m |= 1
	}
	v := math.Ldexp(float64(m), drop)
	if negative {
		return -v
	}
	return v
}
