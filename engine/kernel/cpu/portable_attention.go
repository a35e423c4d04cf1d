package cpu

import (
	"math"
	"unsafe"

	"corenode/engine/kernel"
)

// halfTile reads one half of a tile, K or V.
type halfTile struct {
	p   unsafe.Pointer
	kv  kernel.KVType
	dim int
}

// at is element i, a code without its scale.
func (h halfTile) at(i int) float32 {
	switch h.kv {
	case kernel.KVF32:
		return *(*float32)(unsafe.Add(h.p, 4*i))
	case kernel.KVQ8:
		return float32(*(*int8)(unsafe.Add(h.p, i)))
	}
	return halfToFloat(*(*uint16)(unsafe.Add(h.p, 2*i)))
}

// scale is what the codes of a block of a position are multiplied with.
func (h halfTile) scale(block, lane int) float32 {
	if h.kv != kernel.KVQ8 {
		return 1
	}
	return halfToFloat(*(*uint16)(unsafe.Add(h.p, h.dim*kvTile+2*(block*kvTile+lane))))
}

// portableAttention is the pair of attention kernels for one query tile height.
// Codes are summed block by block, and the sums are scaled.
func portableAttention(queries int, kv kernel.KVType) (scoresFunc, valuesFunc) {
	scores := func(dst, q *float32, tiles **byte, count, d int) {
		out, in := unsafe.Slice(dst, (queries-1)*scoreStride+count*kvTile), unsafe.Slice(q, queries*d)
		for t, tile := range unsafe.Slice(tiles, count) {
			h := halfTile{unsafe.Pointer(tile), kv, d}
			for m := range queries {
				scoreTile((*[kvTile]float32)(out[m*scoreStride+t*kvTile:]), in[m*d:(m+1)*d], h)
			}
		}
	}
	values := func(dst, p *float32, tiles **byte, count, d int) {
		out, in := unsafe.Slice(dst, queries*d), unsafe.Slice(p, (queries-1)*scoreStride+count)
		list := unsafe.Slice(tiles, (count+kvTile-1)/kvTile)
		for pos := range count {
			h, lane := halfTile{unsafe.Pointer(list[pos/kvTile]), kv, d}, pos%kvTile
			for i := range d {
				x := h.at(lane*d + i)
				scale := h.scale(i/kernel.KVBlock, lane)
				for m := range queries {
					out[m*d+i] += in[m*scoreStride+pos] * scale * x
				}
			}
		}
	}
	return scores, values
}

// portableWiden converts elements of one type.
func portableWiden(kv kernel.KVType) func(dst *float32, src *byte, n int) {
	return func(dst *float32, src *byte, n int) {
		h := halfTile{p: unsafe.Pointer(src), kv: kv}
		for i := range unsafe.Slice(dst, n) {
			unsafe.Slice(dst, n)[i] = h.at(i)
		}
	}
}

// scoreTile is the scores of one query against 16 positions.
func scoreTile(out *[kvTile]float32, q []float32, k halfTile) {
	*out = [kvTile]float32{}
	block := len(q)
	if k.kv == kernel.KVQ8 {
		block = kernel.KVBlock
	}
	for at := 0; at < len(q); at += block {
		var sum [kvTile]float32
		for i, x := range q[at : at+block] {
			for lane := range sum {
				sum[lane] += x * k.at((at+i)*kvTile+lane)
			}
		}
		for lane, s := range sum {
			out[lane] += s * k.scale(at/block, lane)
		}
	}
}

// foldGo adds the next range to the ranges before it.
func foldGo(sum *float32, stat *[2]float32, next *float32, nextStat *[2]float32, n int) {
	top := max(stat[0], nextStat[0])
	a, b := exp32(stat[0]-top), exp32(nextStat[0]-top)
	stat[0], stat[1] = top, stat[1]*a+nextStat[1]*b
	out := unsafe.Slice(sum, n)
	for i, v := range unsafe.Slice(next, n) {
		out[i] = out[i]*a + v*b
	}
}

// encodeKVGo defines 8-bit storage; every level gives the same codes.
func encodeKVGo(codes *byte, scales *uint16, x *float32, blocks int) {
	for b := range blocks {
		in := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(x), 4*kernel.KVBlock*b)), kernel.KVBlock)
		out := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(codes), kernel.KVBlock*b)), kernel.KVBlock)
		var top float32
		for _, v := range in {
			top = max(top, float32(math.Abs(float64(v))))
		}
		scale := floatToHalf(min(top/127, halfMax))
		*(*uint16)(unsafe.Add(unsafe.Pointer(scales), 2*b)) = scale
		var inverse float32
		if d := halfToFloat(scale); d != 0 {
			inverse = 1 / d
		}
		for i, v := range in {
			out[i] = byte(int8(max(-128, min(127, math.RoundToEven(float64(v*inverse))))))
		}
	}
}

// halfMax is the largest finite float16.
const halfMax = 65504
