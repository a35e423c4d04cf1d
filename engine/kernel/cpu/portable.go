package cpu

import (
	"encoding/binary"
	"math"
	"unsafe"

	"corenode/engine/kernel"
)

// portable is the level in plain Go. It does the same integer arithmetic as
// the others and sums in the same block order.
func portable() *ops {
	o := &ops{
		name:        "portable",
		readStreams: readStreamsGo,
		quantize:    quantizeGo,
		softmax:     softmaxGo,
		delta:       deltaGo,
		product:     productGo,
		solve:       solveGo,
		transpose:   transposeGo,
		convolve:    convolveGo,
		gates:       gatesGo,
		decayRow:    decayRowGo,
		gatedNorm:   gatedNormGo,
		exp:         expGo,
		scale:       scaleGo,
		sumSquares:  sumSquaresGo,
		scaleMul:    scaleMulGo,
		add:         addGo,
		addScaled:   addScaledGo,
		addProduct:  addProductGo,
		silu:        siluGo,
		siluMul:     siluMulGo,
		sigmoidMul:  sigmoidMulGo,
		rotate:      rotateGo,
		toHalf:      toHalfGo,
		fold:        foldGo,
		encodeKV:    encodeKVGo,
		multiply:    multiplyGo,
		multiplies:  4,
	}
	for i, rows := range tileRows {
		for l := range layouts {
			o.matMul[l][i] = portableMatMul(l, rows)
		}
	}
	for i, queries := range queryRows {
		for t := range kvTypes {
			o.scores[t][i], o.values[t][i] = portableAttention(queries, kernel.KVType(t))
		}
	}
	for t := range kvTypes {
		o.widen[t] = portableWiden(kernel.KVType(t))
	}
	return o
}

// portableMatMul is the kernel of one layout and tile height.
func portableMatMul(l layout, rows int) matMulFunc {
	s := shapes[l]
	return func(dst *float32, act *byte, actStride int, panel *byte, steps int) {
		out := unsafe.Slice(dst, rows*panelRows)
		clear(out)
		for step := range steps {
			w := unsafe.Slice(panel, steps*s.stepBytes)
			a := unsafe.Add(unsafe.Pointer(act), step*actStride)
			if s.quantized {
				quantizedStep(out, unsafe.Slice((*byte)(a), rows*recordSize), w, step, s)
			} else {
				floatStep(out, unsafe.Slice((*float32)(a), rows), w[step*s.stepBytes:], l)
			}
		}
	}
}

// floatStep adds one column of a float panel.
func floatStep(out, x []float32, w []byte, l layout) {
	var col [panelRows]float32
	for lane := range col {
		switch l {
		case float32s:
			col[lane] = math.Float32frombits(binary.LittleEndian.Uint32(w[4*lane:]))
		case float16s:
			col[lane] = half(w[2*lane:])
		default:
			col[lane] = bfloatToFloat(binary.LittleEndian.Uint16(w[2*lane:]))
		}
	}
	for r, v := range x {
		for lane, c := range col {
			out[r*panelRows+lane] += v * c
		}
	}
}

// quantizedStep adds one step of a quantized panel.
func quantizedStep(out []float32, act, panel []byte, step int, s shape) {
	scales, codes := s.step(panel, step)
	for g := range stepCols / s.group {
		var scale, low [panelRows]float32
		for lane := range scale {
			if s.super {
				scale[lane], low[lane] = s.superScale(scales, lane, step%superSteps, g)
			} else {
				scale[lane] = half(scales[(g*panelRows+lane)*2:])
			}
		}
		b := g * s.group / blockCols
		for r := range len(act) / recordSize {
			rec := act[r*recordSize : (r+1)*recordSize]
			dots := groupDots(rec, codes, g, s)
			d, sum := recordFloat(rec, recordScale+4*b), recordFloat(rec, recordSum+4*b)
			row := (*[panelRows]float32)(out[r*panelRows:])
			for lane, dot := range dots {
				row[lane] += scale[lane] * d * float32(dot)
			}
			if s.mins {
				for lane := range row {
					row[lane] -= low[lane] * sum
				}
			}
		}
	}
}

var zeroLine [128]byte // higher bits of codes that have none

// groupDots is the integer part of one group: Σ (code-offset)·x for 32 outputs.
func groupDots(rec, codes []byte, group int, s shape) (dots [panelRows]int32) {
	for k := group * s.group / 4; k < (group+1)*s.group/4; k++ {
		size, mask := 128, uint32(0xffffffff)
		if s.nibbles {
			size, mask = 64, 0x0f0f0f0f
		}
		lines := codes[k*size : (k+1)*size]
		x := rec[4*k : 4*k+4]
		high, highShift, highMask := zeroLine[:], 0, uint32(0)
		if s.highBits > 0 {
			n, up := s.highLine(k/8, k%8)
			high, highShift, highMask = codes[nibbleBytes+n*128:][:128], up, uint32(1<<s.highBits-1)*0x01010101
		}
		x0, x1, x2, x3 := int32(int8(x[0])), int32(int8(x[1])), int32(int8(x[2])), int32(int8(x[3]))
		fix := int32(s.offset) * (x0 + x1 + x2 + x3)
		for lane := range dots {
			at, shift := 4*lane, 0
			if s.nibbles {
				at, shift = lane%16*4, lane/16*4
			}
			c := binary.LittleEndian.Uint32(lines[at:at+4]) >> shift & mask
			c |= binary.LittleEndian.Uint32(high[4*lane:4*lane+4]) >> highShift & highMask << 4
			dots[lane] += int32(c&255)*x0 + int32(c>>8&255)*x1 + int32(c>>16&255)*x2 + int32(c>>24)*x3 - fix
		}
	}
	return dots
}

// Offsets in a record of quantized activations.
const (
	recordScale = 64  // 2 x float32 d
	recordC128  = 72  // 2 x int32 -128·Σ
	recordC8    = 80  // 2 x int32 -8·Σ
	recordSum   = 88  // 2 x float32 d·Σ
	recordC32   = 96  // 4 x int32 -32·Σ of half blocks
	recordPad   = 112 // zero
)

func recordFloat(rec []byte, at int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(rec[at:]))
}

func putFloat(rec []byte, at int, v float32) {
	binary.LittleEndian.PutUint32(rec[at:], math.Float32bits(v))
}

func putInt(rec []byte, at int, v int32) { binary.LittleEndian.PutUint32(rec[at:], uint32(v)) }

// quantizeGo defines the quantized form of activations; every level gives the same bytes.
func quantizeGo(dst *byte, stride int, x *float32, blocks int) {
	in := unsafe.Slice(x, blocks*blockCols)
	for b := range roundUp(blocks, 2) {
		rec := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(dst), b/2*stride)), recordSize)
		if b%2 == 0 {
			clear(rec)
		}
		if b < blocks {
			quantizeBlock(rec, b%2, in[b*blockCols:(b+1)*blockCols])
		}
	}
}

// topMin stands in for the largest value of a block of smaller ones, so that
// its inverse is finite.
const topMin = 1e-30

// quantizeBlock writes one block of 32 values into half of a record.
func quantizeBlock(rec []byte, b int, x []float32) {
	top := float32(topMin)
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v))))
	}
	d, inv := top/127, 127/top
	var sums [2]int32
	for i, v := range x {
		q := int32(max(-127, min(127, math.RoundToEven(float64(v*inv)))))
		rec[b*blockCols+i] = byte(int8(q))
		sums[i/16] += q
	}
	sum := sums[0] + sums[1]
	putFloat(rec, recordScale+4*b, d)
	putInt(rec, recordC128+4*b, -128*sum)
	putInt(rec, recordC8+4*b, -8*sum)
	putFloat(rec, recordSum+4*b, d*float32(sum))
	putInt(rec, recordC32+8*b, -32*sums[0])
	putInt(rec, recordC32+8*b+4, -32*sums[1])
}

func softmaxGo(p *float32, n int, stat *[2]float32) {
	v := unsafe.Slice(p, n)
	top := float32(math.Inf(-1))
	for _, x := range v {
		top = max(top, x)
	}
	var sums [16]float32
	for i, x := range v {
		v[i] = exp32(x - top)
		sums[i%16] += v[i]
	}
	stat[0], stat[1] = top, addLanes(&sums)
}

// addLanes folds 16 partial sums in halves, as the vector kernels do.
func addLanes(s *[16]float32) float32 {
	for w := 8; w > 0; w /= 2 {
		for i := range w {
			s[i] += s[i+w]
		}
	}
	return s[0]
}

func deltaGo(state, k, q *float32, dk int, v *float32, decay, beta float32, out, _ *float32) {
	s, ks, qs := unsafe.Slice(state, dk*16), unsafe.Slice(k, dk), unsafe.Slice(q, dk)
	vs, o := unsafe.Slice(v, 16), unsafe.Slice(out, 16)
	for j := range 16 {
		var read float32
		for i, x := range ks {
			read += x * s[i*16+j]
		}
		change := beta * (vs[j] - decay*read)
		var sum float32
		for i, x := range ks {
			s[i*16+j] = decay*s[i*16+j] + x*change
			sum += qs[i] * s[i*16+j]
		}
		o[j] = sum
	}
}

func sumSquaresGo(x *float32, n int) float32 {
	var sums [16]float32
	for i, v := range unsafe.Slice(x, n) {
		sums[i%16] += v * v
	}
	return addLanes(&sums)
}

func scaleMulGo(dst, x, w *float32, scale float32, n int) {
	out, in, weights := unsafe.Slice(dst, n), unsafe.Slice(x, n), unsafe.Slice(w, n)
	for i, v := range in {
		out[i] = v * scale * weights[i]
	}
}

func addGo(x, y *float32, n int) {
	out := unsafe.Slice(x, n)
	for i, v := range unsafe.Slice(y, n) {
		out[i] += v
	}
}

func addScaledGo(x, y *float32, scale float32, n int) {
	out := unsafe.Slice(x, n)
	for i, v := range unsafe.Slice(y, n) {
		out[i] += scale * v
	}
}

func addProductGo(x, y, w *float32, n int) {
	out, weights := unsafe.Slice(x, n), unsafe.Slice(w, n)
	for i, v := range unsafe.Slice(y, n) {
		out[i] += v * weights[i]
	}
}

func siluGo(x *float32, n int) {
	v := unsafe.Slice(x, n)
	for i, g := range v {
		v[i] = g * sigmoid32(g)
	}
}

func siluMulGo(dst, gate, up *float32, n int) {
	out, g, u := unsafe.Slice(dst, n), unsafe.Slice(gate, n), unsafe.Slice(up, n)
	for i, v := range g {
		out[i] = v * sigmoid32(v) * u[i]
	}
}

func sigmoidMulGo(x, gate *float32, n int) {
	v := unsafe.Slice(x, n)
	for i, g := range unsafe.Slice(gate, n) {
		v[i] *= sigmoid32(g)
	}
}

func rotateGo(a, b, cos, sin *float32, n int) {
	u, v := unsafe.Slice(a, n), unsafe.Slice(b, n)
	c, s := unsafe.Slice(cos, n), unsafe.Slice(sin, n)
	for i := range u {
		u[i], v[i] = u[i]*c[i]-v[i]*s[i], u[i]*s[i]+v[i]*c[i]
	}
}

func toHalfGo(dst *uint16, x *float32, n int) {
	out := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(x, n) {
		out[i] = floatToHalf(v)
	}
}

func sigmoid32(x float32) float32 { return 1 / (1 + exp32(-x)) }

// exp32 is e^x: 0 below -87.3, infinite above 88.7.
func exp32(x float32) float32 {
	if x < expMin {
		return 0
	}
	return float32(math.Exp(float64(x)))
}

// expMin is where e^x leaves the normal numbers.
const expMin = -87.33654

// multiplyGo does four multiply-adds a round.
func multiplyGo(rounds int) {
	var a, b, c, d float32
	x := float32(rounds)
	for range rounds {
		a, b, c, d = a*x+x, b*x+x, c*x+x, d*x+x
	}
	if a+b+c+d == 1 {
		panic("unreachable") // the sums are used
	}
}
