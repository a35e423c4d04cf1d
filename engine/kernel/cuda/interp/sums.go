package interp

import "math"

// The tensor cores of Hopper do not round each addition. They multiply exactly,
// align all products of a block and the accumulator to the largest exponent, cut
// them off some bits below it, add, and cut the sum off to the result's bits.
// (Published reverse engineering agrees on this; a run on a device proves it.)

// sumRule is how a tensor core adds one type.
type sumRule struct {
	block    int // products that are added at once
	fraction int // bits kept below the largest exponent
	keep     int // bits of the result's fraction, 23 for a float32
}

var (
	wideSums   = sumRule{16, 25, 23} // f16, bf16
	tf32Sums   = sumRule{8, 25, 23}
	narrowSums = sumRule{32, 13, 13} // FP8
)

// term is a factor: its value and the exponent of its leading bit's place.
type term struct {
	value    float64
	exponent int
}

// termOf reads a factor. Subnormal numbers have the smallest exponent.
func termOf(f format, code uint64) term {
	e := int(code >> f.mantissa & (1<<f.exponent - 1))
	if f == brainFormat {
		return term{float64(math.Float32frombits(uint32(code) << 16)), max(e, 1) - 127}
	}
	return term{f.value(code), max(e, 1) - f.bias()}
}

// sum returns c + Σ a[i]·b[i] of one block.
func (r sumRule) sum(c float32, a, b []term) float32 {
	var products [32]float64
	most := -1 << 20
	if c != 0 {
		e := int(math.Float32bits(c) >> 23 & 255)
		most = max(e, 1) - 127
	}
	check := 0.0 // NaN as soon as one factor is no finite number
	for i := range a {
		p := a[i].value * b[i].value
		products[i] = p
		check += p - p
		if e := a[i].exponent + b[i].exponent; e > most && p != 0 {
			most = e
		}
	}
	if check != 0 || c-c != 0 {
		return r.special(c, products[:len(a)])
	}
	if most == -1<<20 {
		return c
	}
	scale := pow2(r.fraction - most)
	total := int64(float64(c) * scale)
	for _, p := range products[:len(a)] {
		total += int64(p * scale)
	}
	return r.round(float64(total) * pow2(most-r.fraction))
}

// special is a sum with infinities or NaNs.
func (r sumRule) special(c float32, products []float64) float32 {
	total := float64(c)
	for _, p := range products {
		total += p
	}
	if total != total {
		return math.Float32frombits(0x7fffffff)
	}
	return float32(total)
}

// round cuts a sum off to a float32 of the kept bits.
func (r sumRule) round(v float64) float32 {
	if math.Abs(v) >= 0x1p128 {
		return float32(math.Inf(int(math.Copysign(1, v))))
	}
	code := uint32(single(v, zero))
	return math.Float32frombits(code &^ (1<<(23-r.keep) - 1))
}

// pow2 is 2^n for exponents of normal numbers.
func pow2(n int) float64 { return math.Float64frombits(uint64(n+1023) << 52) }
