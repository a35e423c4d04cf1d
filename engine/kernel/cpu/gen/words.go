package main

import (
	"math"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Fields of struct wordStep in attention_words.go, in bytes.
const (
	wordQ = 8 * iota
	wordQScales
	wordK
	wordKScales
	wordV
	wordVScales
	wordState
	wordOut
	wordScores
	wordTiles
	wordDim
)

// wordTile is how many queries and how many positions are computed at once: the lanes of a
// register.
const wordTile = 16

const (
	// weightMax is the largest weight of a block as an integer.
	weightMax = 16383
	// These are how many columns and positions are summed as integers.
	wordColumns, wordPositions = 16, 8
)

// words emits attention with integers of 16 bits, two of which share a lane.
func (g *gen) words() {
	for _, c := range []struct {
		name string
		bits uint32
	}{
		{"low16", 0xffff}, {"powmin", math.Float32bits(-126)}, {"weights", math.Float32bits(weightMax)},
		{"pow1", 0x3f317213}, {"pow2", 0x3e75fcdb}, {"pow3", 0x3d635d55}, {"pow4", 0x3c1e760b}, {"pow5", 0x3aad4281}, // 1e-7 of 2^x
	} {
		g.constant(c.name, g.repeat(c.bits))
	}
	g.wordKeys()
	g.wordValues()
	g.wordStep()
}

// wordsPair emits acc += two products of 16 bits in each lane, the pair at m being the same in
// all. avo's tables lack the instruction.
func (g *gen) wordsPair(m operand.Mem, x, acc reg.VecVirtual) {
	g.Instruction(&ir.Instruction{
		Opcode:   "VPDPWSSD",
		Suffixes: []string{"BCST"},
		Operands: []operand.Op{m, x, acc},
		Inputs:   []operand.Op{m, x, acc},
		Outputs:  []operand.Op{acc},
	})
}

// pack rounds two registers to integers and puts them into the halves of a's lanes.
func (g *gen) pack(a, b reg.VecVirtual) {
	g.VCVTPS2DQ(a, a)
	g.VCVTPS2DQ(b, b)
	g.VPANDD(g.c("low16"), a, a)
	g.VPSLLD(operand.U8(16), b, b)
	g.VPORD(b, a, a)
}

// wordKeys emits the change of columns to pairs. A lane is a position, so each has the scale
// of its own largest number.
func (g *gen) wordKeys() {
	g.function("wordKeys", "func(dst *byte, scales, src, times *float32, limit float32, blocks int)",
		"rounds 16 positions of blocks of 32 columns, [column][16] multiplied by times [block][16], to [column / 2][16] pairs.")
	top := g.vec()
	g.zero(top)
	src, times := g.arg("src"), g.arg("times")
	g.loop(g.arg("blocks"), func() {
		t := g.load(mem(times, 0))
		for c := range 32 {
			x := g.vec()
			g.VMULPS(mem(src, 64*c), t, x)
			g.VANDPS(g.c("abs"), x, x)
			g.VMAXPS(x, top, top)
		}
		g.ADDQ(operand.I32(64*32), src)
		g.ADDQ(operand.I8(64), times)
	})
	limit, scale := g.vec(), g.vec()
	g.VBROADCASTSS(g.address(g.Param("limit")), limit)
	g.VMAXPS(g.c("topmin"), top, top)
	g.VDIVPS(limit, top, scale)
	g.VMOVUPS(scale, mem(g.arg("scales"), 0))
	g.VDIVPS(top, limit, limit) // from here on what numbers are multiplied by
	src, times = g.arg("src"), g.arg("times")
	dst := g.arg("dst")
	g.loop(g.arg("blocks"), func() {
		t := g.vec()
		g.VMULPS(mem(times, 0), limit, t)
		for c := 0; c < 32; c += 2 {
			a, b := g.vec(), g.vec()
			g.VMULPS(mem(src, 64*c), t, a)
			g.VMULPS(mem(src, 64*c+64), t, b)
			g.pack(a, b)
			g.VMOVUPS(a, mem(dst, 32*c))
		}
		g.ADDQ(operand.I32(64*32), src)
		g.ADDQ(operand.I8(64), times)
		g.ADDQ(operand.I32(64*16), dst)
	})
	g.finish()
}

// wordValues emits the change of rows to pairs of rows, each with the scale of its own largest
// number.
func (g *gen) wordValues() {
	g.function("wordValues", "func(dst *byte, scales, src, times *float32, limit float32, blocks int)",
		"rounds 16 positions of blocks of 32 columns, [position][column] multiplied by times [block][16], to [position / 2][column] pairs.")
	src, dst, scales, first := g.arg("src"), g.arg("dst"), g.arg("scales"), g.arg("times")
	row := g.arg("blocks")
	g.SHLQ(operand.U8(7), row)
	pairs := g.moved(operand.U32(8))
	g.loop(pairs, func() {
		var factors [2]reg.VecVirtual
		for i := range factors {
			top := g.vec()
			g.zero(top)
			at, times := g.moved(src), g.moved(first)
			g.loop(g.arg("blocks"), func() {
				t := g.vec()
				g.VBROADCASTSS(mem(times, 4*i), t)
				for half := range 2 {
					x := g.vec()
					g.VMULPS(mem(at, 64*half), t, x)
					g.VANDPS(g.c("abs"), x, x)
					g.VMAXPS(x, top, top)
				}
				g.ADDQ(operand.I32(128), at)
				g.ADDQ(operand.I8(64), times)
			})
			if i == 0 {
				g.ADDQ(row, src)
			} else {
				g.SUBQ(row, src)
			}
			most, scale, factor := g.fold(top, g.maxPS), g.XMM(), g.vec()
			g.VMAXSS(g.c("topmin"), most, most)
			g.VMOVSS(g.address(g.Param("limit")), scale)
			g.VDIVSS(most, scale, scale)
			g.VBROADCASTSS(scale, factor)
			g.VMOVSS(g.address(g.Param("limit")), scale)
			g.VDIVSS(scale, most, most)
			g.VMOVSS(most, mem(scales, 4*i))
			factors[i] = factor
		}
		at, times := g.moved(src), g.moved(first)
		g.loop(g.arg("blocks"), func() {
			var t [2]reg.VecVirtual
			for i := range t {
				t[i] = g.vec()
				g.VMULPS_BCST(mem(times, 4*i), factors[i], t[i])
			}
			for half := range 2 {
				a, b := g.vec(), g.vec()
				g.VMULPS(mem(at, 64*half), t[0], a)
				g.VMULPS(operand.Mem{Base: at, Index: row, Scale: 1, Disp: 64 * half}, t[1], b)
				g.pack(a, b)
				g.VMOVUPS(a, mem(dst, 64*half))
			}
			g.ADDQ(operand.I32(128), at)
			g.ADDQ(operand.I32(128), dst)
			g.ADDQ(operand.I8(64), times)
		})
		g.LEAQ(operand.Mem{Base: src, Index: row, Scale: 2}, src)
		g.ADDQ(operand.I8(8), scales)
		g.ADDQ(operand.I8(8), first)
	})
	g.finish()
}

// wordStepper is what the parts of wordStep share.
type wordStepper struct {
	*gen
	step    operand.Mem
	top     reg.VecVirtual // of the scores
	shrink  reg.VecVirtual // what was summed before is multiplied by it
	largest reg.VecVirtual // of the weights times the scales of V
}

// field is a field of the step in a register.
func (w wordStepper) field(at int) reg.GPVirtual { return w.moved(mem(w.moved(w.step), at)) }

// wordStep emits scores, softmax and results of 16 queries and a block of positions. A lane is
// a query, so nothing is added across lanes, and a query does not depend on the others.
func (g *gen) wordStep() {
	g.function("wordStep", "func(step *byte)", "adds a block of positions to the results of 16 queries: step is a wordStep.")
	w := wordStepper{gen: g, step: g.AllocLocal(8), top: g.vec(), shrink: g.vec(), largest: g.vec()}
	g.MOVQ(g.arg("step"), w.step)
	w.scores()
	w.softmax()
	w.results()
	g.finish()
}

// scores writes 16 scores of each position.
func (w wordStepper) scores() {
	w.VMOVUPS(w.c("neginf"), w.top)
	k, scales, out, tiles := w.field(wordK), w.field(wordKScales), w.field(wordScores), w.AllocLocal(8)
	w.MOVQ(w.field(wordTiles), tiles)
	w.whilePositive(tiles, func() {
		for half := range 2 {
			totals, q, at, blocks := w.vecs(wordTile/2), w.field(wordQ), w.moved(k), w.field(wordDim)
			w.gen.zero(totals...)
			w.SHRQ(operand.U8(4), blocks)
			w.loop(blocks, func() { w.sums(totals, wordColumns/2, q, at, 32*half, operand.I8(64)) })
			own := w.load(mem(w.field(wordQScales), 0))
			for j, s := range totals {
				w.VMULPS_BCST(mem(scales, 4*j), s, s)
				w.VMULPS(own, s, s)
				w.VMAXPS(s, w.top, w.top)
				w.VMOVUPS(s, mem(out, 64*j))
			}
			w.ADDQ(operand.I32(32*wordTile), out)
			w.ADDQ(operand.I8(2*wordTile), scales)
		}
		row := w.field(wordDim)
		w.SHLQ(operand.U8(5), row)
		w.ADDQ(row, k)
		w.DECQ(tiles)
	})
}

// sums adds to totals, as float32, the integer sums of count registers at left times pairs at
// right, which moves on by step.
func (w wordStepper) sums(totals []reg.VecVirtual, count int, left, right reg.GPVirtual, disp int, step operand.Op) {
	sums := w.vecs(len(totals))
	w.gen.zero(sums...)
	for range count {
		x := w.load(mem(left, 0))
		for j, s := range sums {
			w.wordsPair(mem(right, disp+4*j), x, s)
		}
		w.ADDQ(operand.I8(64), left)
		w.ADDQ(step, right)
	}
	for j, s := range sums {
		w.VCVTDQ2PS(s, s)
		w.VADDPS(s, totals[j], totals[j])
	}
}

// powerOf is 2 to the power of x, which is not above 0, and 0 below -126.
func (w wordStepper) powerOf(x reg.VecVirtual) reg.VecVirtual {
	k, n, y := w.K(), w.vec(), w.vec()
	w.VCMPPS(operand.U8(13), w.c("powmin"), x, k) // x >= min
	w.VADDPS(w.c("round"), x, n)
	w.VSUBPS(w.c("round"), n, y)
	w.VSUBPS(y, x, x)
	w.VMOVUPS(w.c("pow5"), y)
	for _, name := range []string{"pow4", "pow3", "pow2", "pow1", "one"} {
		w.VFMADD213PS(w.c(name), x, y)
	}
	w.VPSLLD(operand.U8(23), n, n)
	w.VPADDD_Z(n, y, k, y)
	return y
}

// softmax turns scores into pairs of weights times scales of V, as integers.
func (w wordStepper) softmax() {
	state := w.field(wordState)
	before := w.load(mem(state, 0))
	w.VMAXPS(before, w.top, w.top)
	w.VMOVUPS(w.top, mem(state, 0))
	w.VSUBPS(w.top, before, before)
	w.VMOVAPS(w.powerOf(before), w.shrink)
	sum := w.vec()
	w.VMULPS(mem(state, 64), w.shrink, sum)
	w.VMOVUPS(w.c("topmin"), w.largest)
	at, scales, left := w.field(wordScores), w.field(wordVScales), w.field(wordTiles)
	w.SHLQ(operand.U8(2), left)
	w.loop(left, func() {
		for j := range wordTile / 4 {
			x := w.load(mem(at, 64*j))
			w.VSUBPS(w.top, x, x)
			p := w.powerOf(x)
			w.VADDPS(p, sum, sum)
			w.VMULPS_BCST(mem(scales, 4*j), p, p)
			w.VMAXPS(p, w.largest, w.largest)
			w.VMOVUPS(p, mem(at, 64*j))
		}
		w.ADDQ(operand.I32(64*wordTile/4), at)
		w.ADDQ(operand.I8(wordTile), scales)
	})
	w.VMOVUPS(sum, mem(w.field(wordState), 64))
	factor := w.load(w.c("weights"))
	w.VDIVPS(w.largest, factor, factor)
	at, left = w.field(wordScores), w.field(wordTiles)
	to := w.field(wordScores)
	w.SHLQ(operand.U8(2), left)
	w.loop(left, func() {
		for j := 0; j < wordTile/4; j += 2 {
			a, b := w.vec(), w.vec()
			w.VMULPS(mem(at, 64*j), factor, a)
			w.VMULPS(mem(at, 64*j+64), factor, b)
			w.pack(a, b)
			w.VMOVUPS(a, mem(to, 32*j))
		}
		w.ADDQ(operand.I32(64*wordTile/4), at)
		w.ADDQ(operand.I32(32*wordTile/4), to)
	})
}

// results adds weights times V, eight columns at a time.
func (w wordStepper) results() {
	w.VDIVPS(w.c("weights"), w.largest, w.largest)
	row, columns := w.field(wordDim), w.field(wordDim)
	w.SHLQ(operand.U8(2), row)
	w.SHRQ(operand.U8(3), columns)
	v, out := w.field(wordV), w.field(wordOut)
	w.loop(columns, func() {
		totals, p, at, tiles := w.vecs(wordTile/2), w.field(wordScores), w.moved(v), w.field(wordTiles)
		w.gen.zero(totals...)
		w.IMUL3Q(operand.I8(wordTile/wordPositions), tiles, tiles)
		w.loop(tiles, func() { w.sums(totals, wordPositions/2, p, at, 0, row) })
		for c, s := range totals {
			o := w.vec()
			w.VMULPS(mem(out, 64*c), w.shrink, o)
			w.VFMADD231PS(w.largest, s, o)
			w.VMOVUPS(o, mem(out, 64*c))
		}
		w.ADDQ(operand.I8(2*wordTile), v)
		w.ADDQ(operand.I32(32*wordTile), out)
	})
}
