package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Sizes of the tile kernels, as in package cpu.
const (
	bandRows   = 8              // rows of activations of a tile
	lineBytes  = 128            // a column group of a panel, and a row of 32 sums
	dotsBytes  = bandRows * 128 // the integer sums of 8 rows x 32 outputs
	dotsAt     = 64             // offset of the first of two of them in the scratch, after the configuration
	plainCodes = 64 / 4 * 128   // codes of a step as signed bytes
)

// bandStep is the size of a step of a panel taken apart: signed codes, then
// the float32 scales of its groups, then their minima.
func (l layout) bandStep() int {
	n := plainCodes + 64/l.group*lineBytes
	if l.mins {
		n += 64 / l.group * lineBytes
	}
	return n
}

// bands emits what the level amx adds to the one below.
func (g *gen) bands() {
	for _, l := range layouts {
		g.unpack(l)
	}
	for _, l := range layouts {
		g.band(l)
	}
}

// bandConstants defines the constants of level amx.
func (g *gen) bandConstants() {
	for _, c := range []struct {
		name string
		bits uint32
	}{
		{"nibbles", 0x0f0f0f0f}, {"bit4", 0x10101010}, {"bits45", 0x30303030},
		{"offset128", 0x80808080}, {"offset32", 0x20202020}, {"offset8", 0x08080808},
	} {
		g.constant(c.name, g.repeat(c.bits))
	}
}

// unpack takes steps of a panel apart.
func (g *gen) unpack(l layout) {
	g.function("unpack"+l.name, "func(dst *byte, panel *byte, steps int)",
		fmt.Sprintf("takes steps of a %s panel apart.", l.name))
	dst, panel, steps := g.arg("dst"), g.arg("panel"), g.arg("steps")
	mask, offset := g.vec(), g.vec()
	if l.nibbles {
		g.VMOVDQU32(g.c("nibbles"), mask)
	}
	if l.offset > 0 {
		g.VMOVDQU32(g.c(fmt.Sprintf("offset%d", l.offset)), offset)
	}
	g.eachStep(l, panel, steps, func(at place) {
		for _, p := range l.all() {
			for k := range p.groups {
				for side := range 2 {
					w := reg.VecVirtual(nil)
					if l.nibbles {
						w = g.loadCode(l, p, k, side, at.codes, mask)
					} else {
						w = g.load(mem(at.codes, l.codesAt+(p.first+k)*lineBytes+side*64))
					}
					if l.offset > 0 {
						g.VPSUBB(offset, w, w)
					}
					g.VMOVDQU32(w, mem(dst, (p.first+k)*lineBytes+side*64))
				}
			}
		}
		g.plainScales(l, at, dst, plainCodes)
		g.ADDQ(operand.I32(l.bandStep()), dst)
	})
	g.finish()
}

const bandSignature = "func(dst *float32, dstStride int, sums *float32, more int, act *byte, bands int, actStride int, w *byte, steps int, ahead uintptr, aheadEvery int, scratch *byte)"

// Registers that tile instructions name. The current and the next step of
// activations and of weights; the integer sums; the distance of lines.
var (
	nowAct, nowCodes   = reg.RAX, reg.RCX
	nextAct, nextCodes = reg.RSI, reg.RDI
	dotsBase, line     = reg.R8, reg.RDX
)

// band emits the product of bands of 8 rows with steps of a panel taken apart.
//
// Groups pass through three stages, two groups apart: their integer products
// form in one of two pairs of tiles, the pair is stored to one of two
// buffers, and the buffer is scaled and added to 16 sums in registers. The
// stages of three groups overlap; the last two groups of a band overlap the
// first two of the next. After the last band the products of its own first
// groups are made once more, for nothing.
//
// One step in aheadEvery also asks for a step of the weights at ahead, a line
// at a time between the rest, so that reading them fills the time of the others.
func (g *gen) band(l layout) {
	g.function("band"+l.name, bandSignature,
		fmt.Sprintf("multiplies bands of 8 rows of activations with steps of a %s panel taken apart.", l.name))
	scratch := reg.R9
	g.Load(g.Param("scratch"), scratch)
	g.loadTileConfig(scratch)
	g.LEAQ(operand.Mem{Base: scratch, Disp: dotsAt}, dotsBase)
	g.MOVQ(operand.U32(lineBytes), line)
	dst, earlier, bands := g.arg("dst"), g.arg("sums"), g.arg("bands")
	ahead, wait := g.arg("ahead"), g.GP64()
	g.MOVQ(operand.U32(1), wait)
	g.Load(g.Param("act"), nowAct)
	g.Load(g.Param("w"), nowCodes)
	nextBand := g.GP64()
	g.MOVQ(nowAct, nextBand)
	sums := g.vecs(2 * bandRows)

	g.multiply(l, 0, 0, nowAct, nowCodes)
	g.multiply(l, 1, 1, nowAct, nowCodes)
	g.storeDots(0)
	g.loop(bands, func() {
		g.nextBand(bands, nextBand)
		g.startSums(earlier, sums)
		g.ADDQ(operand.U32(bandRows*lineBytes), earlier)
		left := g.arg("steps")
		g.loop(left, func() {
			g.nextStep(l, left, nextBand)
			plain, end := fmt.Sprintf("plain%d", g.labels), fmt.Sprintf("next%d", g.labels)
			g.DECQ(wait)
			g.JNZ(operand.LabelRef(plain))
			g.Load(g.Param("aheadEvery"), wait)
			g.bandStep(l, sums, func(slot int) {
				for i := slot * 64; i < l.stepBytes; i += 64 * bandSlots(l) {
					g.PREFETCHT0(mem(ahead, i))
				}
			})
			g.ADDQ(operand.I32(l.stepBytes), ahead)
			g.JMP(operand.LabelRef(end))
			g.Label(plain)
			g.bandStep(l, sums, func(int) {})
			g.Label(end)
			g.MOVQ(nextAct, nowAct)
			g.MOVQ(nextCodes, nowCodes)
		})
		stride := g.arg("dstStride")
		for r := range bandRows {
			g.VMOVUPS(sums[2*r], mem(dst, 0))
			g.VMOVUPS(sums[2*r+1], mem(dst, 64))
			g.ADDQ(stride, dst)
		}
	})
	g.tileRelease()
	g.finish()
}

// nextBand moves on to the band after the one that it points at, unless that is the last.
func (g *gen) nextBand(bands, band reg.GPVirtual) {
	after := g.GP64()
	stride := g.arg("actStride")
	g.LEAQ(operand.Mem{Base: band, Index: stride, Scale: 1}, after)
	g.CMPQ(bands, operand.U8(1))
	g.CMOVQNE(after, band)
}

// nextStep points at the step after this one, which may be the first of the next band.
func (g *gen) nextStep(l layout, left, nextBand reg.GPVirtual) {
	first := g.arg("w")
	g.LEAQ(operand.Mem{Base: nowAct, Disp: bandRows * recordSize}, nextAct)
	g.LEAQ(operand.Mem{Base: nowCodes, Disp: l.bandStep()}, nextCodes)
	g.CMPQ(left, operand.U8(1))
	g.CMOVQEQ(nextBand, nextAct)
	g.CMOVQEQ(first, nextCodes)
}

// bandSlots is how many rows a step scales: the places for prefetches.
func bandSlots(l layout) int { return 64 / l.group * bandRows }

// bandStep computes one step; between gets its turn in every slot.
func (g *gen) bandStep(l layout, sums []reg.VecVirtual, between func(slot int)) {
	for _, p := range l.all() {
		groups, then := 64/l.group, p.index+2
		if then < groups {
			g.multiply(l, then, then%2, nowAct, nowCodes)
		} else {
			g.multiply(l, then-groups, then%2, nextAct, nextCodes)
		}
		g.scaleBand(l, p, sums, between)
		g.storeDots((p.index + 1) % 2)
	}
}

// startSums takes up the sums of earlier steps, or zeros.
func (g *gen) startSums(earlier reg.GPVirtual, sums []reg.VecVirtual) {
	g.labels++
	fresh, end := fmt.Sprintf("fresh%d", g.labels), fmt.Sprintf("started%d", g.labels)
	more := g.arg("more")
	g.TESTQ(more, more)
	g.JZ(operand.LabelRef(fresh))
	for i, s := range sums {
		g.VMOVUPS(mem(earlier, i*64), s)
	}
	g.JMP(operand.LabelRef(end))
	g.Label(fresh)
	g.zero(sums...)
	g.Label(end)
}

// multiply forms the products of a group in a pair of tiles: 0 and 1, or 2 and
// 3, with the activations in 4 or 5 and the codes in 6 and 7.
func (g *gen) multiply(l layout, group, pair int, act, codes reg.GPPhysical) {
	c, a := tile(2*pair), tile(4+pair)
	at := group * l.group / 4 * lineBytes
	g.tileLoad(a, tileMem{act, line, group * l.group})
	g.tileLoad(6, tileMem{codes, line, at})
	g.tileLoad(7, tileMem{codes, line, at + 64})
	g.tileZero(c)
	g.tileZero(c + 1)
	g.tileDot(c, a, 6)
	g.tileDot(c+1, a, 7)
}

// storeDots writes a pair of tiles to its buffer.
func (g *gen) storeDots(pair int) {
	for side := range 2 {
		g.tileStore(tileMem{dotsBase, line, pair*dotsBytes + side*64}, tile(2*pair+side))
	}
}

// scaleBand adds a group's integer sums, times their scales, to the sums: the
// same operations as scaleDots, in the same order.
func (g *gen) scaleBand(l layout, p group, sums []reg.VecVirtual, between func(slot int)) {
	scales := plainCodes + p.index*lineBytes
	scale := []reg.VecVirtual{g.load(mem(nowCodes, scales)), g.load(mem(nowCodes, scales+64))}
	var low []reg.VecVirtual
	if l.mins {
		at := scales + 64/l.group*lineBytes
		low = []reg.VecVirtual{g.load(mem(nowCodes, at)), g.load(mem(nowCodes, at+64))}
	}
	for r := range bandRows {
		d := g.vec()
		g.VBROADCASTSS(mem(nowAct, r*recordSize+atScale+4*p.block), d)
		between(p.index*bandRows + r)
		for side := range 2 {
			t, dots := g.vec(), g.vec()
			g.VMULPS(d, scale[side], t)
			g.VCVTDQ2PS(mem(dotsBase, p.index%2*dotsBytes+r*lineBytes+side*64), dots)
			g.VFMADD231PS(t, dots, sums[2*r+side])
		}
		if l.mins {
			for side := range 2 {
				g.VFNMADD231PS_BCST(mem(nowAct, r*recordSize+atSum+4*p.block), low[side], sums[2*r+side])
			}
		}
	}
}
