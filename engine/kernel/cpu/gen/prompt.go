package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in a promptStep, and in its products.
const (
	timesDst     = 0
	timesLeft    = 8
	timesRight   = 16
	timesNext    = 24
	timesStep    = 32
	timesBlocks  = 40
	timesColumns = 48
	timesMore    = 56
	timesBytes   = 64

	stepScores  = 2 * timesBytes
	stepTops    = stepScores + 8
	stepSums    = stepScores + 16
	stepOut     = stepScores + 24
	stepRows    = stepScores + 32
	stepBlocks  = stepScores + 40
	stepColumns = stepScores + 48
	stepEach    = stepScores + 56
	stepConfig  = stepScores + 64
)

// Registers that the tile instructions of promptStep name: where the blocks of
// the left matrix, the right one and the result are, and the distance of rows.
var leftBlock, rightBlock, outBlock, rowBytes = reg.RAX, reg.RSI, reg.R8, reg.RDX

// promptStepper is what the parts of promptStep share.
type promptStepper struct {
	splitter
	power              powers
	scores, tops, sums reg.GPVirtual // of the next row of the softmax
	out                reg.GPVirtual
	rows               operand.Mem // that are left
}

// promptStep emits two products, of which neither needs the other, and a softmax
// whose rows are spread between their blocks: tiles and vectors work at the same time.
func (g *gen) promptStep() {
	g.function("promptStep", "func(step *byte)", "multiplies, and turns scores into weights: step is a promptStep.")
	product, products := g.AllocLocal(8), g.AllocLocal(8)
	p := promptStepper{splitter: g.newSplitter(false), power: g.newPowers(), rows: g.AllocLocal(8)}
	step, config := g.arg("step"), reg.R10
	g.MOVQ(step, product)
	g.MOVQ(operand.U32(2), products)
	g.MOVQ(mem(step, stepConfig), config)
	g.loadTileConfig(config)
	p.scores, p.tops = g.moved(mem(step, stepScores)), g.moved(mem(step, stepTops))
	p.sums, p.out = g.moved(mem(step, stepSums)), g.moved(mem(step, stepOut))
	g.MOVQ(g.moved(mem(step, stepRows)), p.rows)
	g.MOVQ(operand.U32(pairRow), rowBytes)
	columns, start := g.AllocLocal(8), g.AllocLocal(8)
	g.whilePositive(products, func() {
		at := g.moved(product)
		g.MOVQ(mem(at, timesDst), outBlock)
		g.MOVQ(g.moved(mem(at, timesRight)), start)
		g.MOVQ(g.moved(mem(at, timesColumns)), columns)
		g.whilePositive(columns, func() { p.column(product, start, columns) })
		g.ADDQ(operand.I8(timesBytes), product)
		g.DECQ(products)
	})
	g.tileRelease()
	g.whilePositive(p.rows, p.row)
	g.finish()
}

// column multiplies 32 rows by 32 columns. Four tiles of sums are independent
// of each other, so that one forms while another waits for its last product.
func (p promptStepper) column(product, start, columns operand.Mem) {
	at := p.moved(product)
	p.startTiles(mem(at, timesMore))
	p.MOVQ(mem(at, timesLeft), leftBlock)
	p.MOVQ(start, rightBlock)
	blocks := p.moved(mem(at, timesBlocks))
	p.loop(blocks, func() {
		p.block()
		p.someRows()
		p.ADDQ(operand.I32(pairBlock), leftBlock)
		at := p.moved(product)
		p.ADDQ(mem(at, timesNext), rightBlock)
	})
	for i := range 4 {
		p.tileStore(outTile(i), tile(i))
	}
	p.ADDQ(operand.I32(pairBlock), outBlock)
	at, next := p.moved(product), p.moved(start)
	p.ADDQ(mem(at, timesStep), next)
	p.MOVQ(next, start)
	p.DECQ(columns)
}

// outTile is where tile i of sums lies: they are rows of 32, as those of parts.
func outTile(i int) tileMem { return tileMem{outBlock, rowBytes, i/2*pairPart + i%2*pairRow/2} }

// startTiles takes up what is in the result, or zeros.
func (g *gen) startTiles(more operand.Mem) {
	g.CMPQ(more, operand.I8(0))
	g.JEQ(operand.LabelRef("fresh"))
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

// block adds the products of 32 numbers: low·high, high·high, high·low, in which
// each tile is loaded once. What low·low would add is 2^-16 of a product at most.
func (p promptStepper) block() {
	const low = pairRow / 2
	left := func(i, disp int) { p.tileLoad(4+tile(i), tileMem{leftBlock, rowBytes, i*pairPart + disp}) }
	right := func(i, disp int) { p.tileLoad(6+tile(i), tileMem{rightBlock, rowBytes, i*pairPart + disp}) }
	dot := func(i int) { p.tileDotBF16(tile(i), 4+tile(i/2), 6+tile(i%2)) }
	left(0, low)
	right(0, 0)
	dot(0)
	right(1, 0)
	dot(1)
	left(1, low)
	dot(2)
	dot(3)
	for i := range 2 {
		left(i, 0)
		dot(2 * i)
		dot(2*i + 1)
	}
	for i := range 2 {
		right(i, low)
		dot(i)
		dot(2 + i)
	}
}

// someRows does as many rows as belong to a block, if they are left.
func (p promptStepper) someRows() {
	p.labels++
	head, end := fmt.Sprintf("rows%d", p.labels), fmt.Sprintf("rowsEnd%d", p.labels)
	each := p.moved(mem(p.arg("step"), stepEach))
	p.Label(head)
	p.CMPQ(p.rows, operand.I8(0))
	p.JLE(operand.LabelRef(end))
	p.row()
	p.DECQ(each)
	p.JNZ(operand.LabelRef(head))
	p.Label(end)
}

// row turns a row of scores into weights, as if no maximum came after them: sums
// of earlier positions are scaled to the new one. All exponents are powers of two.
func (p promptStepper) row() {
	top := p.top()
	p.rescale(top)
	all, sum := p.vec(), p.load(mem(p.sums, 0))
	p.VBROADCASTSS(top.AsX(), all)
	at := p.moved(p.scores)
	p.loop(p.moved(mem(p.arg("step"), stepBlocks)), func() {
		x := p.vecs(2)
		for i := range x {
			p.VMOVUPS(mem(at, 64*i), x[i])
			p.VSUBPS(all, x[i], x[i])
			x[i] = p.power.of(x[i])
			p.VADDPS(x[i], sum, sum)
		}
		p.store(x[0], x[1], mem(at, 0))
		p.ADDQ(operand.I32(pairBlock), at)
	})
	p.VMOVUPS(sum, mem(p.sums, 0))
	p.ADDQ(operand.I32(pairRow), p.scores)
	p.ADDQ(operand.I32(pairRow), p.out)
	p.ADDQ(operand.I8(4), p.tops)
	p.ADDQ(operand.I8(64), p.sums)
	p.DECQ(p.rows)
}

// top is the largest score of a row so far.
func (p promptStepper) top() reg.VecVirtual {
	tops := p.vecs(2)
	for _, top := range tops {
		p.VMOVUPS(p.c("neginf"), top)
	}
	at := p.moved(p.scores)
	p.loop(p.moved(mem(p.arg("step"), stepBlocks)), func() {
		for i, top := range tops {
			p.VMAXPS(mem(at, 64*i), top, top)
		}
		p.ADDQ(operand.I32(pairBlock), at)
	})
	p.VMAXPS(tops[1], tops[0], tops[0])
	top := p.fold(tops[0], p.maxPS)
	p.VMAXSS(mem(p.tops, 0), top, top)
	return top
}

// rescale makes top the maximum of a row: it scales what was summed relative to
// the one before, unless they are the same.
func (p promptStepper) rescale(top reg.VecVirtual) {
	p.labels++
	same := fmt.Sprintf("same%d", p.labels)
	p.VUCOMISS(mem(p.tops, 0), top)
	p.JEQ(operand.LabelRef(same))
	before, factor := p.XMM(), p.vec()
	p.VMOVSS(mem(p.tops, 0), before)
	p.VSUBSS(top, before, before)
	p.VMOVSS(top, mem(p.tops, 0))
	p.VBROADCASTSS(before, factor)
	factor = p.power.of(factor)
	scale := func(m operand.Mem) {
		v := p.vec()
		p.VMULPS(m, factor, v)
		p.VMOVUPS(v, m)
	}
	scale(mem(p.sums, 0))
	at := p.moved(p.out)
	p.loop(p.moved(mem(p.arg("step"), stepColumns)), func() {
		scale(mem(at, 0))
		scale(mem(at, 64))
		p.ADDQ(operand.I32(pairBlock), at)
	})
	p.Label(same)
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

// promptFinish emits rows of the result. Adding zero makes 0 of -0, which is
// left where blocks of no weight were not added.
func (g *gen) promptFinish() {
	g.function("promptFinish", "func(dst *float32, out *byte, sums *float32, blocks, rows, left, group, skip int)",
		"writes rows of out, blocks of 32 columns, divided by the sum of their 16 sums, to where splitQuery reads rows.")
	zero, one := g.vec(), g.load(g.c("one"))
	g.zero(zero)
	dst, out, sums := g.arg("dst"), g.arg("out"), g.arg("sums")
	g.eachQuery(dst, func() {
		all, sum := g.vec(), g.fold(g.load(mem(sums, 0)), g.addPS)
		g.VDIVSS(sum, one.AsX(), sum)
		g.VBROADCASTSS(sum, all)
		from := g.moved(out)
		g.loop(g.arg("blocks"), func() {
			for i := range 2 {
				v := g.vec()
				g.VMULPS(mem(from, 64*i), all, v)
				g.VADDPS(zero, v, v)
				g.VMOVUPS(v, mem(dst, 64*i))
			}
			g.ADDQ(operand.I32(pairBlock), from)
			g.ADDQ(operand.I32(128), dst)
		})
		g.ADDQ(operand.I8(64), sums)
		g.ADDQ(operand.I32(pairRow), out)
	})
	g.finish()
}
