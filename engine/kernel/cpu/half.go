package cpu

import "math"

// halfToFloat widens an IEEE float16.
func halfToFloat(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10)&31, uint32(h)&0x3ff
	switch exp {
	case 0: // zero and subnormals: frac units of 2^-24
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// floatToHalf rounds to the nearest float16, ties to even, infinite beyond the
// largest finite value.
func floatToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign, mag := uint16(b>>16)&0x8000, b&0x7fffffff
	switch {
	case mag > 0x7f800000:
		return sign | 0x7e00 | uint16(mag>>13)&0x1ff
	case mag >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case mag < 0x38800000: // subnormal: adding 0.5 aligns 2^-24 with the last bit
		v := math.Float32frombits(mag) + 0.5
		return sign | uint16(math.Float32bits(v)-0x3f000000)
	}
	mag += 0xfff + mag>>13&1
	return sign | uint16(mag>>13-112<<10)
}

// bfloatToFloat widens a bfloat16.
func bfloatToFloat(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }
