package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in a record of activations, as in package cpu.
const (
	recordSize = 128
	atScale    = 64
	atC128     = 72
	atC8       = 80
	atSum      = 88
	atC32      = 96
)

// layout is a packed form of weights, as in package cpu.
type layout struct {
	name      string
	group     int
	offset    int // 128, 32, 8 or 0
	mins      bool
	nibbles   bool
	highBits  int // bits of a code above its nibble
	super     bool
	stepBytes int // a quarter of a superblock, where there are
	codesAt   int // offset of the codes in a step, or in a superblock
	// words is how many products of code and activation fit in 16 bits when
	// added in pairs; 0 when codes use all 8 bits.
	words int
}

var layouts = []layout{
	{name: "Code8", group: 32, offset: 128, stepBytes: 2176, codesAt: 128},
	{name: "Code6", group: 16, offset: 32, nibbles: true, highBits: 2, super: true, stepBytes: 1680, codesAt: 576, words: 2},
	{name: "Code5m", group: 32, mins: true, nibbles: true, highBits: 1, super: true, stepBytes: 1408, codesAt: 512, words: 4},
	{name: "Code4", group: 32, offset: 8, nibbles: true, stepBytes: 1152, codesAt: 128, words: 8},
	{name: "Code4m", group: 32, mins: true, nibbles: true, super: true, stepBytes: 1152, codesAt: 512, words: 8},
}

const matMulSignature = "func(dst *float32, act *byte, actStride int, panel *byte, steps int)"

// prefetchBytes is how many bytes before their use weights are asked for.
// Between 1 KiB and 8 KiB no difference could be measured; a step is about 2 KiB.
const prefetchBytes = 2048

// matMuls emits the products of all layouts and tile heights.
func (g *gen) matMuls() {
	for _, rows := range []int{1, 2, 4, 8} {
		for _, l := range layouts {
			if g.wide {
				g.codesWide(l, rows)
			} else {
				g.codesNarrow(l, rows)
			}
		}
		for _, t := range []string{"Float32", "Float16", "BFloat16"} {
			g.floats(t, rows)
		}
	}
}

// prefetch asks for the step that comes after panel.
func (g *gen) prefetch(panel reg.Register, bytes int) {
	for at := 0; at < bytes; at += 64 {
		g.PREFETCHT0(mem(panel, prefetchBytes+at))
	}
}

// Distances of prefetchPart; the nearer one is counted from the codes.
const (
	partPrefetchFar  = 6144
	partPrefetchNear = 512
)

// prefetchPart asks for part of of parts of a step: far for the second
// cache, which can wait for more lines at a time than the nearest one, and again
// shortly before its use.
func (g *gen) prefetchPart(l layout, walk reg.Register, part, of int) {
	near := partPrefetchNear
	if l.super {
		near += l.codesAt
	}
	lines := (l.stepBytes + 63) / 64
	for i := lines * part / of; i < lines*(part+1)/of; i++ {
		g.PREFETCHT1(mem(walk, partPrefetchFar+i*64))
		g.PREFETCHT0(mem(walk, near+i*64))
	}
}

// group is the range of column groups (of four columns) that share a scale.
type group struct{ index, block, first, groups int }

func (l layout) all() []group {
	var out []group
	for i := range 64 / l.group {
		out = append(out, group{i, i * l.group / 32, i * l.group / 4, l.group / 4})
	}
	return out
}

// correction is the offset in a record of the integer that the sum starts at,
// or -1 for zero.
func (l layout) correction(p group) int {
	switch l.offset {
	case 128:
		return atC128 + 4*p.block
	case 32:
		return atC32 + 4*p.index
	case 8:
		return atC8 + 4*p.block
	}
	return -1
}

// codesWide holds a tile of rows x 32 sums in registers, and the integer sums of
// one half of them.
func (g *gen) codesWide(l layout, rows int) {
	g.function(fmt.Sprintf("matMul%sRows%d", l.name, rows), matMulSignature,
		fmt.Sprintf("multiplies %d rows of quantized activations with a %s panel.", rows, l.name))
	dst, act, stride, panel, steps := g.arg("dst"), g.arg("act"), g.arg("actStride"), g.arg("panel"), g.arg("steps")
	sums := g.vecs(2 * rows)
	g.zero(sums...)
	mask := reg.VecVirtual(nil)
	if l.nibbles {
		mask = g.vec()
		g.VMOVDQU32(g.c("nibbles"), mask)
	}
	g.eachStep(l, panel, steps, func(at place) {
		for _, p := range l.all() {
			for side := range 2 {
				dots := g.startDots(l, p, act, rows)
				g.dotsWide(l, p, side, act, at, dots, mask)
				g.scaleDots(l, p, side, act, at, dots, sums)
			}
		}
		g.ADDQ(stride, act)
	})
	for i, s := range sums {
		g.VMOVUPS(s, mem(dst, i*64))
	}
	g.finish()
}

// startDots are the integer sums of a group and side, set to their correction.
func (g *gen) startDots(l layout, p group, act reg.Register, rows int) []reg.VecVirtual {
	dots, at := g.vecs(rows), l.correction(p)
	if at < 0 {
		g.zero(dots...)
		return dots
	}
	for r, dot := range dots {
		g.VPBROADCASTD(mem(act, r*recordSize+at), dot)
	}
	return dots
}

// dotsWide adds the products of a group and side.
func (g *gen) dotsWide(l layout, p group, side int, act reg.Register, at place, dots []reg.VecVirtual, mask reg.VecVirtual) {
	for k := range p.groups {
		g.prefetchPart(l, at.walk, 2*p.first+side*p.groups+k, 32)
		w := reg.VecVirtual(nil)
		if l.nibbles {
			w = g.loadCode(l, p, k, side, at.codes, mask)
		} else {
			w = g.load(mem(at.codes, l.codesAt+(p.first+k)*128+side*64))
		}
		for r, dot := range dots {
			g.vnni(mem(act, r*recordSize+4*(p.first+k)), w, dot)
		}
	}
}

// nibbleLine is the offset of the line of 64 bytes that holds the nibbles of
// column group k of p: of the first 16 rows in the lower halves of bytes, of the
// others in the upper ones.
func (l layout) nibbleLine(p group, k int) int { return l.codesIn() + (p.first+k)*64 }

// loadCode loads the codes of column group k of p for the 16 rows of a side.
func (g *gen) loadCode(l layout, p group, k, side int, codes reg.Register, mask operand.Op) reg.VecVirtual {
	w := g.load(mem(codes, l.nibbleLine(p, k)))
	g.nibble(l, p, k, side, mem(codes, l.highLine(p, k)+side*64), w, mask)
	return w
}

// highLine is the offset of the line that holds the bits above the nibbles of
// column group k of p.
func (l layout) highLine(p group, k int) int {
	return l.codesIn() + 1024 + (p.block*l.highBits+(p.first+k)%8*l.highBits/8)*128
}

// nibble turns the nibbles of column group k of p into the codes of a side; high
// is where the bits above are.
func (g *gen) nibble(l layout, p group, k, side int, highAt operand.Mem, w reg.VecVirtual, mask operand.Op) {
	if side == 1 {
		g.VPSRLW(operand.U8(4), w, w)
	}
	g.and(mask, w)
	if l.highBits == 0 {
		return
	}
	bit := (p.first + k) % 8 * l.highBits
	high := g.load(highAt)
	switch shift := bit % 8; { // to bit 4 of each byte
	case shift < 4:
		g.VPSLLW(operand.U8(uint8(4-shift)), high, high)
	case shift > 4:
		g.VPSRLW(operand.U8(uint8(shift-4)), high, high)
	}
	g.and(g.c(map[int]string{1: "bit4", 2: "bits45"}[l.highBits]), high)
	if g.wide {
		g.VPORD(high, w, w)
	} else {
		g.VPOR(high, w, w)
	}
}

// scaleDots adds the integer sums of a group and side, times their scales, to the sums.
func (g *gen) scaleDots(l layout, p group, side int, act reg.Register, at place, dots, sums []reg.VecVirtual) {
	scale := g.groupScale(l, p, at, side)
	for r, dot := range dots {
		t := g.vec()
		g.VMULPS_BCST(mem(act, r*recordSize+atScale+4*p.block), scale, t)
		g.VCVTDQ2PS(dot, dot)
		g.VFMADD231PS(t, dot, sums[2*r+side])
	}
	if l.mins {
		low := g.superLow(p, l.partsOf(p, at, side))
		for r := range dots {
			g.VFNMADD231PS_BCST(mem(act, r*recordSize+atSum+4*p.block), low, sums[2*r+side])
		}
	}
}

// codesNarrow keeps the sums in dst, which stays in the nearest cache, and
// computes eight outputs of all rows at a time: 16 registers are not enough for more.
func (g *gen) codesNarrow(l layout, rows int) {
	g.function(fmt.Sprintf("matMul%sRows%d", l.name, rows), matMulSignature,
		fmt.Sprintf("multiplies %d rows of quantized activations with a %s panel.", rows, l.name))
	dst, act, stride, panel, steps := g.arg("dst"), g.arg("act"), g.arg("actStride"), g.arg("panel"), g.arg("steps")
	z := g.vec()
	g.zero(z)
	for i := range rows * 4 {
		g.VMOVUPS(z, mem(dst, i*32))
	}
	ones := g.vec()
	g.VMOVDQU(g.c("ones16"), ones)
	extra := reg.VecVirtual(nil)
	if l.nibbles {
		extra = g.vec()
		g.VMOVDQU(g.c("nibbles"), extra)
	} else if l.words == 0 {
		extra = g.vec()
		g.VMOVDQU(g.c("bit7"), extra)
	}
	g.eachStep(l, panel, steps, func(at place) {
		g.prefetch(at.walk, l.stepBytes)
		for _, p := range l.all() {
			// Quarters of a panel in a loop: q moves over codes and dst.
			q, out, left := g.GP64(), g.GP64(), g.GP64()
			g.MOVQ(at.codes, q)
			g.MOVQ(dst, out)
			scales := g.narrowParts(l, p, at)
			quarters := func(side int) {
				g.loop(left, func() {
					g.quarter(l, p, side, act, q, scales, out, ones, extra, rows)
					g.ADDQ(operand.I8(32), q)
					g.ADDQ(operand.I8(32), out)
					g.nextParts(l, scales)
				})
			}
			if !l.nibbles {
				g.MOVQ(operand.U32(4), left)
				quarters(0)
				continue
			}
			for side := range 2 {
				g.MOVQ(operand.U32(2), left)
				quarters(side)
			}
		}
		g.ADDQ(stride, act)
	})
	g.finish()
}

// quarter adds one group of eight outputs of all rows.
func (g *gen) quarter(l layout, p group, side int, act, q reg.Register, scales parts,
	out reg.Register, ones, extra reg.VecVirtual, rows int) {
	dots := g.vecs(rows)
	for r := range rows {
		// The signed form needs no correction: its codes are centered.
		if at := l.correction(p); at >= 0 && l.words > 0 {
			g.VPBROADCASTD(mem(act, r*recordSize+at), dots[r])
		} else {
			g.zero(dots[r])
		}
	}
	if l.words == 0 {
		g.signedDots(l, p, act, q, dots, ones, extra)
	} else {
		g.wordDots(l, p, side, act, q, dots, ones, extra)
	}
	s := reg.VecVirtual(nil)
	if l.super {
		s = g.superScale(l, p, scales)
	} else {
		s = g.vec()
		g.loadHalves(scales.d, s)
	}
	for r := range rows {
		t, sum := g.vec(), g.vec()
		g.VBROADCASTSS(mem(act, r*recordSize+atScale+4*p.block), t)
		g.VMULPS(s, t, t)
		g.VMOVUPS(mem(out, r*128), sum)
		g.VCVTDQ2PS(dots[r], dots[r])
		g.VFMADD231PS(t, dots[r], sum)
		if l.mins {
			low := g.superLow(p, scales)
			g.VBROADCASTSS(mem(act, r*recordSize+atSum+4*p.block), t)
			g.VFNMADD231PS(t, low, sum)
		}
		g.VMOVUPS(sum, mem(out, r*128))
	}
}

// signedDots multiplies |code| with the activation under the code's sign:
// 128·127·2 fits in 16 bits, the unsigned code would not.
func (g *gen) signedDots(l layout, p group, act, q reg.Register, dots []reg.VecVirtual, ones, bit7 reg.VecVirtual) {
	for k := range p.groups {
		w, size := g.vec(), g.vec()
		g.VPXOR(mem(q, l.codesAt+(p.first+k)*128), bit7, w)
		g.VPABSB(w, size)
		for r, dot := range dots {
			x := g.vec()
			g.VPBROADCASTD(mem(act, r*recordSize+4*(p.first+k)), x)
			g.VPSIGNB(w, x, x)
			g.VPMADDUBSW(x, size, x)
			g.VPMADDWD(x, ones, x)
			g.VPADDD(x, dot, dot)
		}
	}
}

// wordDots adds l.words products in 16 bits before it widens them. Nibbles of side
// 1 lie where those of side 0 do, 64 bytes before q.
func (g *gen) wordDots(l layout, p group, side int, act, q reg.Register, dots []reg.VecVirtual, ones, mask reg.VecVirtual) {
	code := func(k int) reg.VecVirtual {
		w := g.vec()
		g.VMOVDQU(mem(q, l.nibbleLine(p, k)-64*side), w)
		g.nibble(l, p, k, side, mem(q, l.highLine(p, k)), w, mask)
		return w
	}
	// Three rows at a time leave registers for their 16-bit sums.
	for first := 0; first < len(dots); first += 3 {
		part := dots[first:min(first+3, len(dots))]
		for k := 0; k < p.groups; k += l.words {
			words := make([]reg.VecVirtual, len(part))
			for i := range l.words {
				w := code(k + i)
				for r := range part {
					x := g.vec()
					g.VPBROADCASTD(mem(act, (first+r)*recordSize+4*(p.first+k+i)), x)
					g.VPMADDUBSW(x, w, x)
					if i == 0 {
						words[r] = x
					} else {
						g.VPADDW(x, words[r], words[r])
					}
				}
			}
			for r, dot := range part {
				g.VPMADDWD(words[r], ones, words[r])
				g.VPADDD(words[r], dot, dot)
			}
		}
	}
}

// floats emits a product with a panel of floats. Narrow registers hold at most
// two rows of 32 outputs: more rows go in passes over the panel.
func (g *gen) floats(name string, rows int) {
	g.function(fmt.Sprintf("matMul%sRows%d", name, rows), matMulSignature,
		fmt.Sprintf("multiplies %d rows of float32 activations with a panel of %s.", rows, name))
	dst, act, stride, panel, steps := g.arg("dst"), g.arg("act"), g.arg("actStride"), g.arg("panel"), g.arg("steps")
	per := rows
	if !g.wide {
		per = min(rows, 2)
	}
	for first := 0; first < rows; first += per {
		a, p, left := g.GP64(), g.GP64(), g.GP64()
		g.MOVQ(act, a)
		g.MOVQ(panel, p)
		g.MOVQ(steps, left)
		parts := 32 / g.lanes()
		sums := g.vecs(per * parts)
		g.zero(sums...)
		size := 2
		if name == "Float32" {
			size = 4
		}
		g.loop(left, func() {
			if first == 0 {
				g.prefetch(p, 32*size)
			}
			for i := range parts {
				w := g.vec()
				g.loadFloats(name, mem(p, i*g.lanes()*size), w)
				for r := range per {
					g.fmaBroadcast(mem(a, (first+r)*4), w, sums[r*parts+i])
				}
			}
			g.ADDQ(stride, a)
			g.ADDQ(operand.I32(32*size), p)
		})
		for i, s := range sums {
			g.VMOVUPS(s, mem(dst, first*128+i*g.lanes()*4))
		}
	}
	g.finish()
}

// loadFloats widens lanes() weights.
func (g *gen) loadFloats(name string, m operand.Mem, v reg.VecVirtual) {
	switch name {
	case "Float32":
		g.VMOVUPS(m, v)
	case "Float16":
		g.loadHalves(m, v)
	default:
		g.VPMOVZXWD(m, v)
		g.VPSLLD(operand.U8(16), v, v)
	}
}
