package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const matVecSignature = "func(dst *float32, act, panel *byte, stride, steps int)"

// vecStreams is how many panels a product with one row reads at a time, in
// ascending addresses each: one stream alone does not keep enough lines on
// their way from memory.
const vecStreams = 4

// Weights of a stream are asked for twice: to come to the second cache long
// before their use, and to the first one shortly before. Either alone was
// measured to be up to a tenth slower for codes that take work to unpack, half
// these distances or twice as much a few hundredths.
const (
	vecPrefetchFar  = 4096
	vecPrefetchNear = 1536
)

// vecPrefetch asks for what comes after m.
func (g *gen) vecPrefetch(m operand.Mem) {
	near, far := m, m
	near.Disp += vecPrefetchNear
	far.Disp += vecPrefetchFar
	g.PREFETCHT0(near)
	g.PREFETCHT1(far)
}

// matVecs emits the products of one row with vecStreams panels that lie stride
// bytes apart. The sums of an output are made in the order of the other kernels.
func (g *gen) matVecs() {
	for _, l := range layouts {
		if l.super {
			g.superVec(l)
		} else {
			g.matVec(l)
		}
	}
	for _, t := range []string{"Float32", "Float16", "BFloat16"} {
		g.floatVec(t)
	}
}

// vecPanels loads the addresses of the streams.
func (g *gen) vecPanels() []reg.GPVirtual {
	stride, panels := g.arg("stride"), []reg.GPVirtual{g.arg("panel")}
	for i := 1; i < vecStreams; i++ {
		next := g.GP64()
		g.MOVQ(panels[i-1], next)
		g.ADDQ(stride, next)
		panels = append(panels, next)
	}
	return panels
}

// floatVec is matVec for panels of floats.
func (g *gen) floatVec(name string) {
	g.function("matVec"+name, matVecSignature,
		fmt.Sprintf("multiplies a row of float32 activations with %d panels of %s, stride bytes apart.", vecStreams, name))
	dst, act, steps, panels := g.arg("dst"), g.arg("act"), g.arg("steps"), g.vecPanels()
	sums := g.vecs(2 * vecStreams)
	g.zero(sums...)
	size := map[string]int{"Float32": 4, "Float16": 2, "BFloat16": 2}[name]
	g.loop(steps, func() {
		x := g.vec()
		g.VBROADCASTSS(mem(act, 0), x)
		for i, panel := range panels {
			for at := 0; at < 32*size; at += 64 {
				g.vecPrefetch(mem(panel, at))
			}
			for side := range 2 {
				w := g.vec()
				g.loadFloats(name, mem(panel, side*16*size), w)
				g.VFMADD231PS(x, w, sums[2*i+side])
			}
			g.ADDQ(operand.I32(32*size), panel)
		}
		g.ADDQ(operand.I8(4), act)
	})
	for i, s := range sums {
		g.VMOVUPS(s, mem(dst, i*64))
	}
	g.finish()
}

// matVec holds the sums of all panels in registers.
func (g *gen) matVec(l layout) {
	g.function("matVec"+l.name, matVecSignature,
		fmt.Sprintf("multiplies a row of quantized activations with %d %s panels, stride bytes apart.", vecStreams, l.name))
	dst, act, steps, panels := g.arg("dst"), g.arg("act"), g.arg("steps"), g.vecPanels()
	sums := g.vecs(2 * vecStreams)
	g.zero(sums...)
	mask := reg.VecVirtual(nil)
	if l.nibbles {
		mask = g.load(g.c("nibbles"))
	}
	g.loop(steps, func() {
		for _, p := range l.all() {
			dots := g.vecs(2 * vecStreams)
			for i, d := range dots {
				if l.nibbles && i%2 == 0 {
					g.zero(d)
				} else {
					g.VPBROADCASTD(mem(act, atC128+4*p.block), d)
				}
			}
			g.vecDots(l, p, act, panels, dots, mask)
			g.vecScale(l, p, act, panels, dots, sums)
		}
		g.ADDQ(operand.U32(recordSize), act)
		for _, panel := range panels {
			g.ADDQ(operand.I32(l.stepBytes), panel)
		}
	})
	for i, s := range sums {
		g.VMOVUPS(s, mem(dst, i*64))
	}
	g.finish()
}

// vecPrefetchPart asks for the share of a later step that belongs to part part of parts.
func (g *gen) vecPrefetchPart(l layout, panel reg.Register, part, parts int) {
	lines := (l.stepBytes + 63) / 64
	for at := part * lines / parts; at < (part+1)*lines/parts; at++ {
		g.vecPrefetch(mem(panel, 64*at))
	}
}

// vecDots adds the products of a group.
func (g *gen) vecDots(l layout, p group, act reg.Register, panels []reg.GPVirtual, dots []reg.VecVirtual, mask reg.VecVirtual) {
	for k := range p.groups {
		x := g.vec()
		g.VPBROADCASTD(mem(act, 4*(p.first+k)), x)
		for i, panel := range panels {
			g.vecPrefetchPart(l, panel, p.first+k, 16)
			if l.nibbles {
				g.vecNibbles(x, mem(panel, l.nibbleLine(p, k)), mask, dots[2*i:])
				continue
			}
			for side := range 2 {
				g.vnniReg(x, g.load(mem(panel, l.codesAt+(p.first+k)*128+side*64)), dots[2*i+side])
			}
		}
	}
	if !l.nibbles {
		return
	}
	for i := range panels {
		g.vecSplit(dots[2*i:])
		g.VPADDD_BCST(mem(act, atC8+4*p.block), dots[2*i], dots[2*i])
	}
}

// vecNibbles adds the products with lower nibbles to dots[0], and those with
// whole bytes to dots[1]: one operation less than to take the upper ones out.
func (g *gen) vecNibbles(x reg.VecVirtual, at operand.Mem, mask reg.VecVirtual, dots []reg.VecVirtual) {
	line, low := g.load(at), g.vec()
	g.VPANDD(mask, line, low)
	g.vnniReg(x, low, dots[0])
	g.vnniReg(x, line, dots[1])
}

// vecSplit makes dots[1], the products with whole bytes, those with upper nibbles:
// the difference is 16 times as much. So is what it began with.
func (g *gen) vecSplit(dots []reg.VecVirtual) {
	g.VPSUBD(dots[0], dots[1], dots[1])
	g.VPSRAD(operand.U8(4), dots[1], dots[1])
}

// vecScale adds a group's integer sums, times their scales, to the sums.
func (g *gen) vecScale(l layout, p group, act reg.Register, panels []reg.GPVirtual, dots, sums []reg.VecVirtual) {
	for i, panel := range panels {
		for side := range 2 {
			n := 2*i + side
			scale := g.vec()
			g.loadHalves(mem(panel, p.index*64+side*32), scale)
			g.VMULPS_BCST(mem(act, atScale+4*p.block), scale, scale)
			g.VCVTDQ2PS(dots[n], dots[n])
			g.VFMADD231PS(scale, dots[n], sums[n])
		}
	}
}

// readStreams emits plain reading, as fast as it can be made: what a product
// with one row is measured against.
func (g *gen) readStreams() {
	g.function("readStreams", "func(p *byte, n int)",
		fmt.Sprintf("reads n bytes, a multiple of %d, in %d streams.", readUnit, vecStreams))
	p, n := g.arg("p"), g.arg("n")
	g.SHRQ(operand.U8(2), n)
	streams := []reg.GPVirtual{p}
	for i := 1; i < vecStreams; i++ {
		next := g.GP64()
		g.MOVQ(streams[i-1], next)
		g.ADDQ(n, next)
		streams = append(streams, next)
	}
	g.SHRQ(operand.U8(8), n)
	g.loop(n, func() {
		for _, s := range streams {
			for at := 0; at < 256; at += 64 {
				g.PREFETCHT1(mem(s, 4096+at))
			}
			for at := 0; at < 256; at += 4 * g.lanes() {
				g.VMOVUPS(mem(s, at), g.vec())
			}
			g.ADDQ(operand.U32(256), s)
		}
	})
	g.finish()
}

// readUnit is what a round of readStreams reads.
const readUnit = 256 * vecStreams

// fetchLines emits the request for lines that will be read soon.
func (g *gen) fetchLines() {
	g.function("fetchLines", "func(p *byte, lines int)", "asks for lines of 64 bytes to come to the second cache.")
	p, lines := g.arg("p"), g.arg("lines")
	g.loop(lines, func() {
		g.PREFETCHT1(mem(p, 0))
		g.ADDQ(operand.I8(64), p)
	})
	g.RET()
}
