package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Attention of prompts takes float32 numbers as sums of two bfloat16 parts,
// high and low, since products of those are exact in float32 and matrix tiles
// form them. A part of a matrix is 16 rows of 32 numbers, pairRow bytes each: 16
// pairs of high parts, then 16 of low ones. The first of a pair is one of the
// row's first 16 numbers, the second one of its last: then pairs are made of
// two vectors without moving anything between lanes. In right matrices it is
// columns of 32 numbers that lie like that, 16 columns side by side. Two parts
// follow each other as a block: 32 rows, or 32 columns.
const (
	pairRow   = 128
	pairPart  = 16 * pairRow
	pairBlock = 2 * pairPart
)

// prompts emits attention of prompts.
func (g *gen) prompts() {
	g.promptConstants()
	half, float, code := kvType{"Half", 2, false}, kvType{"Float", 4, false}, kvType{"Code", 1, true}
	for _, t := range []kvType{half, float, code} {
		g.splitKeys(t)
		g.splitValues(t)
	}
	g.splitQuery()
	g.promptStep()
	g.promptFinish()
}

// promptConstants defines what splitting and powers of two take.
func (g *gen) promptConstants() {
	for _, c := range []struct {
		name string
		bits uint32
	}{
		{"highhalf", 0xffff0000}, {"lasthalf", 0x8000}, {"neginf", 0xff800000}, {"one", 0x3f800000},
		{"pow1", 0x3f31725d}, {"pow2", 0x3e75edab}, {"pow3", 0x3d648e73}, {"pow4", 0x3c13bc2b}, {"pow5", 0x3af4ba7d},
	} {
		g.constant(c.name, g.repeat(c.bits))
	}
}

// splitter takes numbers apart. Both parts are rounded to the nearest.
type splitter struct {
	*gen
	mask, half reg.VecVirtual // the upper half of a float32's bits; half of its last one
	exact      bool           // numbers have 11 bits at most: low parts are exact
}

func (g *gen) newSplitter(exact bool) splitter {
	return splitter{g, g.load(g.c("highhalf")), g.load(g.c("lasthalf")), exact}
}

// parts is x as high and low, of whose bits only the upper half is to be kept.
func (s splitter) parts(x reg.VecVirtual) (high, low reg.VecVirtual) {
	high, low = s.vec(), s.vec()
	s.VPADDD(s.half, x, high)
	s.VPANDD(s.mask, high, high)
	s.VSUBPS(high, x, low)
	if !s.exact {
		s.VPADDD(s.half, low, low)
	}
	return high, low
}

// store writes a row, or a line of 16 columns, of pairs of x and y.
func (s splitter) store(x, y reg.VecVirtual, to operand.Mem) {
	high, low := s.parts(x)
	high2, low2 := s.parts(y)
	s.VPSRLD(operand.U8(16), high, high)
	s.VPORD(high2, high, high)
	s.VMOVDQU32(high, to)
	s.VPSRLD(operand.U8(16), low, low)
	s.VPTERNLOGD(operand.U8(0xf8), s.mask, low2, low) // low | low2 & mask
	to.Disp += pairRow / 2
	s.VMOVDQU32(low, to)
}

// splitQuery emits rows of the left matrix.
func (g *gen) splitQuery() {
	g.function("splitQuery", "func(dst *byte, x *float32, scale float32, blocks, rows, left, group, skip int)",
		"writes rows of x times scale, blocks of 32 numbers each, as rows of parts. "+
			"Rows of x follow each other, but skip bytes after left of them and then after every group.")
	s, scale := g.newSplitter(false), g.scalar("scale")
	dst, x := g.arg("dst"), g.arg("x")
	g.eachQuery(x, func() {
		to := g.moved(dst)
		g.loop(g.arg("blocks"), func() {
			v := g.vecs(2)
			for i := range v {
				g.VMULPS(mem(x, 64*i), scale, v[i])
			}
			s.store(v[0], v[1], mem(to, 0))
			g.ADDQ(operand.I32(pairBlock), to)
			g.ADDQ(operand.I32(128), x)
		})
		g.ADDQ(operand.I32(pairRow), dst)
	})
	g.finish()
}

// eachQuery runs body for rows of queries; body moves x on by a row.
func (g *gen) eachQuery(x reg.GPVirtual, body func()) {
	left := g.arg("left")
	g.loop(g.arg("rows"), func() {
		body()
		g.labels++
		same := fmt.Sprintf("group%d", g.labels)
		g.DECQ(left)
		g.JNZ(operand.LabelRef(same))
		skip := g.arg("skip")
		g.ADDQ(skip, x)
		g.Load(g.Param("group"), left)
		g.Label(same)
	})
}

// splitKeys emits the right matrix of scores: 16 positions of K, which lie as
// [dimension][16] already.
func (g *gen) splitKeys(kv kvType) {
	g.function("splitKeys"+kv.name, "func(dst, src *byte, blocks int)",
		"takes blocks of 32 dimensions of a tile of K apart, as one part of each block.")
	const unroll = 2
	s := g.newSplitter(kv.size == 2)
	dst, src, blocks := g.arg("dst"), g.arg("src"), g.arg("blocks")
	line := 16 * kv.size // of a dimension
	var scales reg.GPVirtual
	if kv.coded {
		scales = g.moved(blocks)
		g.SHLQ(operand.U8(9), scales)
		g.ADDQ(src, scales)
	}
	g.loop(blocks, func() {
		scale := reg.VecVirtual(nil)
		if kv.coded {
			scale = g.vec()
			g.loadHalves(mem(scales, 0), scale)
			g.ADDQ(operand.I8(32), scales)
		}
		g.loop(g.moved(operand.U32(16/unroll)), func() {
			for i := range unroll {
				x, y := g.loadScaled(kv, mem(src, i*line), scale), g.loadScaled(kv, mem(src, (16+i)*line), scale)
				s.store(x, y, mem(dst, i*pairRow))
			}
			g.ADDQ(operand.I32(int32(unroll*line)), src)
			g.ADDQ(operand.I32(unroll*pairRow), dst)
		})
		g.ADDQ(operand.I32(int32(16*line)), src)
		g.ADDQ(operand.I32(pairBlock-pairPart), dst)
	})
	g.finish()
}

// loadScaled loads 16 elements, and multiplies codes by their scale.
func (g *gen) loadScaled(kv kvType, m operand.Mem, scale reg.VecVirtual) reg.VecVirtual {
	v := g.vec()
	g.loadKV(kv, m, v)
	if kv.coded {
		g.VMULPS(scale, v, v)
	}
	return v
}

// splitValues emits the right matrix of sums: 32 positions of V, which lie as
// two tiles of [position][dimension].
func (g *gen) splitValues(kv kvType) {
	g.function("splitValues"+kv.name, "func(dst, first, second *byte, d int)",
		"takes two tiles of V apart; a pair is a position of each.")
	s := g.newSplitter(kv.size == 2)
	dst, row, blocks := g.arg("dst"), g.arg("d"), g.arg("d")
	tiles, scales := []reg.GPVirtual{g.arg("first"), g.arg("second")}, []reg.GPVirtual{nil, nil}
	for i := range tiles {
		if kv.coded {
			scales[i] = g.moved(row)
			g.SHLQ(operand.U8(4), scales[i])
			g.ADDQ(tiles[i], scales[i])
		}
	}
	if kv.size > 1 {
		g.SHLQ(operand.U8(uint8(kv.size/2)), row)
	}
	g.SHRQ(operand.U8(5), blocks)
	g.loop(blocks, func() {
		at := []reg.GPVirtual{g.moved(tiles[0]), g.moved(tiles[1])}
		g.loop(g.moved(operand.U32(16)), func() {
			scale := []reg.VecVirtual{nil, nil}
			for i, p := range scales {
				if kv.coded {
					scale[i] = g.vec()
					g.VPBROADCASTW(mem(p, 0), scale[i].AsY())
					g.VCVTPH2PS(scale[i].AsY(), scale[i])
					g.ADDQ(operand.I8(2), p)
				}
			}
			for c := range 2 { // of 16 dimensions
				x := g.loadScaled(kv, mem(at[0], 16*c*kv.size), scale[0])
				y := g.loadScaled(kv, mem(at[1], 16*c*kv.size), scale[1])
				s.store(x, y, mem(dst, c*pairPart))
			}
			for i := range at {
				g.ADDQ(row, at[i])
			}
			g.ADDQ(operand.I32(pairRow), dst)
		})
		g.ADDQ(operand.I32(pairPart), dst)
		for i := range tiles {
			g.ADDQ(operand.I32(int32(32*kv.size)), tiles[i])
		}
	})
	g.finish()
}
