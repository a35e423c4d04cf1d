package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Bands without matrix tiles. The instruction multiplies unsigned with signed
// bytes, so codes of activations are 128 more than their number, and integer sums
// begin at -128·Σ of the weights' codes, which unpacking finds once for all rows.

// biasedRows is the height of a band: its sums and the integer sums of a group fill the
// registers but for what they are made from, and both sides of a panel share a broadcast.
const biasedRows = 6

// biasedStep is the size of a step of a panel taken apart, with what its integer sums begin at.
func (l layout) biasedStep() int { return l.bandStep() + 64/l.group*sumsBytes }

// biasedBands emits the products of many rows of the level avx512.
func (g *gen) biasedBands() {
	for _, l := range layouts {
		g.unpack(l, true)
	}
	g.quantizeBand(true)
	for _, l := range layouts {
		g.biasedBand(l)
	}
}

// biasedBand emits the product of bands of rows with steps of a panel taken apart.
func (g *gen) biasedBand(l layout) {
	g.function("band"+l.name, bandSignature,
		fmt.Sprintf("multiplies bands of %d rows of activations with steps of a %s panel taken apart.", biasedRows, l.name))
	b := &banding{gen: g, layout: l, sums: g.vecs(2 * biasedRows), prefetchAt: g.GP64(), target: g.GP64()}
	dst, earlier, bands, band := g.arg("dst"), g.arg("sums"), g.arg("bands"), g.arg("act")
	g.Load(g.Param("prefetch"), b.prefetchAt)
	g.MOVQ(b.prefetchAt, b.target)
	g.loop(bands, func() {
		b.startSums(earlier)
		g.ADDQ(operand.I32(biasedRows*sumsBytes), earlier)
		act, codes, stride := g.moved(band), g.arg("codes"), g.arg("actStride")
		g.loop(g.arg("steps"), func() {
			groups := l.all()
			for _, p := range groups {
				for range 4 / len(groups) { // the places of a step
					b.prefetchNext()
				}
				b.nextBandAct(p, act, stride)
				b.biasedGroup(p, act, codes)
			}
			g.ADDQ(operand.I32(biasedRows*(lineBytes+tailBytes)), act)
			g.ADDQ(operand.I32(int32(l.biasedStep())), codes)
		})
		b.finishBand(dst, g.arg("dstStride"))
		g.ADDQ(stride, band)
	})
	g.finish()
}

// nextBandAct asks for the same group of the next band, which is in the second cache.
func (b *banding) nextBandAct(p group, act, stride reg.Register) {
	const size = biasedRows * (lineBytes + tailBytes)
	share := size * b.group / 64
	for at := p.index * share; at < (p.index+1)*share; at += lineBytes {
		b.PREFETCHT0(operand.Mem{Base: act, Index: stride, Scale: 1, Disp: at})
	}
}

// biasedGroup adds a group's integer sums, times their scales, to the sums: what scaleDots computes.
func (b *banding) biasedGroup(p group, act, codes reg.Register) {
	dots := b.vecs(2 * biasedRows)
	for side := range 2 {
		begin := b.load(mem(codes, b.bandStep()+p.index*sumsBytes+side*64))
		for r := range biasedRows {
			b.VMOVDQA32(begin, dots[2*r+side])
		}
	}
	for k := p.first; k < p.first+p.groups; k++ {
		w := []reg.VecVirtual{b.load(mem(codes, k*lineBytes)), b.load(mem(codes, plainSide+k*lineBytes))}
		for r := range biasedRows {
			x := b.vec()
			b.VPBROADCASTD(mem(act, r*lineBytes+4*k), x)
			b.vnniReg(w[0], x, dots[2*r])
			b.vnniReg(w[1], x, dots[2*r+1])
		}
	}
	scales := plainCodes + p.index*sumsBytes
	scale := []reg.VecVirtual{b.load(mem(codes, scales)), b.load(mem(codes, scales+64))}
	for r := range biasedRows {
		d := b.vec()
		b.VBROADCASTSS(mem(act, biasedRows*lineBytes+r*tailBytes+4*p.block), d)
		for side := range 2 {
			t, dot := b.vec(), dots[2*r+side]
			b.VMULPS(d, scale[side], t)
			b.VCVTDQ2PS(dot, dot)
			b.VFMADD231PS(t, dot, b.sums[2*r+side])
		}
		b.subtractMinima(p, mem(act, biasedRows*lineBytes+r*tailBytes+tailSum+4*p.block), codes, r)
	}
}
