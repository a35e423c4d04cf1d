package gguftest

import (
	"encoding/binary"
	"math"
	"slices"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

// fourBits encodes blocks of 32 values in IQ4_NL or MXFP4: a scale that brings the largest
// magnitude to that of the largest code, and the nearest codes.
func fourBits(typ kernel.Type, x []float32) []byte {
	var out []byte
	for ; len(x) > 0; x = x[32:] {
		top := 0.0
		for _, v := range x[:32] {
			top = max(top, math.Abs(float64(v)))
		}
		block := binary.LittleEndian.AppendUint16(nil, modelfile.Half(float32(top/113)))
		if typ == kernel.MXFP4 {
			block = []byte{byte(128 + int(math.Ceil(math.Log2(max(top, 1e-9)/12))))}
		}
		head := len(block)
		values := codesOf(typ, append(block, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0))
		block = append(block, make([]byte, 16)...)
		for i, v := range x[:32] {
			best := 0
			for c, y := range values {
				if math.Abs(float64(v-y)) < math.Abs(float64(v-values[best])) {
					best = c
				}
			}
			block[head+i%16] |= byte(best) << (i / 16 * 4)
		}
		out = append(out, block...)
	}
	return out
}

// codesOf are the values of the codes 0 to 15 of a block that has them in its first bytes.
func codesOf(typ kernel.Type, block []byte) (values [16]float32) {
	var all [32]float32
	if err := modelfile.Dequantize(all[:], typ, block); err != nil {
		panic(err)
	}
	for i := range 8 {
		values[2*i], values[2*i+1] = all[i], all[16+i]
	}
	return values
}

// fiveBits encodes blocks of 32 values in Q5_0: the value of largest magnitude becomes -16.
func fiveBits(x []float32) []byte {
	var out []byte
	for ; len(x) > 0; x = x[32:] {
		var extreme float32
		for _, v := range x[:32] {
			if math.Abs(float64(v)) > math.Abs(float64(extreme)) {
				extreme = v
			}
		}
		block := binary.LittleEndian.AppendUint16(nil, modelfile.Half(extreme/-16))
		var high uint32
		low := make([]byte, 16)
		for i, v := range x[:32] {
			code := uint32(16)
			if extreme != 0 {
				code = uint32(min(31, v/(extreme/-16)+16.5))
			}
			high |= code >> 4 << i
			low[i%16] |= byte(code&15) << (i / 16 * 4)
		}
		out = append(append(out, binary.LittleEndian.AppendUint32(block, high)...), low...)
	}
	return out
}

// fromMinimum encodes blocks of 32 values in Q4_1 or Q5_1: the least value becomes 0, the largest one the largest code.
func fromMinimum(typ kernel.Type, x []float32) []byte {
	largest := map[kernel.Type]float32{kernel.Q4_1: 15, kernel.Q5_1: 31}[typ]
	var out []byte
	for ; len(x) > 0; x = x[32:] {
		least := slices.Min(x[:32])
		step := (slices.Max(x[:32]) - least) / largest
		var high uint32
		low := make([]byte, 16)
		for i, v := range x[:32] {
			code := uint32(0)
			if step > 0 {
				code = uint32(min(largest, (v-least)/step+0.5))
			}
			high |= code >> 4 << i
			low[i%16] |= byte(code&15) << (i / 16 * 4)
		}
		out = binary.LittleEndian.AppendUint16(out, modelfile.Half(step))
		out = binary.LittleEndian.AppendUint16(out, modelfile.Half(least))
		if typ == kernel.Q5_1 {
			out = binary.LittleEndian.AppendUint32(out, high)
		}
		out = append(out, low...)
	}
	return out
}
