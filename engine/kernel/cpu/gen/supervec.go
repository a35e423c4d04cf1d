package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// superRow is what stays in registers while one panel of several passes.
type superRow struct {
	d, low [2]reg.VecVirtual // of the superblock, by side
	sums   []reg.VecVirtual  // by side
	nibble reg.VecVirtual    // masks
	rest   reg.VecVirtual
	part   reg.VecVirtual
}

// superVec emits matVec for superblocks. The streams take turns by superblock,
// so that its factors stay in registers.
func (g *gen) superVec(l layout) {
	g.function("matVec"+l.name, matVecSignature,
		fmt.Sprintf("multiplies a row of quantized activations with %d %s panels, stride bytes apart.", vecStreams, l.name))
	dst, act, steps, panels := g.arg("dst"), g.arg("act"), g.arg("steps"), g.vecPanels()
	sums := g.vecs(2 * vecStreams)
	g.zero(sums...)
	r := superRow{nibble: g.load(g.c("nibbles"))}
	switch l.highBits {
	case 0:
		r.rest = g.load(g.c("upper"))
	case 1:
		r.rest = g.load(g.c("bits5"))
	case 2:
		r.rest = g.load(g.c("bits6"))
	}
	if l.mins {
		r.part = g.load(g.c("part"))
	}
	g.SHRQ(operand.U8(2), steps)
	g.loop(steps, func() {
		for i, panel := range panels {
			r.sums = sums[2*i : 2*i+2]
			for side := range 2 {
				r.d[side] = g.vec()
				g.loadHalves(mem(panel, side*32), r.d[side])
				if l.mins {
					r.low[side] = g.vec()
					g.loadHalves(mem(panel, 64+side*32), r.low[side])
				}
			}
			g.superblock(l, panel, func(at place) { g.superStep(l, r, act, at) })
		}
		g.ADDQ(operand.I32(superSteps*recordSize), act)
	})
	for i, s := range sums {
		g.VMOVUPS(s, mem(dst, i*64))
	}
	g.finish()
}

// superStep adds a step of one panel.
func (g *gen) superStep(l layout, r superRow, act reg.Register, at place) {
	record := func(disp int) operand.Mem {
		return operand.Mem{Base: act, Index: at.index, Scale: recordSize / superIndex, Disp: disp}
	}
	for block := range 2 {
		dots := g.superDots(l, r, block, record, at)
		for side := range 2 {
			if l.mins {
				g.superScaleMin(l, r, group{index: block}, dots[side], side, record, at)
				continue
			}
			for half := range 2 {
				g.superScaleHalf(l, r, group{index: 2*block + half, block: block}, dots[side][half], side, record, at)
			}
		}
	}
}

// superDots is the integer sums of a block of 32 columns, by side and by half of
// the block.
func (g *gen) superDots(l layout, r superRow, block int, record func(int) operand.Mem, at place) (dots [2][2]reg.VecVirtual) {
	for side := range 2 {
		for half := range 2 {
			dots[side][half] = g.vec()
			if c := l.correction(group{index: 2*block + half, block: block}); c >= 0 {
				g.VPBROADCASTD(record(c), dots[side][half])
			} else {
				g.zero(dots[side][half])
			}
		}
	}
	p := group{block: block, first: 8 * block, groups: 8}
	for k := range 4 {
		var x [2]reg.VecVirtual
		for half := range 2 {
			x[half] = g.vec()
			g.VPBROADCASTD(record(4*(8*block+k+4*half)), x[half])
		}
		g.vecPrefetchPart(l, at.walk, 4*block+k, 8)
		for side := range 2 {
			line := g.load(mem(at.codes, l.nibbleLine(p, k)+side*64))
			for half := range 2 {
				g.vnniReg(x[half], g.superCode(l, r, p, k+4*half, at.codes, side*64, line), dots[side][half])
			}
		}
	}
	return dots
}

// superCode is the codes of column group k of a block, of which line holds the
// nibbles. Codes of 4 bits come 16-fold from upper nibbles.
func (g *gen) superCode(l layout, r superRow, p group, k int, codes reg.Register, at int, line reg.VecVirtual) reg.VecVirtual {
	w := g.vec()
	if l.highBits == 0 {
		mask := r.nibble
		if k >= 4 {
			mask = r.rest
		}
		g.VPANDD(mask, line, w)
		return w
	}
	if k >= 4 {
		g.VPSRLW(operand.U8(4), line, w)
		line = w
	}
	bit := k * l.highBits
	high := g.load(mem(codes, 1024+(p.block*l.highBits+bit/8)*128+at))
	switch shift := bit % 8; { // to bit 4 of each byte
	case shift < 4:
		g.VPSLLW(operand.U8(uint8(4-shift)), high, high)
	case shift > 4:
		g.VPSRLW(operand.U8(uint8(shift-4)), high, high)
	}
	// high = nibble mask ? line : high, then the bits above the code go.
	g.VPTERNLOGD(operand.U8(0xb8), line, r.nibble, high)
	g.VPANDD(r.rest, high, w)
	return w
}

// superScaleMin adds a group's integer sums, times their scales, to the sums,
// and takes its minima off.
func (g *gen) superScaleMin(l layout, r superRow, p group, dots [2]reg.VecVirtual, side int, record func(int) operand.Mem, at place) {
	m := l.partsOf(p, at, side)
	words, scale, low := g.vec(), g.vec(), g.vec()
	g.VPMOVZXWD(m.words, words)
	g.VPMOVZXBD(m.bytes, low)
	g.wordPart(p, words, scale)
	g.VCVTDQ2PS(scale, scale)
	g.VMULPS(r.d[side], scale, scale)
	g.VMULPS_BCST(record(atScale+4*p.index), scale, scale)
	if l.highBits == 0 {
		g.VPSRAD(operand.U8(4), dots[1], dots[1])
	}
	g.VPADDD(dots[0], dots[1], dots[0])
	g.VCVTDQ2PS(dots[0], dots[0])
	g.VFMADD231PS(scale, dots[0], r.sums[side])
	g.minPart(p, words, low)
	g.VCVTDQ2PS(low, low)
	g.VMULPS(r.low[side], low, low)
	g.VFNMADD231PS_BCST(record(atSum+4*p.index), low, r.sums[side])
}

// superScaleHalf adds the integer sums of a group of 16 columns.
func (g *gen) superScaleHalf(l layout, r superRow, p group, dots reg.VecVirtual, side int, record func(int) operand.Mem, at place) {
	scale := g.vec()
	g.VPMOVSXBD(l.partsOf(p, at, side).bytes, scale)
	g.VCVTDQ2PS(scale, scale)
	g.VMULPS(r.d[side], scale, scale)
	g.VMULPS_BCST(record(atScale+4*p.block), scale, scale)
	g.VCVTDQ2PS(dots, dots)
	g.VFMADD231PS(scale, dots, r.sums[side])
}
