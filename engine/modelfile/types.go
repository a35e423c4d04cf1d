package modelfile

import (
	"encoding/binary"
	"fmt"
	"math"

	"corenode/engine/kernel"
)

// typeInfo is one tensor type: values and bytes per block, and how to read a
// run of blocks; nil when this program cannot.
type typeInfo struct {
	name       string
	block      int
	blockBytes int
	read       func(dst []float32, src []byte)
}

// typeInfos has every tensor type of the format whose size is known, so that a
// file with an unreadable tensor can still be listed, and one more.
var typeInfos = map[kernel.Type]typeInfo{
	kernel.F32:    {"F32", 1, 4, readF32},
	kernel.F16:    {"F16", 1, 2, readF16},
	kernel.Q4_0:   {"Q4_0", 32, 18, readQ4_0},
	kernel.Q4_1:   {"Q4_1", 32, 20, readQ4_1},
	kernel.Q5_0:   {"Q5_0", 32, 22, readQ5_0},
	kernel.Q5_1:   {"Q5_1", 32, 24, readQ5_1},
	kernel.Q8_0:   {"Q8_0", 32, 34, readQ8_0},
	9:             {"Q8_1", 32, 36, nil},
	10:            {"Q2_K", 256, 84, nil},
	11:            {"Q3_K", 256, 110, nil},
	kernel.Q4_K:   {"Q4_K", 256, 144, readQ4_K},
	kernel.Q5_K:   {"Q5_K", 256, 176, readQ5_K},
	kernel.Q6_K:   {"Q6_K", 256, 210, readQ6_K},
	15:            {"Q8_K", 256, 292, nil},
	16:            {"IQ2_XXS", 256, 66, nil},
	17:            {"IQ2_XS", 256, 74, nil},
	18:            {"IQ3_XXS", 256, 98, nil},
	19:            {"IQ1_S", 256, 50, nil},
	kernel.IQ4_NL: {"IQ4_NL", 32, 18, readIQ4_NL},
	21:            {"IQ3_S", 256, 110, nil},
	22:            {"IQ2_S", 256, 82, nil},
	23:            {"IQ4_XS", 256, 136, nil},
	24:            {"I8", 1, 1, nil},
	25:            {"I16", 1, 2, nil},
	26:            {"I32", 1, 4, nil},
	27:            {"I64", 1, 8, nil},
	28:            {"F64", 1, 8, nil},
	29:            {"IQ1_M", 256, 56, nil},
	kernel.BF16:   {"BF16", 1, 2, readBF16},
	34:            {"TQ1_0", 256, 54, nil},
	35:            {"TQ2_0", 256, 66, nil},
	kernel.MXFP4:  {"MXFP4", 32, 17, readMXFP4},
	40:            {"NVFP4", 64, 36, nil},
	41:            {"Q1_0", 128, 18, nil},
	kernel.F8E4M3: {"F8_E4M3", 128, 132, readF8}, // our own
}

// TypeInfo describes a tensor type: its name, and that each block of elements
// values takes bytes bytes. ok is false for numbers outside the format.
func TypeInfo(t kernel.Type) (name string, elements, bytes int, ok bool) {
	info, ok := typeInfos[t]
	return info.name, info.block, info.blockBytes, ok
}

// Readable reports whether Dequantize knows the type.
func Readable(t kernel.Type) bool { return typeInfos[t].read != nil }

func unreadable(t kernel.Type) error {
	return fmt.Errorf("type %s cannot be read, want F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, IQ4_NL or MXFP4",
		typeName(t))
}

// Dequantize writes the values of whole blocks of typ to dst. src must be
// exactly the blocks of len(dst) values.
func Dequantize(dst []float32, typ kernel.Type, src []byte) error {
	info := typeInfos[typ]
	if info.read == nil {
		return unreadable(typ)
	}
	if len(dst)%info.block != 0 || len(src) != len(dst)/info.block*info.blockBytes {
		return fmt.Errorf("%d values of type %s do not fit %d bytes of blocks of %d values in %d bytes",
			len(dst), info.name, len(src), info.block, info.blockBytes)
	}
	info.read(dst, src)
	return nil
}

func readF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func readF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func readBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// half reads an IEEE half-precision number; every one is exact in float32.
func half(b []byte) float32 {
	h := uint32(binary.LittleEndian.Uint16(b))
	sign, exponent, fraction := h>>15<<31, h>>10&31, h&1023
	switch exponent {
	case 0: // zero and subnormal: fraction * 2^-24
		return math.Float32frombits(math.Float32bits(float32(fraction)*0x1p-24) | sign)
	case 31: // infinity and NaN
		return math.Float32frombits(sign | 255<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// readQ8_0: f16 scale, 32 int8.
func readQ8_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[34:] {
		d := half(src)
		for i, q := range src[2:34] {
			dst[i] = d * float32(int8(q))
		}
	}
}

// readQ4_0: f16 scale, 16 bytes; low nibbles are the first 16 values.
func readQ4_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[18:] {
		d := half(src)
		for i, q := range src[2:18] {
			dst[i] = d * float32(int(q&15)-8)
			dst[i+16] = d * float32(int(q>>4)-8)
		}
	}
}

// readQ5_0 is readQ4_0 with the fifth bits in front of the nibbles: bit i is of value i.
func readQ5_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[22:] {
		d, high := half(src), binary.LittleEndian.Uint32(src[2:])
		for i, q := range src[6:22] {
			dst[i] = d * float32(int(q&15|byte(high>>i&1)<<4)-16)
			dst[i+16] = d * float32(int(q>>4|byte(high>>(i+16)&1)<<4)-16)
		}
	}
}

// readQ4_1 is readQ4_0 with an f16 minimum behind the scale, which codes from 0 to 15 are added to.
func readQ4_1(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[20:] {
		d, least := half(src), half(src[2:])
		for i, q := range src[4:20] {
			dst[i] = float32(d*float32(q&15)) + least // the conversion as in readQ4_K
			dst[i+16] = float32(d*float32(q>>4)) + least
		}
	}
}

// readQ5_1 is readQ4_1 with the fifth bits of readQ5_0.
func readQ5_1(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[24:] {
		d, least, high := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:])
		for i, q := range src[8:24] {
			dst[i] = float32(d*float32(q&15|byte(high>>i&1)<<4)) + least
			dst[i+16] = float32(d*float32(q>>4|byte(high>>(i+16)&1)<<4)) + least
		}
	}
}

// nonlinear are the values of the codes of IQ4_NL, before their scale.
var nonlinear = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// readIQ4_NL is readQ4_0 with other values of the codes.
func readIQ4_NL(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[18:] {
		d := half(src)
		for i, q := range src[2:18] {
			dst[i], dst[i+16] = d*nonlinear[q&15], d*nonlinear[q>>4]
		}
	}
}

// fourBit are twice the values of E2M1: a sign, two bits of exponent, one of fraction.
var fourBit = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// readMXFP4: a power of two as its exponent plus 127, 16 bytes of codes as in Q4_0. The
// factor is half of the power, because codes are doubled.
func readMXFP4(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[17:] {
		d := float32(math.Ldexp(1, int(src[0])-128))
		for i, q := range src[1:17] {
			dst[i], dst[i+16] = d*fourBit[q&15], d*fourBit[q>>4]
		}
	}
}

// scaleMin unpacks the 6-bit scale and minimum of sub-block j of Q4_K and Q5_K.
func scaleMin(packed []byte, j int) (scale, minimum float32) {
	if j < 4 {
		return float32(packed[j] & 63), float32(packed[j+4] & 63)
	}
	return float32(packed[j+4]&15 | packed[j-4]>>6<<4), float32(packed[j+4]>>4 | packed[j]>>6<<4)
}

// readQ4_K: f16 d, f16 dmin, 12 bytes of scales, 128 bytes of nibbles. The
// conversions to float32 keep a compiler from fusing: results are exact on
// every platform.
func readQ4_K(dst []float32, src []byte) {
	for ; len(dst) >= 256; dst, src = dst[256:], src[144:] {
		d, dmin, scales := half(src), half(src[2:]), src[4:16]
		for g := range 4 {
			s0, m0 := scaleMin(scales, 2*g)
			s1, m1 := scaleMin(scales, 2*g+1)
			s0, m0, s1, m1 = d*s0, dmin*m0, d*s1, dmin*m1
			y := dst[64*g : 64*g+64]
			for i, q := range src[16+32*g : 48+32*g] {
				y[i] = float32(s0*float32(q&15)) - m0
				y[i+32] = float32(s1*float32(q>>4)) - m1
			}
		}
	}
}

// readQ5_K is readQ4_K with 32 bytes of fifth bits before the nibbles: bit 2g
// belongs to the low nibbles of group g, bit 2g+1 to its high nibbles.
func readQ5_K(dst []float32, src []byte) {
	for ; len(dst) >= 256; dst, src = dst[256:], src[176:] {
		d, dmin, scales, high := half(src), half(src[2:]), src[4:16], src[16:48]
		for g := range 4 {
			s0, m0 := scaleMin(scales, 2*g)
			s1, m1 := scaleMin(scales, 2*g+1)
			s0, m0, s1, m1 = d*s0, dmin*m0, d*s1, dmin*m1
			y := dst[64*g : 64*g+64]
			for i, q := range src[48+32*g : 80+32*g] {
				bits := high[i] >> (2 * g)
				y[i] = float32(s0*float32(q&15|bits&1<<4)) - m0
				y[i+32] = float32(s1*float32(q>>4|bits>>1&1<<4)) - m1
			}
		}
	}
}

// readQ6_K: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 int8
// scales, f16 d at the end. Each half of the block holds 4 runs of 32 values.
func readQ6_K(dst []float32, src []byte) {
	for ; len(dst) >= 256; dst, src = dst[256:], src[210:] {
		d := half(src[208:])
		for h := range 2 {
			low, high, scales, y := src[64*h:64*h+64], src[128+32*h:160+32*h], src[192+8*h:200+8*h], dst[128*h:128*h+128]
			for i, bits := range high {
				for run, q := range [4]byte{
					low[i]&15 | bits&3<<4,
					low[i+32]&15 | bits>>2&3<<4,
					low[i]>>4 | bits>>4&3<<4,
					low[i+32]>>4 | bits>>6<<4,
				} {
					scale := d * float32(int8(scales[2*run+i/16]))
					y[32*run+i] = scale * float32(int(q)-32)
				}
			}
		}
	}
}
