package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// superRow is what stays in registers while a superblock of one panel passes.
type superRow struct {
	act    reg.Register
	sums   []reg.VecVirtual  // by side
	d, low [2]reg.VecVirtual // factors, by side
	// offsetD and offsetLow are -2^23 times the factors: see scaleOf.
	offsetD, offsetLow [2]reg.VecVirtual
	nibble, part       reg.VecVirtual // masks
	code, fields       reg.VecVirtual
	exponent           reg.VecVirtual // 2^23
	// prefetchAt are the addresses of all streams from which the step asks for memory.
	prefetchAt []operand.Mem
}

// The streams take turns by superblock, but memory is asked for in all of them at
// once, a part of each with every step: requests to one stream alone were
// measured to be a tenth slower. superPrefetchNear is counted from where the step
// would lie without the scales before its codes.
const (
	superPrefetch     = 8192
	superPrefetchNear = 2048
)

// superVec emits matVec for superblocks: those of a stream in turn, so that its
// factors stay in registers.
func (g *gen) superVec(l layout) {
	g.function("matVec"+l.name, matVecSignature,
		fmt.Sprintf("multiplies a row of quantized activations with %d %s panels, stride bytes apart.", vecStreams, l.name))
	dst, act, steps, panels := g.arg("dst"), g.arg("act"), g.arg("steps"), g.vecPanels()
	sums := g.vecs(2 * vecStreams)
	g.zero(sums...)
	r := superRow{act: act, nibble: g.load(g.c("nibbles"))}
	if l.mins {
		r.part, r.exponent = g.load(g.c("part")), g.load(g.c("exponent"))
	}
	switch l.highBits {
	case 1:
		r.code = g.load(g.c("bits5"))
	case 2:
		r.fields = g.load(g.c("fields"))
	}
	g.SHRQ(operand.U8(2), steps)
	g.loop(steps, func() {
		share := g.GP64()
		g.MOVQ(operand.U32(0), share)
		for i, panel := range panels {
			r.sums, r.prefetchAt = sums[2*i:2*i+2], l.superPrefetches(panels, i, share)
			g.superFactors(l, &r, panel)
			g.superblock(l, panel, func(at place) {
				g.superStep(l, r, at)
				g.ADDQ(operand.I32(l.stepBytes/vecStreams), share)
			})
		}
		g.ADDQ(operand.I32(superSteps*recordSize), act)
	})
	for i, s := range sums {
		g.VMOVUPS(s, mem(dst, i*64))
	}
	g.finish()
}

// superPrefetches are where the streams are prefetched while stream i passes:
// those before it have moved on already.
func (l layout) superPrefetches(panels []reg.GPVirtual, i int, share reg.Register) []operand.Mem {
	m := make([]operand.Mem, len(panels))
	for s, panel := range panels {
		m[s] = operand.Mem{Base: panel, Index: share, Scale: 1, Disp: superPrefetch}
		if s < i {
			m[s].Disp -= superSteps * l.stepBytes
		}
	}
	return m
}

// superPrefetch asks for what belongs to part part of 16 of a step.
func (g *gen) superPrefetch(l layout, r superRow, at place, part int) {
	lines := (l.stepBytes + 63) / 64
	for i := part * lines / 16; i < (part+1)*lines/16; i++ {
		g.PREFETCHT0(mem(at.walk, superPrefetchNear+64*i))
	}
	far := (l.stepBytes/vecStreams + 63) / 64 * vecStreams
	for i := part * far / 16; i < (part+1)*far/16; i++ {
		m := r.prefetchAt[i%vecStreams]
		m.Disp += i / vecStreams * 64
		g.PREFETCHT1(m)
	}
}

// superFactors loads the factors of a superblock.
func (g *gen) superFactors(l layout, r *superRow, panel reg.Register) {
	for side := range 2 {
		r.d[side] = g.vec()
		g.loadHalves(mem(panel, side*32), r.d[side])
		if !l.mins {
			continue
		}
		r.low[side], r.offsetD[side], r.offsetLow[side] = g.vec(), g.vec(), g.vec()
		g.loadHalves(mem(panel, 64+side*32), r.low[side])
		g.VMULPS(g.c("minusExponent"), r.d[side], r.offsetD[side])
		g.VMULPS(g.c("minusExponent"), r.low[side], r.offsetLow[side])
	}
}

// record is the address of a field of the activations of a step.
func (r superRow) record(at place, disp int) operand.Mem {
	return operand.Mem{Base: r.act, Index: at.index, Scale: recordSize / superIndex, Disp: disp}
}

// superStep adds a step of one panel.
func (g *gen) superStep(l layout, r superRow, at place) {
	if !l.mins {
		for half := range 4 {
			dots := g.superHalfDots(l, r, half, at)
			for side := range 2 {
				g.superHalfScale(l, r, half, dots[side], side, at)
			}
		}
		return
	}
	var dots [2][]reg.VecVirtual // by group and side
	for p := range dots {
		dots[p] = g.vecs(2)
		g.zero(dots[p]...)
	}
	for k := range 8 {
		for p, d := range dots {
			x := g.vec()
			g.VPBROADCASTD(r.record(at, 4*(8*p+k)), x)
			g.superPrefetch(l, r, at, 2*k+p)
			of := group{block: p, first: 8 * p}
			if l.highBits == 0 {
				g.vecNibbles(x, mem(at.codes, l.nibbleLine(of, k)), r.nibble, d)
				continue
			}
			for side := range 2 {
				g.vnniReg(x, g.superCode(l, r, of, k, side, at), d[side])
			}
		}
	}
	if l.highBits == 0 {
		for _, d := range dots {
			g.vecSplit(d)
		}
	}
	for side := range 2 {
		g.superScales(l, r, side, [2]reg.VecVirtual{dots[0][side], dots[1][side]}, at)
	}
}

// superCode is 5-bit codes of a side of column group k of p.
func (g *gen) superCode(l layout, r superRow, p group, k, side int, at place) reg.VecVirtual {
	line := g.load(mem(at.codes, l.nibbleLine(p, k)))
	if side == 1 {
		g.VPSRLW(operand.U8(4), line, line)
	}
	high := g.load(mem(at.codes, l.highLine(p, k)+side*64))
	switch { // to bit 4 of each byte
	case k < 4:
		g.VPSLLW(operand.U8(uint8(4-k)), high, high)
	case k > 4:
		g.VPSRLW(operand.U8(uint8(k-4)), high, high)
	}
	g.lowNibbles(r, line, high)
	g.VPANDD(r.code, high, high)
	return high
}

// lowNibbles puts the lower nibbles of line into high.
func (g *gen) lowNibbles(r superRow, line, high reg.VecVirtual) {
	g.VPTERNLOGD(operand.U8(0xb8), line, r.nibble, high)
}

// superScales adds the integer sums of the two groups of a side, times their
// scales, to the sums, and takes their minima off.
func (g *gen) superScales(l layout, r superRow, side int, dots [2]reg.VecVirtual, at place) {
	m := l.partsOf(group{}, at, side)
	words, bytes := g.vec(), g.vec()
	g.VPMOVZXWD(m.words, words)
	g.VPMOVZXBD(m.bytes, bytes)
	for p, d := range dots {
		scale, low := g.vec(), g.vec()
		if p == 0 {
			g.VMOVDQA32(words, scale)
			g.VMOVDQA32(bytes, low)
			g.field(r, low)
		} else {
			g.VPSRLD(operand.U8(6), words, scale)
			g.VPSRLD(operand.U8(12), words, words)
			g.VPSRLD(operand.U8(2), bytes, low)
			g.VPTERNLOGD(operand.U8(0xec), g.c("partHigh"), words, low) // low & partHigh | words
			g.VPORD(r.exponent, low, low)
		}
		g.field(r, scale)
		g.VFMADD213PS(r.offsetD[side], r.d[side], scale)
		g.VMULPS_BCST(r.record(at, atScale+4*p), scale, scale)
		g.VCVTDQ2PS(d, d)
		g.VFMADD231PS(scale, d, r.sums[side])
		g.VFMADD213PS(r.offsetLow[side], r.low[side], low)
		g.VFNMADD231PS_BCST(r.record(at, atSum+4*p), low, r.sums[side])
	}
}

// field keeps the lowest six bits of v and makes them a float, plus 2^23: times a
// factor, minus 2^23 times that factor, which a multiply-add does in one, it is
// the exact product, as a conversion would give it.
func (g *gen) field(r superRow, v reg.VecVirtual) {
	g.VPTERNLOGD(operand.U8(0xea), r.exponent, r.part, v) // v & part | exponent
}

// superHalfDots is the integer sums of a group of 16 columns by side, with 6-bit
// codes. A line of their upper bits holds those of four column groups; two masks
// over it leave no bits that would have to go later.
func (g *gen) superHalfDots(l layout, r superRow, half int, at place) (dots [2]reg.VecVirtual) {
	p := group{index: half, block: half / 2, first: 4 * half}
	var even, odd [2]reg.VecVirtual
	for side := range 2 {
		dots[side], even[side], odd[side] = g.vec(), g.vec(), g.load(mem(at.codes, l.highLine(p, 0)+side*64))
		g.VPBROADCASTD(r.record(at, l.correction(p)), dots[side])
		g.VPANDD(r.fields, odd[side], even[side])
		g.VPSRLW(operand.U8(2), odd[side], odd[side])
		g.VPANDD(r.fields, odd[side], odd[side])
	}
	for k := range 4 {
		x := g.vec()
		g.VPBROADCASTD(r.record(at, 4*(p.first+k)), x)
		g.superPrefetch(l, r, at, p.first+k)
		for side := range 2 {
			line := g.load(mem(at.codes, l.nibbleLine(p, k)))
			if side == 1 {
				g.VPSRLW(operand.U8(4), line, line)
			}
			w := [2]reg.VecVirtual{even[side], odd[side]}[k%2]
			if k < 2 {
				high := g.vec()
				g.VPSLLW(operand.U8(4), w, high)
				w = high
			}
			g.lowNibbles(r, line, w)
			g.vnniReg(x, w, dots[side])
		}
	}
	return dots
}

// superHalfScale adds the integer sums of a group of 16 columns, times their scales.
func (g *gen) superHalfScale(l layout, r superRow, half int, dots reg.VecVirtual, side int, at place) {
	scale := g.vec()
	g.VPMOVSXBD(l.partsOf(group{index: half}, at, side).bytes, scale)
	g.VCVTDQ2PS(scale, scale)
	g.VMULPS(r.d[side], scale, scale)
	g.VMULPS_BCST(r.record(at, atScale+4*(half/2)), scale, scale)
	g.VCVTDQ2PS(dots, dots)
	g.VFMADD231PS(scale, dots, r.sums[side])
}
