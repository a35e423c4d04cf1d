package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Distances of narrowPrefetch. Those of vecPrefetch were measured to be a fifth slower
// for superblocks, which take longer to compute than to read.
const (
	narrowNear     = 512
	narrowFar      = 4608
	narrowFarSuper = 9216
)

// narrowPrefetch asks for the share of a later step that belongs to part part of parts.
func (g *gen) narrowPrefetch(l layout, panel reg.Register, part, parts int) {
	far, lines := narrowFar, (l.stepBytes+63)/64
	if l.super {
		far = narrowFarSuper
	}
	for at := part * lines / parts; at < (part+1)*lines/parts; at++ {
		g.PREFETCHT0(mem(panel, 64*at+narrowNear))
		g.PREFETCHT1(mem(panel, 64*at+far))
	}
}

// narrowVecs emits matVec for registers of eight lanes. Sums of one panel are in four of
// them while a step or superblock passes, and in dst while those of the others do.
func (g *gen) narrowVecs() {
	for _, l := range layouts {
		g.narrowVec(l)
	}
}

// narrowRow is what a kernel of one row holds on to. Quarters are the registers of a
// panel's 32 outputs.
type narrowRow struct {
	act         reg.Register
	ones, extra reg.VecVirtual
	sums        []reg.VecVirtual // by quarter
}

func (g *gen) narrowVec(l layout) {
	g.function("matVec"+l.name, matVecSignature,
		fmt.Sprintf("multiplies a row of quantized activations with %d %s panels, stride bytes apart.", vecStreams, l.name))
	dst, act, panel, stride, steps := g.arg("dst"), g.arg("act"), g.arg("panel"), g.arg("stride"), g.arg("steps")
	r := narrowRow{act: act, ones: g.load(g.c("ones16"))}
	if l.nibbles {
		r.extra = g.load(g.c("nibbles"))
	} else {
		r.extra = g.load(g.c("bit7"))
	}
	zero, each := g.vec(), 1
	g.zero(zero)
	for at := 0; at < vecStreams*128; at += 32 {
		g.VMOVUPS(zero, mem(dst, at))
	}
	if l.super {
		each = superSteps
		g.SHRQ(operand.U8(2), steps)
	}
	g.loop(steps, func() {
		q, out, left := g.moved(panel), g.moved(dst), g.moved(operand.U32(vecStreams))
		g.loop(left, func() {
			r.sums = nil
			for i := range 4 {
				r.sums = append(r.sums, g.load(mem(out, 32*i)))
			}
			if l.super {
				g.superblock(l, g.moved(q), func(at place) { g.narrowStep(l, r, at) })
			} else {
				g.narrowStep(l, r, place{scales: q, codes: q, walk: q})
			}
			for i, s := range r.sums {
				g.VMOVUPS(s, mem(out, 32*i))
			}
			g.ADDQ(stride, q)
			g.ADDQ(operand.I32(128), out)
		})
		g.ADDQ(operand.I32(int32(each*l.stepBytes)), panel)
		g.ADDQ(operand.I32(int32(each*recordSize)), act)
	})
	g.finish()
}

// record is the address of a field of the activations of a step.
func (r narrowRow) record(at place, disp int) operand.Mem {
	if at.index == nil {
		return mem(r.act, disp)
	}
	return operand.Mem{Base: r.act, Index: at.index, Scale: recordSize / superIndex, Disp: disp}
}

// spread is a field of the activations in every lane.
func (g *gen) spread(m operand.Mem) reg.VecVirtual {
	v := g.vec()
	g.VPBROADCASTD(m, v)
	return v
}

// narrowStep adds a step of one panel. The quarters whose nibbles share lines are
// computed together: all four would need more registers than there are.
func (g *gen) narrowStep(l layout, r narrowRow, at place) {
	for _, p := range l.all() {
		if l.words == 0 {
			g.narrowScale(l, p, r, at, []int{0, 1, 2, 3}, g.narrowSigned(l, p, r, at))
			continue
		}
		for half := range 2 {
			g.narrowScale(l, p, r, at, []int{half, 2 + half}, g.narrowWords(l, p, half, r, at))
		}
	}
}

// narrowScale adds the integer sums of some quarters of a group, times their scales, to the sums.
func (g *gen) narrowScale(l layout, p group, r narrowRow, at place, quarters []int, dots []reg.VecVirtual) {
	d := g.spread(r.record(at, atScale+4*p.block))
	for i, q := range quarters {
		scale, m := reg.VecVirtual(nil), parts{}
		if l.super {
			m = l.partsOf(p, at, q/2)
			m.d, m.low, m.words, m.bytes = shifted(m.d, q%2*16), shifted(m.low, q%2*16), shifted(m.words, q%2*16), shifted(m.bytes, q%2*8)
			scale = g.superScale(l, p, m)
		} else {
			scale = g.vec()
			g.loadHalves(mem(at.scales, p.index*64+16*q), scale)
		}
		g.VMULPS(scale, d, scale)
		g.VCVTDQ2PS(dots[i], dots[i])
		g.VFMADD231PS(scale, dots[i], r.sums[q])
		if l.mins {
			low := g.superLow(p, m)
			g.VFNMADD231PS(g.spread(r.record(at, atSum+4*p.block)), low, r.sums[q])
		}
	}
}

// narrowSigned is signedDots for a row and all quarters.
func (g *gen) narrowSigned(l layout, p group, r narrowRow, at place) []reg.VecVirtual {
	dots := make([]reg.VecVirtual, 4)
	for k := range p.groups {
		x := g.spread(r.record(at, 4*(p.first+k)))
		g.vecPrefetchPart(l, at.walk, p.first+k, 16)
		for i := range dots {
			w, size, t := g.vec(), g.vec(), g.vec()
			g.VPXOR(mem(at.codes, l.codesAt+(p.first+k)*128+32*i), r.extra, w)
			g.VPABSB(w, size)
			g.VPSIGNB(w, x, t)
			g.VPMADDUBSW(t, size, t)
			g.VPMADDWD(t, r.ones, t)
			g.addOrBe(&dots[i], t)
		}
	}
	return dots
}

// addOrBe adds integers, or begins with them.
func (g *gen) addOrBe(sum *reg.VecVirtual, v reg.VecVirtual) {
	if *sum == nil {
		*sum = v
		return
	}
	g.VPADDD(v, *sum, *sum)
}

// narrowWords is wordDots for a row and the two quarters in a half of each line of nibbles.
func (g *gen) narrowWords(l layout, p group, half int, r narrowRow, at place) []reg.VecVirtual {
	dots := make([]reg.VecVirtual, 2)
	for first := 0; first < p.groups; first += l.words {
		words := make([]reg.VecVirtual, 2)
		for k := first; k < first+l.words; k++ {
			x := g.spread(r.record(at, 4*(p.first+k)))
			if k%2 == half {
				g.narrowPrefetch(l, at.walk, (p.first+k)/2, 8)
			}
			line := g.load(mem(at.codes, l.nibbleLine(p, k)+32*half))
			for side := range 2 {
				w := line
				if side == 0 {
					w = g.vec()
					g.VMOVDQA(line, w)
				}
				g.nibble(l, p, k, side, mem(at.codes, l.highLine(p, k)+64*side+32*half), w, r.extra)
				g.VPMADDUBSW(x, w, w)
				if words[side] == nil {
					words[side] = w
				} else {
					g.VPADDW(w, words[side], words[side])
				}
			}
		}
		for side, w := range words {
			g.VPMADDWD(w, r.ones, w)
			g.addOrBe(&dots[side], w)
		}
	}
	if from := l.correction(p); from >= 0 {
		for _, d := range dots {
			g.VPADDD(g.spread(r.record(at, from)), d, d)
		}
	}
	return dots
}
