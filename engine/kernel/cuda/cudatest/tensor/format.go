// Package tensor is the arithmetic of NVIDIA's matrix units and of what feeds
// them, as pure functions: number formats and their rounding, the sums of mma
// and wgmma, which lane has which element, the shared memory that a descriptor
// of wgmma names, and the bytes that a tensor copy moves. It knows no threads,
// no memory and no PTX text. interp has its own arithmetic on purpose: this is
// the second opinion that cudatest compares a device with.
//
// Formats, lanes and layouts are those of the PTX ISA. The order and the
// rounding of the sums are documented nowhere: Unit follows what MMA-Sim
// (arXiv 2511.10909) measured on Hopper, where all products of a block are
// aligned to the largest exponent and cut off, and only then added. An H200
// gave these bits where package cudatest asked for sums; of FP8 in mma.sync five are on record.
package tensor

import "math"

// Format is how a number lies in an element of a matrix.
type Format uint8

// The formats.
const (
	F16  Format = iota // IEEE binary16
	BF16               // the upper half of a float32
	TF32               // 10 bits of fraction in a 32-bit element
	E4M3               // no infinity; all ones is NaN
	E5M2               // IEEE-like, with infinity
	F32
)

// shape is a format's exponent and fraction in bits.
type shape struct {
	exponent, fraction int
	width              int  // of the element
	infinite           bool // the largest exponent means infinity and NaN
}

var shapes = [...]shape{
	F16: {5, 10, 16, true}, BF16: {8, 7, 16, true}, TF32: {8, 10, 32, true},
	E4M3: {4, 3, 8, false}, E5M2: {5, 2, 8, true}, F32: {8, 23, 32, true},
}

// Bytes is the size of an element.
func (f Format) Bytes() int { return shapes[f].width / 8 }

func (s shape) bias() int { return 1<<(s.exponent-1) - 1 }

// split takes an element apart: value = ±significand · 2^(exponent - fraction).
// special is the value where it is infinite or NaN, else 0.
func (f Format) split(bits uint32) (significand int64, exponent int, special float64) {
	s := shapes[f]
	if f == TF32 {
		bits >>= 23 - s.fraction // the unit does not look at the other bits
	}
	field := int(bits>>s.fraction) & (1<<s.exponent - 1)
	significand = int64(bits & (1<<s.fraction - 1))
	negative := bits>>(s.exponent+s.fraction)&1 != 0
	switch top := field == 1<<s.exponent-1; {
	case top && s.infinite && significand == 0:
		special = math.Inf(1)
		if negative {
			special = math.Inf(-1)
		}
		return 0, 0, special
	case top && (s.infinite || significand == 1<<s.fraction-1):
		return 0, 0, math.NaN()
	case field == 0:
		exponent = 1 - s.bias()
	default:
		exponent = field - s.bias()
		significand |= 1 << s.fraction
	}
	if negative {
		significand = -significand
	}
	return significand, exponent, 0
}

// Decode is the value of an element.
func (f Format) Decode(bits uint32) float64 {
	significand, exponent, special := f.split(bits)
	if special != 0 {
		return special
	}
	s := shapes[f]
	if significand == 0 && bits>>(s.width-1)&1 != 0 {
		return math.Copysign(0, -1)
	}
	return math.Ldexp(float64(significand), exponent-s.fraction)
}

// Rounding is the direction in which a value that does not fit is rounded.
type Rounding uint8

// The directions, named as PTX names them.
const (
	RN  Rounding = iota // to nearest, ties to even
	RNA                 // to nearest, ties away from zero
	RZ                  // toward zero
	RM                  // down
	RP                  // up
)

// Conversion says how Encode rounds.
type Conversion struct {
	Rounding Rounding
	Finite   bool // .satfinite: what is too large becomes the largest number
	ReLU     bool // .relu: negative values become +0
}

// Encode rounds a value to an element. NaN becomes PTX's canonical NaN of the
// format. E4M3 has no infinity: without Finite, what is too large becomes NaN.
func (f Format) Encode(x float64, c Conversion) uint32 {
	s := shapes[f]
	if math.IsNaN(x) {
		return s.nan()
	}
	sign := uint32(0)
	if math.Signbit(x) {
		if c.ReLU {
			return 0
		}
		sign = 1 << (s.width - 1)
	}
	mag := math.Abs(x)
	code := s.beyond()
	if !math.IsInf(x, 0) {
		code = s.round(mag, c.Rounding, sign != 0)
	}
	if code > s.largest() {
		code = s.overflow(c, math.IsInf(x, 0), sign != 0)
	}
	if f == TF32 {
		code <<= 23 - s.fraction
	}
	return sign | code
}

// round returns the code of a magnitude as if exponents had no end.
func (s shape) round(mag float64, r Rounding, negative bool) uint32 {
	if mag == 0 {
		return 0
	}
	_, e := math.Frexp(mag)
	exponent := max(e-1, 1-s.bias())
	scaled := math.Ldexp(mag, s.fraction-exponent) // < 2^(fraction+1)
	whole := math.Floor(scaled)
	rest := scaled - whole
	up := false
	switch r {
	case RN:
		up = rest > 0.5 || rest == 0.5 && math.Mod(whole, 2) != 0
	case RNA:
		up = rest >= 0.5
	case RM:
		up = rest > 0 && negative
	case RP:
		up = rest > 0 && !negative
	}
	if up {
		whole++
	}
	// A carry out of the fraction, and out of the subnormals, lands in the exponent.
	code := int64(whole) + int64(exponent-(1-s.bias()))<<s.fraction
	if code > int64(s.beyond()) {
		return s.beyond()
	}
	return uint32(code)
}

// largest is the code of the largest number.
func (s shape) largest() uint32 {
	top := uint32(1)<<(s.exponent+s.fraction) - 1
	if s.infinite {
		return top - 1<<s.fraction
	}
	return top - 1
}

// beyond is a code above all numbers.
func (s shape) beyond() uint32 { return s.largest() + 1 }

// overflow is the code of a magnitude above the largest number.
func (s shape) overflow(c Conversion, infinite, negative bool) uint32 {
	toward := c.Rounding == RZ || c.Rounding == RM && !negative || c.Rounding == RP && negative
	if c.Finite || toward && !infinite {
		return s.largest()
	}
	return s.beyond() // infinity, or the NaN of E4M3
}

// nan is the canonical NaN: all ones but the sign.
func (s shape) nan() uint32 { return 1<<(s.width-1) - 1 }
