package modelfile

import (
	"encoding/binary"
	"fmt"
	"math"

	"corenode/engine/kernel"
)

// encoders turn one block of values into its bytes.
var encoders = map[kernel.Type]func(dst []byte, x []float32){
	kernel.F32:  func(dst []byte, x []float32) { binary.LittleEndian.PutUint32(dst, math.Float32bits(x[0])) },
	kernel.F16:  func(dst []byte, x []float32) { binary.LittleEndian.PutUint16(dst, Half(x[0])) },
	kernel.BF16: func(dst []byte, x []float32) { binary.LittleEndian.PutUint16(dst, brain(x[0])) },
	kernel.Q8_0: quantizeQ8_0,
	kernel.Q4_0: quantizeQ4_0,
	kernel.Q4_K: func(dst []byte, x []float32) { quantizeMin(dst, x, 15) },
	kernel.Q5_K: func(dst []byte, x []float32) { quantizeMin(dst, x, 31) },
	kernel.Q6_K: quantizeQ6_K,

	kernel.F8E4M3: quantizeF8,
}

// Quantize encodes finite values as blocks of typ; len(x) must be a multiple
// of the block.
func Quantize(typ kernel.Type, x []float32) ([]byte, error) {
	name, block, blockBytes, _ := TypeInfo(typ)
	encode := encoders[typ]
	if encode == nil {
		return nil, fmt.Errorf("type %d has no encoder", typ)
	}
	if len(x)%block != 0 {
		return nil, fmt.Errorf("%d values are not a multiple of the %s block of %d", len(x), name, block)
	}
	out := make([]byte, len(x)/block*blockBytes)
	for i := range len(x) / block {
		encode(out[i*blockBytes:(i+1)*blockBytes], x[i*block:(i+1)*block])
	}
	return out, nil
}

// Half rounds to IEEE half precision, ties to even.
func Half(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 31 << 15)
	a := math.Float64frombits(math.Float64bits(float64(x)) &^ (1 << 63))
	switch {
	case a != a:
		return sign | 0x7e00
	case a >= 65520: // halfway between the largest half and the next power
		return sign | 0x7c00
	case a < 0x1p-14: // subnormal: units of 2^-24; a carry makes the smallest normal
		return sign | uint16(math.RoundToEven(a*0x1p24))
	}
	_, e := math.Frexp(a) // a = f * 2^e, f in [0.5, 1)
	units := uint16(math.RoundToEven(math.Ldexp(a, 11-e)))
	return sign | (uint16(e+13)<<10 + units) // units carries the hidden bit: it adds one to the exponent
}

// brain rounds to bfloat16, ties to even.
func brain(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16 | 64)
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func putHalf(dst []byte, x float32) float32 {
	h := Half(x)
	binary.LittleEndian.PutUint16(dst, h)
	return half(dst)
}

// extreme is the first value of the largest magnitude.
func extreme(x []float32) (most float32) {
	for _, v := range x {
		if math.Abs(float64(v)) > math.Abs(float64(most)) {
			most = v
		}
	}
	return most
}

// quantizeQ8_0 divides by the largest magnitude over 127, rounding half away
// from zero with the unrounded scale: the usual encoder, bit for bit.
func quantizeQ8_0(dst []byte, x []float32) {
	d := float32(math.Abs(float64(extreme(x)))) / 127
	var inverse float32
	if d > 0 {
		inverse = 1 / d
	}
	putHalf(dst, d)
	for i, v := range x {
		y := v * inverse
		q := math.Floor(float64(float32(math.Abs(float64(y))) + 0.5))
		dst[2+i] = byte(int8(math.Copysign(q, float64(y))))
	}
}

// quantizeQ4_0 maps the value of largest magnitude to -8: the usual encoder,
// bit for bit.
func quantizeQ4_0(dst []byte, x []float32) {
	d := extreme(x) / -8
	var inverse float32
	if d != 0 {
		inverse = 1 / d
	}
	putHalf(dst, d)
	level := func(v float32) byte { return byte(min(15, int(float32(v*inverse)+8.5))) }
	for i := range 16 {
		dst[2+i] = level(x[i]) | level(x[i+16])<<4
	}
}

// quantizeMin is Q4_K (top 15) and Q5_K (top 31): sub-blocks of 32 with a
// scale and a minimum of 6 bits each.
func quantizeMin(dst []byte, x []float32, top int) {
	var scale, minimum [8]float32
	for j := range scale {
		lo, hi := float32(0), x[32*j]
		for _, v := range x[32*j : 32*j+32] {
			lo, hi = min(lo, v), max(hi, v)
		}
		scale[j], minimum[j] = max(0, hi-lo)/float32(top), -lo
	}
	d := putHalf(dst, largest(scale[:])/63)
	dmin := putHalf(dst[2:], largest(minimum[:])/63)
	nibbles := dst[16:]
	if top == 31 {
		nibbles = dst[48:]
	}
	for j := range 8 {
		s, m := level(scale[j], d, 63), level(minimum[j], dmin, 63)
		packScaleMin(dst[4:16], j, byte(s), byte(m))
		for i, v := range x[32*j : 32*j+32] {
			q := level(v+dmin*float32(m), d*float32(s), top)
			nibbles[32*(j/2)+i] |= byte(q&15) << (4 * (j % 2))
			if top == 31 {
				dst[16+i] |= byte(q>>4) << j
			}
		}
	}
}

func largest(x []float32) float32 {
	var m float32
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

// level is x/unit rounded and clamped to [0, top]; 0 when unit is.
func level(x, unit float32, top int) int {
	if unit == 0 {
		return 0
	}
	return int(min(max(math.RoundToEven(float64(x)/float64(unit)), 0), float64(top)))
}

// packScaleMin stores 6-bit s and m of sub-block j.
func packScaleMin(packed []byte, j int, s, m byte) {
	if j < 4 {
		packed[j] |= s
		packed[j+4] |= m
		return
	}
	packed[j+4] |= s&15 | m&15<<4
	packed[j-4] |= s >> 4 << 6
	packed[j] |= m >> 4 << 6
}

// quantizeQ6_K: 16 sub-blocks of 16 with an int8 scale each.
func quantizeQ6_K(dst []byte, x []float32) {
	var scale [16]float32
	for j := range scale {
		for _, v := range x[16*j : 16*j+16] {
			scale[j] = max(scale[j], float32(math.Abs(float64(v)))/31)
		}
	}
	d := putHalf(dst[208:], largest(scale[:])/127)
	for j := range 16 {
		s := level(scale[j], d, 127)
		dst[192+j] = byte(s)
		for i, v := range x[16*j : 16*j+16] {
			q := 32
			if unit := d * float32(s); unit != 0 {
				q = level(v+32*unit, unit, 63)
			}
			put6(dst, 16*j+i, byte(q))
		}
	}
}

// put6 stores the 6-bit q of value n of a Q6_K block.
func put6(dst []byte, n int, q byte) {
	half, run, i := n/128, n/32%4, n%32
	low := &dst[64*half+32*(run%2)+i]
	*low |= q & 15 << (4 * (run / 2))
	dst[128+32*half+i] |= q >> 4 << (2 * run)
}
