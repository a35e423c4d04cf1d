package modelfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"corenode/engine/kernel"
)

// A folder stores matrices of eight bits as codes and, apart from them, a scale for each block of rows and
// columns. Here each run of 128 codes has its scale behind it (kernel.F8E4M3): then rows may be moved, and stacks
// cut, as those of every other type.
const (
	eightValues = 128
	eightBytes  = eightValues + 4
)

// eightBit is a matrix, or a stack of them, of E4M3 values that are multiplied by a scale for each block of rows and
// columns. Where blocks are not whole runs of 128 columns, it is F16.
func eightBit(data []byte, shape []int, scale *rawTensor, block [2]int) (*Tensor, error) {
	cols, rows := shape[0], shape[1]
	stacked := 1
	for _, n := range shape[2:] {
		stacked *= n
	}
	down, across := (rows+block[0]-1)/block[0], (cols+block[1]-1)/block[1]
	types := map[string]kernel.Type{"F32": kernel.F32, "BF16": kernel.BF16, "F16": kernel.F16}
	typ, ok := types[scale.dtype]
	s := &Tensor{Name: scale.name, Type: typ, Shape: scale.shape, Data: scale.data}
	if !ok || s.Elements() != stacked*down*across {
		return nil, fmt.Errorf("%s is %s of shape %v, want %d numbers", scale.name, scale.dtype, scale.shape, stacked*down*across)
	}
	scales, err := s.Floats()
	if err != nil {
		return nil, err
	}
	// each calls do with every run of columns that share a scale, row by row. The rows of a block are one goroutine's.
	each := func(run int, do func(at, n int, scale float32)) {
		inParallel(stacked*down, func(i int) {
			first := i/down*rows + i%down*block[0]
			last := min(first+block[0], (i/down+1)*rows)
			for from := 0; from < cols; from += run {
				n, scale := min(run, cols-from), scales[i*across+from/block[1]]
				for r := first; r < last; r++ {
					do(r*cols+from, n, scale)
				}
			}
		})
	}
	t := &Tensor{Type: kernel.F8E4M3, Shape: shape, Offset: -1, from: [][]byte{data, scale.data}}
	t.fill = func(dst []byte) {
		each(eightValues, func(at, n int, scale float32) {
			to := dst[at/eightValues*eightBytes:][:eightBytes]
			copy(to, data[at:at+n])
			binary.LittleEndian.PutUint32(to[eightValues:], math.Float32bits(scale))
		})
	}
	if cols%eightValues != 0 || block[1]%eightValues != 0 {
		t.Type = kernel.F16
		t.fill = func(dst []byte) {
			each(block[1], func(at, n int, scale float32) {
				for i, code := range data[at : at+n] {
					binary.LittleEndian.PutUint16(dst[2*(at+i):], Half(e4m3[code]*scale))
				}
			})
		}
	}
	return t, nil
}

// Halves is the tensor itself, or what one of F8E4M3, Q4_1 or Q5_1 means, as F16: that rounds a value by at most 1 in 2,048, or by
// 2^-25 where it is below 2^-14. BF16 would round by eight times as much.
func (t *Tensor) Halves() *Tensor {
	out := &Tensor{Name: t.Name, Type: kernel.F16, Shape: t.Shape, Offset: -1, from: t.stored()}
	switch t.Type {
	case kernel.F8E4M3:
		out.fill = t.fillScaled
	case kernel.Q4_1, kernel.Q5_1:
		out.fill = t.fillHalves
	default:
		return t
	}
	return out
}

// fillHalves writes values as F16.
func (t *Tensor) fillHalves(dst []byte) {
	from, cols := t.Bytes(), t.Shape[0]
	rows := t.Elements() / cols
	size := len(from) / rows
	inParallel(rows, func(r int) {
		values := make([]float32, cols)
		if err := Dequantize(values, t.Type, from[r*size:(r+1)*size]); err != nil {
			panic(err) // a tensor has whole blocks in each row
		}
		for i, v := range values {
			binary.LittleEndian.PutUint16(dst[2*(r*cols+i):], Half(v))
		}
	})
}

// fillScaled is fillHalves of F8E4M3.
func (t *Tensor) fillScaled(dst []byte) {
	from := t.Bytes()
	across := t.Shape[0] / eightValues
	const together = 128 // rows, which mostly share scales
	rows := t.rows()
	inParallel((rows+together-1)/together, func(i int) {
		var scale float32
		var halves [256]uint16
		for b := range across {
			for r := i * together; r < min(rows, (i+1)*together); r++ {
				at := r*across + b
				block := from[at*eightBytes:][:eightBytes]
				if s := eightScale(block); r == i*together || s != scale {
					scale, halves = s, scaledHalves(s)
				}
				for j, code := range block[:eightValues] {
					binary.LittleEndian.PutUint16(dst[2*(at*eightValues+j):], halves[code])
				}
			}
		}
	})
}

// scaledHalves are the values of the bytes of E4M3, multiplied by a scale.
func scaledHalves(scale float32) (halves [256]uint16) {
	for v := range halves {
		halves[v] = Half(e4m3[v] * scale)
	}
	return halves
}

// eightScale is what the codes of a block are multiplied by.
func eightScale(block []byte) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(block[eightValues:]))
}

// readF8: 128 codes, f32 scale.
func readF8(dst []float32, src []byte) {
	for ; len(dst) >= eightValues; dst, src = dst[eightValues:], src[eightBytes:] {
		scale := eightScale(src)
		for i, code := range src[:eightValues] {
			dst[i] = e4m3[code] * scale
		}
	}
}

// quantizeF8 gives the largest magnitude the largest code.
func quantizeF8(dst []byte, x []float32) {
	scale := float32(math.Abs(float64(extreme(x)))) / e4m3[126]
	binary.LittleEndian.PutUint32(dst[eightValues:], math.Float32bits(scale))
	for i, v := range x {
		dst[i] = 0
		if scale > 0 {
			dst[i] = nearestE4M3(v / scale)
		}
	}
}

// nearestE4M3 is the code of the value nearest to x; of two, the even one.
func nearestE4M3(x float32) byte {
	size := float32(math.Abs(float64(x)))
	above, _ := slices.BinarySearch(e4m3[1:126], size) // codes of one sign grow with their values
	code := byte(above)
	low, high := size-e4m3[above], e4m3[above+1]-size
	if low > high || low == high && code&1 == 1 {
		code++
	}
	if x < 0 {
		code |= 128
	}
	return code
}

// e4m3 are the values of the bytes of E4M3 (FN): four bits of exponent with the bias 7, three of
// fraction, no infinities, and NaN where all of them are set.
var e4m3 = func() (values [256]float32) {
	for i := range values {
		exponent, fraction := i>>3&15, i&7
		x := math.Ldexp(float64(8+fraction), exponent-10)
		switch {
		case i&127 == 127:
			x = math.NaN()
		case exponent == 0:
			x = math.Ldexp(float64(fraction), -9)
		}
		values[i] = float32(math.Copysign(x, 1-float64(i>>7)*2))
	}
	return values
}()
