package interp

import "math"

// The tensor cores of Hopper do not round each addition. They multiply exactly,
// align all products of a block and the accumulator to the largest exponent, cut
// them off some bits below it, add, and cut the sum off to the result's bits.
// The form is that of published reverse engineering. An H200 has these widths,
// and others give other bits than it did.

// sumRule is how a tensor core adds one type.
type sumRule struct {
	block    int // products that are added at once
	fraction int // bits kept below the largest exponent
	keep     int // bits of the result's fraction, 23 for a float32
}

var (
	wideSums   = sumRule{16, 25, 23} // f16, bf16
	tf32Sums   = sumRule{8, 25, 23}
	narrowSums = sumRule{32, 13, 13} // wgmma of FP8
)

// term is a factor: its value and the exponent of its leading bit's place. Zero
// has one below and what is not finite one above all others.
type term struct {
	value    float64
	exponent int
}

const (
	zeroExponent     = -1 << 14
	infiniteExponent = 1 << 16
)

// termOf reads a factor. Subnormal numbers have the smallest exponent.
func termOf(f format, code uint64) term {
	t := term{exponent: max(int(code>>f.mantissa&(1<<f.exponent-1)), 1) - f.bias()}
	if f == brainFormat {
		t.value = float64(math.Float32frombits(uint32(code) << 16))
	} else {
		t.value = f.value(code)
	}
	if t.value == 0 {
		t.exponent = zeroExponent
	} else if t.value-t.value != 0 {
		t.exponent = infiniteExponent
	}
	return t
}

// sum returns c + Σ a[i]·b[i] of one block.
func (r sumRule) sum(c float32, a, b []term) float32 {
	most := 2 * zeroExponent
	if c != 0 {
		most = max(int(math.Float32bits(c)>>23&255), 1) - 127
	}
	b = b[:len(a)]
	for i := range a {
		most = max(most, a[i].exponent+b[i].exponent)
	}
	switch {
	case c-c != 0, most > infiniteExponent/2:
		return r.special(c, a, b)
	case most < zeroExponent/2:
		return c
	}
	scale := pow2(r.fraction - most)
	total := int64(float64(c) * scale)
	for i := range a {
		total += int64(a[i].value * b[i].value * scale)
	}
	return r.round(float64(total) * pow2(most-r.fraction))
}

// special is a sum with infinities or NaNs.
func (r sumRule) special(c float32, a, b []term) float32 {
	total := float64(c)
	for i := range a {
		total += a[i].value * b[i].value
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
