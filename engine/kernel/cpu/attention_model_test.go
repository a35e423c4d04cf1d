package cpu

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"corenode/engine/kernel"
)

// The kernels of prompts on matrix tiles, modeled in Go: where a processor has no tiles, tests of what
// calls them run with these. A number stands where tiles have its two parts: rows of a matrix on the
// left, columns of one on the right, follow each other in blocks of 32 x 32.

// modeledPrompts are those kernels over the level's own conversions.
func modeledPrompts(o *ops) *promptOps {
	m := &promptOps{query: modelQuery, step: modelStep, finish: modelFinish}
	for _, kv := range kvAll {
		m.keys[kv] = func(dst, src *byte, blocks int) {
			k := modelHalf(o, kv, src, 32*blocks, func(d, pos int) int { return d*kvTile + pos })
			out := unsafe.Slice((*float32)(unsafe.Pointer(dst)), (blocks-1)*pairBlock+pairPart)
			for pos := range kvTile {
				for d := range 32 * blocks {
					out[d/32*pairBlock+pos*32+d%32] = k[d*kvTile+pos]
				}
			}
		}
		m.values[kv] = func(dst, first, second *byte, d int) {
			out := unsafe.Slice((*float32)(unsafe.Pointer(dst)), 32*d)
			for i, src := range []*byte{first, second} {
				v := modelHalf(o, kv, src, d, func(at, pos int) int { return pos*d + at })
				for j, x := range v {
					out[j%d/32*pairBlock+j%d%32*32+i*kvTile+j/d] = x
				}
			}
		}
	}
	return m
}

// modelHalf is a half tile as float32: codes times their scales, which stand for 32 dimensions of a position.
func modelHalf(o *ops, kv kernel.KVType, src *byte, dim int, at func(d, pos int) int) []float32 {
	x := make([]float32, dim*kvTile)
	o.widen[kv](&x[0], src, len(x))
	if kv == kernel.KVQ8 {
		scales := make([]float32, len(x)/kernel.KVBlock)
		o.widen[kernel.KVF16](&scales[0], skip(src, len(x)), len(scales))
		for d := range dim {
			for pos := range kvTile {
				x[at(d, pos)] *= scales[d/kernel.KVBlock*kvTile+pos]
			}
		}
	}
	return x
}

// modelRows calls do with the rows that query reads and finish writes.
func modelRows(x *float32, blocks, rows, left, group, skipped int, do func(row int, x []float32)) {
	at := (*byte)(unsafe.Pointer(x))
	for row := range rows {
		do(row, unsafe.Slice((*float32)(unsafe.Pointer(at)), 32*blocks))
		if row == rows-1 {
			return
		}
		if at = skip(at, 128*blocks); (row+1-left)%group == 0 {
			at = skip(at, skipped)
		}
	}
}

func modelQuery(dst *byte, x *float32, scale float32, blocks, rows, left, group, skipped int) {
	modelRows(x, blocks, rows, left, group, skipped, func(row int, x []float32) {
		for i, v := range x {
			*(*float32)(unsafe.Pointer(skip(dst, 4*(i/32*pairBlock+row*32+i%32)))) = v * scale
		}
	})
}

func modelFinish(dst *float32, out *byte, sums *float32, blocks, rows, left, group, skipped int) {
	all := unsafe.Slice(sums, 16*rows)
	modelRows(dst, blocks, rows, left, group, skipped, func(row int, x []float32) {
		sum := float32(0)
		for _, s := range all[16*row : 16*row+16] {
			sum += s
		}
		for i := range x {
			x[i] = *(*float32)(unsafe.Pointer(skip(out, 4*(i/32*pairBlock+row*32+i%32)))) / sum
		}
	})
}

func modelStep(step *byte) {
	s := (*promptStep)(unsafe.Pointer(step))
	for _, p := range s.products {
		for c := range p.columns {
			dst := unsafe.Slice(p.dst, (c+1)*pairBlock)[c*pairBlock:]
			if p.more == 0 {
				clear(dst)
			}
			for b := range p.blocks {
				left := unsafe.Slice(p.left, (b+1)*pairBlock)[b*pairBlock:]
				right := (*float32)(unsafe.Add(unsafe.Pointer(p.right), b*p.rightNext+c*p.rightStep))
				modelProduct(dst, left, unsafe.Slice(right, pairBlock))
			}
		}
	}
	for row := range s.softmax.rows {
		modelSoftmax(&s.softmax, row)
	}
}

func modelProduct(dst, left, right []float32) {
	for r := range promptTile {
		for c := range promptTile {
			sum := dst[r*32+c]
			for k := range promptTile {
				sum += left[r*32+k] * right[c*32+k]
			}
			dst[r*32+c] = sum
		}
	}
}

func modelSoftmax(s *promptSoftmax, row int) {
	tops, sums := unsafe.Slice(s.tops, row+1), unsafe.Slice(s.sums, 16*(row+1))[16*row:]
	of := func(x *float32, blocks, i int) []float32 {
		return unsafe.Slice(x, blocks*pairBlock)[i*pairBlock+row*32:][:32]
	}
	top := tops[row]
	for i := range s.blocks {
		top = max(top, slices.Max(of(s.scores, s.blocks, i)))
	}
	before := float32(math.Exp2(float64(tops[row] - top)))
	for i := range sums {
		sums[i] *= before
	}
	for i := range s.columns {
		for j, x := range of(s.out, s.columns, i) {
			of(s.out, s.columns, i)[j] = x * before
		}
	}
	tops[row] = top
	for i := range s.blocks {
		for j, x := range of(s.scores, s.blocks, i) {
			w := float32(math.Exp2(float64(x - top)))
			of(s.scores, s.blocks, i)[j] = w
			sums[j%16] += w
		}
	}
}

// openModeled opens the fastest level here but amx with the kernels above for prompts.
func openModeled(t testing.TB, threads int) *Backend {
	t.Helper()
	if testing.Short() {
		t.Skip("this processor has no matrix tiles, and their model is slow")
	}
	levels := slices.DeleteFunc(slices.Clone(Levels()), func(level string) bool { return level == "amx" })
	b := open(t, Options{Level: levels[0], Threads: threads})
	with := *b.ops
	with.prompts, with.words = modeledPrompts(b.ops), nil
	b.ops = &with
	return b
}
