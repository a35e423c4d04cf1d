package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Sizes of the kernels for tall tiles, as in package cpu.
const (
	tallRows = 16
	tallSums = tallRows * sumsBytes     // the sums of a tile, where dst points
	tallDots = 2 * tallRows * lineBytes // a buffer of integer sums: two groups of 16 outputs
)

// The current and the next activations and codes, the distances of their rows,
// and two buffers of integer sums.
var (
	tallAct, tallCodes = reg.RAX, reg.RCX
	tallRecord         = reg.RBX
	tallNow, tallNext  = reg.R8, reg.R9
)

// talling is what the parts of a kernel for tall tiles share.
type talling struct {
	*gen
	layout
	act, panel reg.GPVirtual // of the step that is scaled; panel at the side's scales
	// prefetchAt is where memory is asked for next, in tallStreams streams, stride apart.
	prefetchAt, stride reg.GPVirtual
	left               operand.Mem // steps of the side before the next ones wrap
	sums               []reg.VecVirtual
}

// tallStreams is in how many streams the next panel is asked for.
const tallStreams = 4

// talls emits the products of tall tiles.
func (g *gen) talls() {
	g.constant("tallConfig", tallConfig())
	g.tall(layouts[0])
}

// tallConfig is the tile configuration: integer sums in tiles 0 and 1,
// activations in 4 and 5, codes in 6 and 7.
func tallConfig() []uint32 {
	words := make([]uint32, 16)
	set := func(at int, v uint32) { words[at/4] |= v << (at % 4 * 8) }
	set(0, 1) // the only palette
	for t := range 8 {
		rows, rowBytes := tallRows, lineBytes
		switch {
		case t >= 6:
			rows = 8
		case t >= 4:
			rowBytes = 32
		}
		set(16+2*t, uint32(rowBytes))
		set(48+t, uint32(rows))
	}
	return words
}

// tall emits the product of a tall tile with a panel whose codes lie as tiles
// read them: 16 outputs, then the others, so that their sums stay in registers.
// Every line of codes is read once.
//
// Steps pass through three stages: their integer products form in tiles, are
// stored to one of two buffers, and are scaled and added. The stages of three
// steps overlap; the last steps of a side overlap the first ones of the next.
// After the last side the products of its own first steps are made once more,
// for nothing.
func (g *gen) tall(l layout) {
	g.function(fmt.Sprintf("matMul%sRows%d", l.name, tallRows), matMulSignature,
		fmt.Sprintf("multiplies %d rows of quantized activations with a %s panel; what follows dst is scratch.", tallRows, l.name))
	t := &talling{gen: g, layout: l, left: g.AllocLocal(8)}
	dst, sides := g.arg("dst"), g.GP64()
	g.LEAQ(g.c("tallConfig"), tallNow)
	g.loadTileConfig(tallNow)
	g.LEAQ(mem(dst, tallSums), tallNow)
	g.LEAQ(mem(dst, tallSums+tallDots), tallNext)
	g.MOVQ(operand.U32(lineBytes), line)
	g.MOVQ(operand.U32(recordSize), tallRecord)
	t.start()
	g.MOVQ(operand.U32(2), sides)
	g.loop(sides, func() {
		t.sums = g.vecs(tallRows)
		g.zero(t.sums...)
		g.Load(g.Param("act"), t.act)
		left := g.arg("steps")
		g.loop(left, t.step)
		for r, s := range t.sums {
			g.VMOVUPS(s, mem(dst, r*sumsBytes))
		}
		g.ADDQ(operand.I8(lineBytes), dst)
		// The other side's scales are those after this one's, of the first step.
		g.Load(g.Param("panel"), t.panel)
		g.ADDQ(operand.I8(lineBytes/2), t.panel)
	})
	g.tileRelease()
	g.finish()
}

// start fills the stages.
func (t *talling) start() {
	t.act, t.panel, t.prefetchAt, t.stride = t.GP64(), t.arg("panel"), t.GP64(), t.arg("steps")
	t.MOVQ(t.stride, t.left)
	t.Load(t.Param("act"), tallAct)
	t.MOVQ(t.panel, tallCodes)
	t.IMUL3Q(operand.U32(uint32(t.stepBytes/tallStreams)), t.stride, t.stride)
	t.LEAQ(operand.Mem{Base: t.panel, Index: t.stride, Scale: tallStreams}, t.prefetchAt) // panels follow each other
	run(t.multiply())
	run(t.store())
	t.next()
	run(t.multiply())
}

func run(ops []func()) {
	for _, op := range ops {
		op()
	}
}

// next moves the activations and codes that are multiplied on by a step, from the
// last one of a side to the first one of the other.
func (t *talling) next() {
	t.labels++
	end := fmt.Sprintf("next%d", t.labels)
	t.ADDQ(operand.I32(t.stepBytes), tallCodes)
	t.ADDQ(operand.I32(tallRows*recordSize), tallAct)
	t.DECQ(t.left)
	t.JNZ(operand.LabelRef(end))
	t.Load(t.Param("panel"), tallCodes)
	t.ADDQ(operand.I8(lineBytes), tallCodes)
	t.Load(t.Param("act"), tallAct)
	steps := t.arg("steps")
	t.MOVQ(steps, t.left)
	t.Label(end)
}

// step computes one step of a side. What tiles do and asking for memory are
// spread between the rows that are scaled.
func (t *talling) step() {
	t.XCHGQ(tallNow, tallNext)
	t.next()
	ops := append(t.store(), t.multiply()...)
	var scale [2]reg.VecVirtual
	for _, p := range t.all() {
		scale[p.index] = t.vec()
		t.loadHalves(mem(t.panel, p.index*64), scale[p.index])
	}
	for r, sum := range t.sums {
		emitPart(ops, r, tallRows)
		t.prefetchNext(r)
		for _, p := range t.all() {
			dots, by := t.load(mem(tallNow, p.index*tallRows*lineBytes+r*lineBytes)), t.vec()
			t.VPADDD_BCST(mem(t.act, r*recordSize+t.correction(p)), dots, dots)
			t.VMULPS_BCST(mem(t.act, r*recordSize+atScale+4*p.block), scale[p.index], by)
			t.VCVTDQ2PS(dots, dots)
			t.VFMADD231PS(by, dots, sum)
		}
	}
	t.ADDQ(operand.I32(t.stepBytes), t.panel)
	t.ADDQ(operand.I32(tallRows*recordSize), t.act)
	t.ADDQ(operand.I32(t.stepBytes/tallStreams/2), t.prefetchAt)
}

// prefetchNext asks for what belongs to row r of a step: half of the lines of a step
// of the next panel, which this side has to bring, to the second cache, and the
// side's lines of three steps further to the nearest.
func (t *talling) prefetchNext(r int) {
	t.PREFETCHT0(mem(tallCodes, t.stepBytes+t.codesAt+r*2*lineBytes))
	each := t.stepBytes/tallStreams/2/lineBytes + 1
	for i := each * tallStreams * r / tallRows; i < each*tallStreams*(r+1)/tallRows; i++ {
		m := operand.Mem{Base: t.prefetchAt, Disp: i / tallStreams * lineBytes}
		switch i % tallStreams {
		case 1, 2:
			m.Index, m.Scale = t.stride, uint8(i%tallStreams)
		case 3:
			m.Base = t.GP64()
			t.LEAQ(operand.Mem{Base: t.prefetchAt, Index: t.stride, Scale: 2}, m.Base)
			m.Index, m.Scale = t.stride, 1
		}
		t.PREFETCHT1(m)
	}
}

// multiply forms the products of a step's groups.
func (t *talling) multiply() (ops []func()) {
	for _, p := range t.all() {
		c, a, b := tile(p.index), tile(4+p.index), tile(6+p.index)
		ops = append(ops,
			func() { t.tileLoad(a, tileMem{tallAct, tallRecord, p.index * t.group}) },
			func() { t.tileLoad(b, tileMem{tallCodes, tallRecord, t.codesAt + p.first*2*lineBytes}) },
			func() { t.tileZero(c) },
			func() { t.tileDotUnsigned(c, a, b) })
	}
	return ops
}

// store writes the integer sums of a step.
func (t *talling) store() (ops []func()) {
	for _, p := range t.all() {
		ops = append(ops, func() { t.tileStore(tileMem{tallNext, line, p.index * tallRows * lineBytes}, tile(p.index)) })
	}
	return ops
}
