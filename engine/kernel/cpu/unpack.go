package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"corenode/engine/kernel"
)

// codeRow is one row of a quantized matrix taken apart: value k is
// scale[k/group]·(code[k]-offset) - min[k/group].
type codeRow struct {
	code       []uint8
	scale, min []float32
	// super holds the superblocks of a K-quant: scale[g] is d·part[g], min[g] is
	// low·minPart[g], exactly.
	super         []superScales
	part, minPart []uint8 // part is signed for Q6_K
}

// superScales are the float16 factors of a superblock's scales and minima.
type superScales struct{ d, low uint16 }

func newCodeRow(cols int) *codeRow {
	groups := cols/16 + 1
	return &codeRow{
		make([]uint8, cols), make([]float32, groups), make([]float32, groups),
		make([]superScales, cols/256+1), make([]uint8, groups), make([]uint8, groups),
	}
}

// unpack takes the blocks of a row apart.
func (r *codeRow) unpack(t kernel.Type, data []byte) {
	switch t {
	case kernel.Q8_0:
		r.eachBlock(data, 34, r.q8)
	case kernel.Q4_0:
		r.eachBlock(data, 18, r.q4)
	case kernel.Q5_0:
		r.eachBlock(data, 22, r.q5)
	case kernel.IQ4_NL:
		r.eachBlock(data, 18, r.nonlinear)
	case kernel.MXFP4:
		r.eachBlock(data, 17, r.micro)
	case kernel.Q4_K:
		r.eachBlock(data, 144, r.q4k)
	case kernel.Q5_K:
		r.eachBlock(data, 176, r.q5k)
	case kernel.Q6_K:
		r.eachBlock(data, 210, r.q6k)
	default:
		panic(fmt.Sprintf("type %d has no codes", t))
	}
}

func (*codeRow) eachBlock(data []byte, size int, f func(i int, b []byte)) {
	for i := range len(data) / size {
		f(i, data[i*size:(i+1)*size])
	}
}

func half(b []byte) float32 { return halfToFloat(binary.LittleEndian.Uint16(b)) }

func (r *codeRow) q8(i int, b []byte) {
	r.scale[i] = half(b)
	out := r.code[i*32 : i*32+32]
	for k, c := range b[2:34] {
		out[k] = c ^ 0x80 // int8 c plus 128
	}
}

func (r *codeRow) q4(i int, b []byte) {
	r.scale[i] = half(b)
	out := r.code[i*32 : i*32+32]
	for k, c := range b[2:18] {
		out[k], out[k+16] = c&15, c>>4
	}
}

func (r *codeRow) q5(i int, b []byte) {
	r.scale[i] = half(b)
	out, high := r.code[i*32:i*32+32], binary.LittleEndian.Uint32(b[2:])
	for k, c := range b[6:22] { // from 16 of five bits to 128 of eight
		out[k], out[k+16] = c&15+byte(high>>k&1)*16+112, c>>4+byte(high>>(k+16)&1)*16+112
	}
}

// nonlinearCodes are the values of the codes of IQ4_NL, plus 128.
var nonlinearCodes = [16]uint8{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}

func (r *codeRow) nonlinear(i int, b []byte) {
	r.scale[i] = half(b)
	out := r.code[i*32 : i*32+32]
	for k, c := range b[2:18] {
		out[k], out[k+16] = nonlinearCodes[c&15], nonlinearCodes[c>>4]
	}
}

// fourBitCodes are twice the values of the codes of MXFP4.
var fourBitCodes = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// micro takes a block of MXFP4 apart. The power of two becomes a scale that float16 has:
// what is above its range goes into the codes, three bits at the most, and weights below
// 2^-21, of which the scale rounds to 0, are 0. No model has weights of either kind.
func (r *codeRow) micro(i int, b []byte) {
	power := min(int(b[0])-128, 18) // as the codes are doubled
	up := max(power-15, 0)
	r.scale[i] = 0
	if power >= -24 {
		r.scale[i] = float32(math.Ldexp(1, power-up))
	}
	out := r.code[i*32 : i*32+32]
	for k, c := range b[1:17] {
		out[k], out[k+16] = uint8(fourBitCodes[c&15]<<up)^0x80, uint8(fourBitCodes[c>>4]<<up)^0x80
	}
}

// subScales reads the 6-bit scales and minima of a Q4_K or Q5_K block.
func (r *codeRow) subScales(i int, b []byte) {
	d, dmin, sc := half(b), half(b[2:]), b[4:16]
	r.super[i] = superScales{binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:])}
	for j := range 8 {
		s, m := sc[j]&63, sc[(j+4)%12]&63
		if j >= 4 {
			s = sc[j+4]&15 | sc[j-4]>>6<<4
			m = sc[j+4]>>4 | sc[j]>>6<<4
		}
		r.scale[i*8+j], r.min[i*8+j] = d*float32(s), dmin*float32(m)
		r.part[i*8+j], r.minPart[i*8+j] = s, m
	}
}

func (r *codeRow) q4k(i int, b []byte) {
	r.subScales(i, b)
	out := r.code[i*256 : i*256+256]
	for g := range 4 {
		for k, c := range b[16+32*g : 48+32*g] {
			out[64*g+k], out[64*g+32+k] = c&15, c>>4
		}
	}
}

func (r *codeRow) q5k(i int, b []byte) {
	r.subScales(i, b)
	out, high := r.code[i*256:i*256+256], b[16:48]
	for g := range 4 {
		for k, c := range b[48+32*g : 80+32*g] {
			h := high[k] >> (2 * g)
			out[64*g+k], out[64*g+32+k] = c&15|h&1<<4, c>>4|h>>1&1<<4
		}
	}
}

func (r *codeRow) q6k(i int, b []byte) {
	d := half(b[208:])
	r.super[i].d = binary.LittleEndian.Uint16(b[208:])
	copy(r.part[i*16:], b[192:208])
	for j := range 16 {
		r.scale[i*16+j] = d * float32(int8(b[192+j]))
	}
	for n := range 2 {
		low, high := b[64*n:64*n+64], b[128+32*n:160+32*n]
		out := r.code[i*256+128*n : i*256+128*n+128]
		for l, h := range high {
			out[l] = low[l]&15 | h&3<<4
			out[l+32] = low[l+32]&15 | h>>2&3<<4
			out[l+64] = low[l]>>4 | h>>4&3<<4
			out[l+96] = low[l+32]>>4 | h>>6<<4
		}
	}
}

// dequantize writes the values of a row; tmp is made by newCodeRow(len(dst))
// and not used for float types.
func dequantize(dst []float32, t kernel.Type, data []byte, tmp *codeRow) {
	switch t {
	case kernel.F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	case kernel.F16:
		for i := range dst {
			dst[i] = half(data[2*i:])
		}
	case kernel.BF16:
		for i := range dst {
			dst[i] = bfloatToFloat(binary.LittleEndian.Uint16(data[2*i:]))
		}
	default:
		tmp.unpack(t, data)
		tmp.values(dst, shapes[sources[t].layout])
	}
}

// values computes what the codes mean.
func (r *codeRow) values(dst []float32, s shape) {
	for i := range dst {
		v := r.scale[i/s.group] * float32(int(r.code[i])-s.offset)
		if s.mins {
			v -= r.min[i/s.group]
		}
		dst[i] = v
	}
}
