package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Registers that the tile instructions of promptProduct name: where the two row
// tiles of the left matrix, the two column tiles of the right one and the two
// row tiles of the result are, and the distance of rows.
var (
	leftParts  = [2]reg.GPPhysical{reg.RAX, reg.RCX}
	rightParts = [2]reg.GPPhysical{reg.RSI, reg.RDI}
	outParts   = [2]reg.GPPhysical{reg.R8, reg.R9}
	rowBytes   = reg.RDX
)

// promptProduct emits the product of 32 rows with 32 columns at a time. Four
// tiles of sums are independent of each other, so that one forms while another
// waits for its last product.
func (g *gen) promptProduct() {
	g.function("promptProduct", "func(dst *byte, dstApart int, left *byte, leftApart int, right *byte, rightApart, rightNext, rightStep, blocks, columns, more int, config *byte)",
		"multiplies 32 rows taken apart by 32 columns at a time, on top of what is in dst if more is 1.")
	config := reg.R10
	g.Load(g.Param("config"), config)
	g.loadTileConfig(config)
	g.MOVQ(operand.U32(pairRow), rowBytes)
	g.Load(g.Param("dst"), outParts[0])
	g.Load(g.Param("dstApart"), outParts[1])
	g.ADDQ(outParts[0], outParts[1])
	start := g.arg("right")
	g.loop(g.arg("columns"), func() {
		g.startTiles()
		g.Load(g.Param("left"), leftParts[0])
		g.Load(g.Param("leftApart"), leftParts[1])
		g.ADDQ(leftParts[0], leftParts[1])
		g.MOVQ(start, rightParts[0])
		g.Load(g.Param("rightApart"), rightParts[1])
		g.ADDQ(start, rightParts[1])
		next := g.arg("rightNext")
		g.loop(g.arg("blocks"), func() {
			g.promptBlock()
			for i := range 2 {
				g.ADDQ(operand.I32(pairPart), leftParts[i])
				g.ADDQ(next, rightParts[i])
			}
		})
		for i := range 4 {
			g.tileStore(outTile(i), tile(i))
		}
		step := g.arg("rightStep")
		g.ADDQ(step, start)
		for i := range outParts {
			g.ADDQ(operand.I32(pairPart), outParts[i])
		}
	})
	g.tileRelease()
	g.finish()
}

// outTile is where tile i of sums lies: a part of the result is 16 rows of 32 sums.
func outTile(i int) tileMem { return tileMem{outParts[i/2], rowBytes, i % 2 * pairRow / 2} }

// startTiles takes up what is in the result, or zeros.
func (g *gen) startTiles() {
	more := g.arg("more")
	g.TESTQ(more, more)
	g.JZ(operand.LabelRef("fresh"))
	for i := range 4 {
		g.tileLoad(tile(i), outTile(i))
	}
	g.JMP(operand.LabelRef("started"))
	g.Label("fresh")
	for i := range 4 {
		g.tileZero(tile(i))
	}
	g.Label("started")
}

// promptBlock adds the products of 32 numbers: high·high, high·low, low·high.
// What low·low would add is 2^-16 of a product at most.
func (g *gen) promptBlock() {
	const low = pairRow / 2
	left := func(i, disp int) { g.tileLoad(4+tile(i), tileMem{leftParts[i], rowBytes, disp}) }
	right := func(i, disp int) { g.tileLoad(6+tile(i), tileMem{rightParts[i], rowBytes, disp}) }
	dot := func(i int) { g.tileDotBF16(tile(i), 4+tile(i/2), 6+tile(i%2)) }
	left(0, 0)
	right(0, 0)
	dot(0)
	right(1, 0)
	dot(1)
	left(1, 0)
	dot(2)
	dot(3)
	right(0, low)
	dot(0)
	dot(2)
	right(1, low)
	dot(1)
	dot(3)
	left(0, low)
	right(0, 0)
	dot(0)
	right(1, 0)
	dot(1)
	left(1, low)
	dot(2)
	dot(3)
}

// promptSoftmax emits the weights of a block of positions, as if no maximum
// came after them: sums of earlier blocks are scaled to the new one. All
// exponents are powers of two.
func (g *gen) promptSoftmax() {
	g.function("promptSoftmax", "func(p *byte, rows, blocks int, state *float32, out *byte, columns int)",
		"turns rows of scores, blocks of 32 positions, into weights taken apart, and scales the state and the columns of out, blocks of 32.")
	p, rows, state, out := g.arg("p"), g.arg("rows"), g.arg("state"), g.arg("out")
	sums := g.moved(state)
	g.ADDQ(operand.I32(promptTops), sums)
	s, power := g.newSplitter(false), g.newPowers()
	g.loop(rows, func() {
		top := g.promptTop(p, state)
		g.promptScale(power, top, state, sums, out)
		all, sum := g.vec(), g.load(mem(sums, 0))
		g.VBROADCASTSS(top.AsX(), all)
		at := g.moved(p)
		g.loop(g.arg("blocks"), func() {
			x := g.vecs(2)
			for i := range x {
				g.VMOVUPS(mem(at, 64*i), x[i])
				g.VSUBPS(all, x[i], x[i])
				x[i] = power.of(x[i])
				g.VADDPS(x[i], sum, sum)
			}
			s.store(x[0], x[1], mem(at, 0))
			g.ADDQ(operand.I32(pairPart), at)
		})
		g.VMOVUPS(sum, mem(sums, 0))
		g.ADDQ(operand.I32(pairRow), p)
		g.ADDQ(operand.I32(pairRow), out)
		g.ADDQ(operand.I8(4), state)
		g.ADDQ(operand.I8(64), sums)
	})
	g.finish()
}

// promptTop is the largest score of a row so far.
func (g *gen) promptTop(p, state reg.GPVirtual) reg.VecVirtual {
	tops := g.vecs(2)
	for _, top := range tops {
		g.VMOVUPS(g.c("neginf"), top)
	}
	at := g.moved(p)
	g.loop(g.arg("blocks"), func() {
		for i, top := range tops {
			g.VMAXPS(mem(at, 64*i), top, top)
		}
		g.ADDQ(operand.I32(pairPart), at)
	})
	g.VMAXPS(tops[1], tops[0], tops[0])
	top := g.fold(tops[0], g.maxPS)
	g.VMAXSS(mem(state, 0), top, top)
	return top
}

// promptScale makes top the maximum of a row: it scales what was summed
// relative to the one before, unless they are the same.
func (g *gen) promptScale(power powers, top reg.VecVirtual, state, sums, out reg.GPVirtual) {
	g.labels++
	same := operand.LabelRef("same")
	g.VUCOMISS(mem(state, 0), top)
	g.JEQ(same)
	before, factor := g.XMM(), g.vec()
	g.VMOVSS(mem(state, 0), before)
	g.VSUBSS(top, before, before)
	g.VMOVSS(top, mem(state, 0))
	g.VBROADCASTSS(before, factor)
	factor = power.of(factor)
	scale := func(m operand.Mem) {
		v := g.vec()
		g.VMULPS(m, factor, v)
		g.VMOVUPS(v, m)
	}
	scale(mem(sums, 0))
	at := g.moved(out)
	g.loop(g.arg("columns"), func() {
		scale(mem(at, 0))
		scale(mem(at, 64))
		g.ADDQ(operand.I32(pairPart), at)
	})
	g.Label("same")
}

// powers is 2^x by the whole part of x, rounded down, and a polynomial of the
// rest, which is off by 1e-7 at most and exact for whole numbers.
type powers struct {
	*gen
	factors []reg.VecVirtual // highest first
}

func (g *gen) newPowers() powers {
	p := powers{gen: g}
	for _, name := range []string{"pow5", "pow4", "pow3", "pow2", "pow1", "one"} {
		p.factors = append(p.factors, g.load(g.c(name)))
	}
	return p
}

func (p powers) of(x reg.VecVirtual) reg.VecVirtual {
	const roundDown = 9 // and no exceptions
	rest, y := p.vec(), p.vec()
	p.VREDUCEPS(operand.U8(roundDown), x, rest)
	p.VMOVAPS(p.factors[0], y)
	for _, f := range p.factors[1:] {
		p.VFMADD213PS(f, rest, y)
	}
	p.VSCALEFPS(x, y, y)
	return y
}

// promptFinish emits a row of the result. Adding zero makes 0 of -0, which is
// left where blocks of no weight were not added.
func (g *gen) promptFinish() {
	g.function("promptFinish", "func(dst *float32, out *byte, sums *float32, blocks int)",
		"writes a row of out, blocks of 32 columns, divided by the sum of its 16 sums.")
	all, zero := g.vec(), g.vec()
	g.zero(zero)
	sum := g.fold(g.load(mem(g.arg("sums"), 0)), g.addPS)
	one := g.load(g.c("one"))
	g.VDIVSS(sum, one.AsX(), sum)
	g.VBROADCASTSS(sum, all)
	dst, out := g.arg("dst"), g.arg("out")
	g.loop(g.arg("blocks"), func() {
		for i := range 2 {
			v := g.vec()
			g.VMULPS(mem(out, 64*i), all, v)
			g.VADDPS(zero, v, v)
			g.VMOVUPS(v, mem(dst, 64*i))
		}
		g.ADDQ(operand.I32(pairPart), out)
		g.ADDQ(operand.I32(128), dst)
	})
	g.finish()
}
