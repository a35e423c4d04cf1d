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
// measured to be up to a tenth slower for codes that take work to unpack.
const (
	vecAhead     = 6144
	vecAheadNear = 512
)

// vecPrefetch asks for what stands ahead of m.
func (g *gen) vecPrefetch(m operand.Mem) {
	near, far := m, m
	near.Disp += vecAheadNear
	far.Disp += vecAhead
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
	masks := g.vecMasks(l)
	g.loop(steps, func() {
		for _, p := range l.all() {
			dots := g.vecs(2 * vecStreams)
			for _, d := range dots {
				if at := l.correction(p); at >= 0 {
					g.VPBROADCASTD(mem(act, at), d)
				} else {
					g.zero(d)
				}
			}
			g.vecDots(l, p, act, panels, dots, masks)
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

// vecMasks are the constants that take codes apart.
type vecMasks struct{ nibble, code reg.VecVirtual }

func (g *gen) vecMasks(l layout) (m vecMasks) {
	if l.nibbles {
		m.nibble = g.load(g.c("nibbles"))
	}
	switch l.highBits {
	case 1:
		m.code = g.load(g.c("bits5"))
	case 2:
		m.code = g.load(g.c("bits6"))
	}
	return m
}

// vecPrefetchPart asks for the share of a step ahead that belongs to part part of parts.
func (g *gen) vecPrefetchPart(l layout, panel reg.Register, part, parts int) {
	lines := (l.stepBytes + 63) / 64
	for at := part * lines / parts; at < (part+1)*lines/parts; at++ {
		g.vecPrefetch(mem(panel, 64*at))
	}
}

// vecDots adds the products of a group.
func (g *gen) vecDots(l layout, p group, act reg.Register, panels []reg.GPVirtual, dots []reg.VecVirtual, masks vecMasks) {
	pair := l.nibbles && p.groups == 8 // a line holds two column groups of this group
	each := p.groups
	if pair {
		each /= 2
	}
	for k := range each {
		x := g.vec()
		g.VPBROADCASTD(mem(act, 4*(p.first+k)), x)
		var y reg.VecVirtual
		if pair {
			y = g.vec()
			g.VPBROADCASTD(mem(act, 4*(p.first+k+4)), y)
		}
		for i, panel := range panels {
			g.vecPrefetchPart(l, panel, p.index*each+k, each*64/l.group)
			for side := range 2 {
				dot := dots[2*i+side]
				if !l.nibbles {
					g.vnniReg(x, g.load(mem(panel, l.codesAt+(p.first+k)*128+side*64)), dot)
					continue
				}
				line := g.load(mem(panel, l.nibbleLine(p, k)+side*64))
				g.vnniReg(x, g.vecCode(l, p, k, panel, side*64, line, masks), dot)
				if pair {
					g.vnniReg(y, g.vecCode(l, p, k+4, panel, side*64, line, masks), dot)
				}
			}
		}
	}
}

// vecCode is the codes of column group k of p, of which line holds the nibbles.
func (g *gen) vecCode(l layout, p group, k int, panel reg.Register, at int, line reg.VecVirtual, masks vecMasks) reg.VecVirtual {
	inBlock := (p.first + k) % 8
	w := g.vec()
	if inBlock >= 4 {
		g.VPSRLW(operand.U8(4), line, w)
		line = w
	}
	if l.highBits == 0 {
		g.VPANDD(masks.nibble, line, w)
		return w
	}
	bit := inBlock * l.highBits
	high := g.load(mem(panel, l.codesAt+1024+(p.block*l.highBits+bit/8)*128+at))
	switch shift := bit % 8; { // to bit 4 of each byte
	case shift < 4:
		g.VPSLLW(operand.U8(uint8(4-shift)), high, high)
	case shift > 4:
		g.VPSRLW(operand.U8(uint8(shift-4)), high, high)
	}
	// high = nibble mask ? line : high, then the bits above the code go.
	g.VPTERNLOGD(operand.U8(0xb8), line, masks.nibble, high)
	g.VPANDD(masks.code, high, w)
	return w
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
			if l.mins {
				low := g.vec()
				g.loadHalves(mem(panel, (64/l.group+p.index)*64+side*32), low)
				g.VFNMADD231PS_BCST(mem(act, atSum+4*p.block), low, sums[n])
			}
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
