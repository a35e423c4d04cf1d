package tensor

import "math"

// Unit is how a matrix unit adds. All products of a block and the accumulator
// are aligned to the largest exponent among them, cut off Kept bits below it,
// and added without further rounding.
type Unit struct {
	Kept     int // bits below the largest exponent
	Block    int // products of one sum; 0 is all of an instruction
	Fraction int // bits of the result's fraction: 23, or fewer where the accumulator is narrow
}

// The units of Hopper.
var (
	// Wide adds f16, bf16 and tf32 in mma.sync and wgmma. Of fp8 in mma.sync see DotUnpacked.
	Wide = Unit{Kept: 25, Fraction: 23}
	// Narrow adds fp8 in wgmma.
	Narrow = Unit{Kept: 13, Fraction: 13}
)

// Number is an element taken apart once, for many products. The value is
// Significand · 2^(Exponent - fraction of its format).
type Number struct {
	Significand int32
	Exponent    int16
	kind        kind
}

// kind tells numbers from what is none.
type kind uint8

const (
	finite kind = iota
	infinity
	negativeInfinity
	notNumber
)

// Take takes an element apart.
func (f Format) Take(bits uint32) Number {
	significand, exponent, special := f.split(bits)
	switch {
	case special == 0:
		return Number{Significand: int32(significand), Exponent: int16(exponent)}
	case math.IsNaN(special):
		return Number{kind: notNumber}
	case special > 0:
		return Number{kind: infinity}
	}
	return Number{kind: negativeInfinity}
}

// canonicalNaN is what matrix units and arithmetic return for NaN.
const canonicalNaN = 0x7fff_ffff

// Dot returns c plus the products of a and b as the unit adds them. a and b are
// of formats fa and fb, and as long as each other.
func (u Unit) Dot(c float32, fa, fb Format, a, b []Number) float32 {
	block := u.Block
	if block == 0 {
		block = len(a)
	}
	fraction := shapes[fa].fraction + shapes[fb].fraction
	for len(a) > 0 {
		n := min(block, len(a))
		c = u.add(c, fraction, a[:n], b[:n])
		a, b = a[n:], b[n:]
	}
	return c
}

// DotUnpacked returns c plus the products of codes of E4M3 or E5M2 as mma.sync has them on Hopper, whose units take such codes
// in wgmma alone. Compilers make several instructions of it there: codes become f16, the lower two of each four that share a
// register are one product, the upper two one that is added to it, and c is added last, rounded to nearest as by add.f32.
// An H200 gave these bits; what ptxas 13.0 makes of the instruction says the same.
func DotUnpacked(c float32, fa, fb Format, a, b []uint32) float32 {
	sum := float32(0)
	for half := range 2 {
		var x, y []Number
		for k := range a {
			if k/2%2 == half {
				x = append(x, F16.Take(F16.Encode(fa.Decode(a[k]), Conversion{})))
				y = append(y, F16.Take(F16.Encode(fb.Decode(b[k]), Conversion{})))
			}
		}
		sum = Wide.Dot(sum, F16, F16, x, y)
	}
	if sum += c; sum != sum {
		return math.Float32frombits(canonicalNaN)
	}
	return sum
}

// add is one block of Dot.
func (u Unit) add(c float32, fraction int, a, b []Number) float32 {
	sc, ec, special := F32.split(math.Float32bits(c))
	top := math.MinInt32
	if sc != 0 {
		top = ec
	}
	broken := special != 0
	for i := range a {
		if a[i].kind|b[i].kind != finite {
			broken = true
		}
		if a[i].Significand != 0 && b[i].Significand != 0 {
			top = max(top, int(a[i].Exponent)+int(b[i].Exponent))
		}
	}
	if broken {
		return specialSum(float64(c), a, b)
	}
	if top == math.MinInt32 {
		return 0
	}
	sum := align(sc, u.Kept-23-(top-ec))
	for i := range a {
		if p := int64(a[i].Significand) * int64(b[i].Significand); p != 0 {
			sum += align(p, u.Kept-fraction-(top-int(a[i].Exponent)-int(b[i].Exponent)))
		}
	}
	return u.pack(math.Ldexp(float64(sum), top-u.Kept))
}

// align shifts a significand left, or right toward zero.
func align(significand int64, left int) int64 {
	switch {
	case left >= 0:
		return significand << left
	case left <= -63:
		return 0
	case significand < 0:
		return -(-significand >> -left)
	}
	return significand >> -left
}

// pack rounds a sum toward zero to the unit's fraction. Sums of 2^128 and more
// are infinite.
func (u Unit) pack(sum float64) float32 {
	if math.Abs(sum) >= 0x1p128 {
		return float32(math.Inf(int(math.Copysign(1, sum))))
	}
	if sum == 0 {
		return 0
	}
	f := float32(sum)
	bits := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(sum) {
		bits--
	}
	return math.Float32frombits(bits &^ (1<<(23-u.Fraction) - 1))
}

// specialSum is a sum with infinity or NaN in it.
func specialSum(c float64, a, b []Number) float32 {
	sum := c
	for i := range a {
		sum += a[i].rough() * b[i].rough()
	}
	if math.IsNaN(sum) {
		return math.Float32frombits(canonicalNaN)
	}
	return float32(sum)
}

// rough is a value with the sign, zero or special kind of a number.
func (n Number) rough() float64 {
	switch n.kind {
	case infinity:
		return math.Inf(1)
	case negativeInfinity:
		return math.Inf(-1)
	case notNumber:
		return math.NaN()
	}
	return float64(n.Significand)
}

// DotInt returns c plus the products of a and b, which wraps at 32 bits, or
// with saturate stops at the ends of int32.
func DotInt(c int32, a, b []int32, saturate bool) int32 {
	sum := int64(c)
	for i := range a {
		sum += int64(a[i]) * int64(b[i])
	}
	if saturate {
		sum = min(max(sum, math.MinInt32), math.MaxInt32)
	}
	return int32(sum)
}
