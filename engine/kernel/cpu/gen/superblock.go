package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A superblock is four steps of a panel, with their scales before their codes,
// as superblock.go of package cpu draws them.
const (
	superSteps = 4
	superParts = 64
	superWords = 128
	superBytes = 384
	superIndex = 32 // what place.index grows by with each step
)

// place is where a step of a panel lies: its scales, or those of its
// superblock, and its codes. index is superIndex times its number in the
// superblock. walk passes over all of the panel at the pace of the steps.
type place struct{ scales, codes, index, walk reg.Register }

// codeBytes is how many bytes the codes of a step of a superblock take.
func (l layout) codeBytes() int { return 1024 + l.highBits*256 }

// codesIn is the offset of the codes from where place.codes points.
func (l layout) codesIn() int {
	if l.super {
		return 0
	}
	return l.codesAt
}

// eachStep runs body for every step of a panel; it changes panel and steps.
func (g *gen) eachStep(l layout, panel, steps reg.GPVirtual, body func(at place)) {
	if !l.super {
		g.loop(steps, func() {
			body(place{scales: panel, codes: panel, walk: panel})
			g.ADDQ(operand.I32(l.stepBytes), panel)
		})
		return
	}
	g.SHRQ(operand.U8(2), steps)
	g.loop(steps, func() { g.superblock(l, panel, body) })
}

// superblock runs body for the steps of a superblock and moves panel behind it.
func (g *gen) superblock(l layout, panel reg.GPVirtual, body func(at place)) {
	codes, index, walk := g.GP64(), g.GP64(), g.GP64()
	g.LEAQ(mem(panel, l.codesAt), codes)
	g.MOVQ(panel, walk)
	g.MOVQ(operand.U32(0), index)
	g.labels++
	head := fmt.Sprintf("step%d", g.labels)
	g.Label(head)
	body(place{panel, codes, index, walk})
	g.ADDQ(operand.I32(l.codeBytes()), codes)
	g.ADDQ(operand.I32(l.stepBytes), walk)
	g.ADDQ(operand.U8(superIndex), index)
	g.CMPQ(index, operand.U8(superSteps*superIndex))
	g.JNE(operand.LabelRef(head))
	g.MOVQ(codes, panel)
}

// parts are the addresses of what the scales and minima of a group are made of,
// for as many rows as a register holds.
type parts struct{ d, low, words, bytes operand.Mem }

// partsOf are those of rows side·16 on of a group.
func (l layout) partsOf(p group, at place, side int) parts {
	m := parts{
		d:     mem(at.scales, side*32),
		low:   mem(at.scales, 64+side*32),
		words: operand.Mem{Base: at.scales, Index: at.index, Scale: 2, Disp: superWords + side*32},
		bytes: operand.Mem{Base: at.scales, Index: at.index, Scale: 1, Disp: superBytes + side*16},
	}
	if !l.mins {
		m.bytes.Scale, m.bytes.Disp = 4, superParts+p.index*32+side*16
	}
	return m
}

// superConstants defines what takes scales apart.
func (g *gen) superConstants() {
	g.constant("part", g.repeat(63))
	g.constant("partHigh", g.repeat(0x30))
	g.constant("exponent", g.repeat(0x4b000000))      // 2^23: or'ed with an integer below, their sum
	g.constant("minusExponent", g.repeat(0xcb000000)) // -2^23
	g.constant("fields", g.repeat(0x33333333))
}

// groupScale is the scale of a group of rows side·16 on.
func (g *gen) groupScale(l layout, p group, at place, side int) reg.VecVirtual {
	if l.super {
		return g.superScale(l, p, l.partsOf(p, at, side))
	}
	scale := g.vec()
	g.loadHalves(mem(at.scales, p.index*64+side*32), scale)
	return scale
}

// superScale is the scale of a group. The product of the file's two numbers is exact.
func (g *gen) superScale(l layout, p group, m parts) reg.VecVirtual {
	part, d := g.vec(), g.vec()
	if l.mins {
		g.VPMOVZXWD(m.words, part)
		g.wordPart(p, part, part)
	} else {
		g.VPMOVSXBD(m.bytes, part)
	}
	g.VCVTDQ2PS(part, part)
	g.loadHalves(m.d, d)
	g.VMULPS(d, part, part)
	return part
}

// superLow is the minimum of a group.
func (g *gen) superLow(p group, m parts) reg.VecVirtual {
	word, part, low := g.vec(), g.vec(), g.vec()
	g.VPMOVZXWD(m.words, word)
	g.VPMOVZXBD(m.bytes, part)
	g.minPart(p, word, part)
	g.VCVTDQ2PS(part, part)
	g.loadHalves(m.low, low)
	g.VMULPS(low, part, part)
	return part
}

// wordPart takes the part of a group out of words.
func (g *gen) wordPart(p group, words, part reg.VecVirtual) {
	if p.index == 1 {
		g.VPSRLD(operand.U8(6), words, part)
		words = part
	}
	g.bitAnd(g.c("part"), words, part)
}

// minPart turns bytes into the part of a group's minimum, of which words holds
// the lower bits for group 1.
func (g *gen) minPart(p group, words, bytes reg.VecVirtual) {
	if p.index == 0 {
		g.bitAnd(g.c("part"), bytes, bytes)
		return
	}
	g.VPSRLD(operand.U8(2), bytes, bytes)
	g.bitAnd(g.c("partHigh"), bytes, bytes)
	g.VPSRLD(operand.U8(12), words, words)
	if g.wide {
		g.VPORD(words, bytes, bytes)
	} else {
		g.VPOR(words, bytes, bytes)
	}
}

// bitAnd is dst = a & b.
func (g *gen) bitAnd(a operand.Op, b, dst reg.VecVirtual) {
	if g.wide {
		g.VPANDD(a, b, dst)
	} else {
		g.VPAND(a, b, dst)
	}
}

// plainScales writes the scales of a step as float32, then its minima.
func (g *gen) plainScales(l layout, at place, dst reg.Register, disp int) {
	for _, low := range []bool{false, true} {
		for _, p := range l.all() {
			for side := 0; side < 2 && (l.mins || !low); side++ {
				v := reg.VecVirtual(nil)
				if low {
					v = g.superLow(p, l.partsOf(p, at, side))
				} else {
					v = g.groupScale(l, p, at, side)
				}
				g.VMOVUPS(v, mem(dst, disp))
				disp += 64
			}
		}
	}
}

// narrowParts are the addresses, in registers of their own, of the scales of the
// first eight rows of a group.
func (g *gen) narrowParts(l layout, p group, at place) parts {
	d := g.GP64()
	if !l.super {
		g.LEAQ(mem(at.scales, p.index*64), d)
		return parts{d: mem(d, 0)}
	}
	g.MOVQ(at.scales, d)
	m, bytes := l.partsOf(p, at, 0), g.GP64()
	g.LEAQ(m.bytes, bytes)
	m.d, m.low, m.bytes = mem(d, 0), mem(d, 64), mem(bytes, 0)
	if l.mins {
		words := g.GP64()
		g.LEAQ(m.words, words)
		m.words = mem(words, 0)
	}
	return m
}

// nextParts moves on by eight rows.
func (g *gen) nextParts(l layout, m parts) {
	g.ADDQ(operand.I8(16), m.d.Base)
	if l.super {
		g.ADDQ(operand.I8(8), m.bytes.Base)
	}
	if l.mins {
		g.ADDQ(operand.I8(16), m.words.Base)
	}
}
