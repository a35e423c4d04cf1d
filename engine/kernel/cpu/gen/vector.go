package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vectors emits the element-wise kernels; n is a multiple of 16, 0 included.
func (g *gen) vectors() {
	g.softmax()
	g.sumSquares()
	g.quantize()
	g.toHalf()
	g.scaleMul()
	g.add()
	g.addScaled()
	g.addProduct()
	g.silu()
	g.siluMul()
	g.sigmoidMul()
	g.rotate()
	g.multiplyAdds()
}

// rounds is n as a number of registers.
func (g *gen) rounds() reg.GPVirtual {
	n := g.arg("n")
	shift := uint8(3)
	if g.wide {
		shift = 4
	}
	g.SHRQ(operand.U8(shift), n)
	return n
}

// elements runs body for every register full of elements; the named pointers
// move on.
func (g *gen) elements(names []string, body func(p []reg.Register)) {
	var p []reg.Register
	var moves []reg.GPVirtual
	for _, name := range names {
		r := g.arg(name)
		p, moves = append(p, r), append(moves, r)
	}
	g.loop(g.rounds(), func() {
		body(p)
		for _, r := range moves {
			g.ADDQ(operand.I8(int8(4*g.lanes())), r)
		}
	})
}

func (g *gen) load(m operand.Mem) reg.VecVirtual {
	v := g.vec()
	g.VMOVUPS(m, v)
	return v
}

// and is bitwise v = v & m.
func (g *gen) and(m operand.Op, v reg.VecVirtual) {
	if g.wide {
		g.VPANDD(m, v, v)
	} else {
		g.VPAND(m, v, v)
	}
}

// xor is bitwise v = v ^ m.
func (g *gen) xor(m operand.Op, v reg.VecVirtual) {
	if g.wide {
		g.VPXORD(m, v, v)
	} else {
		g.VPXOR(m, v, v)
	}
}

// exp replaces x by e^x: 0 below -87.3, constant above 88.4. The error is
// under two units in the last place: x = n·ln2 + r, and seven terms of e^r.
func (g *gen) exp(x reg.VecVirtual) {
	n, p := g.vec(), g.vec()
	var keep reg.Virtual
	if g.wide {
		k := g.K()
		g.VCMPPS(operand.U8(13), g.c("expmin"), x, k) // x >= min
		keep = k
	} else {
		v := g.vec()
		g.VCMPPS(operand.U8(13), g.c("expmin"), x, v)
		keep = v
	}
	g.VMINPS(g.c("expmax"), x, x)
	g.VMAXPS(g.c("expmin"), x, x)
	g.VMULPS(g.c("log2e"), x, n)
	if g.wide {
		g.VRNDSCALEPS(operand.U8(8), n, n)
	} else {
		g.VROUNDPS(operand.U8(8), n, n)
	}
	g.VFNMADD231PS(g.c("ln2hi"), n, x)
	g.VFNMADD231PS(g.c("ln2lo"), n, x)
	g.VMOVUPS(g.c("exp7"), p)
	for _, c := range []string{"exp6", "exp5", "exp4", "exp3", "exp2", "one", "one"} {
		g.VFMADD213PS(g.c(c), x, p)
	}
	g.VCVTPS2DQ(n, n)
	g.VPADDD(g.c("bias"), n, n)
	g.VPSLLD(operand.U8(23), n, n) // 2^n as a float
	if g.wide {
		g.VMULPS_Z(n, p, keep, x)
	} else {
		g.VMULPS(n, p, x)
		g.VANDPS(keep, x, x)
	}
}

// sigmoid replaces x by 1/(1+e^-x).
func (g *gen) sigmoid(x reg.VecVirtual) {
	g.xor(g.c("sign"), x)
	g.exp(x)
	g.VADDPS(g.c("one"), x, x)
	one := g.load(g.c("one"))
	if g.wide { // a division of 16 lanes takes as long as all of the above
		y := g.vec()
		g.VRCP14PS(x, y)
		g.VFNMADD213PS(one, y, x) // what x·y lacks to 1
		g.VFMADD213PS(y, y, x)
		return
	}
	g.VDIVPS(x, one, x)
}

// fold reduces a register to one lane of an XMM register by op, halving.
func (g *gen) fold(v reg.VecVirtual, op func(a, b, to operand.Op)) reg.VecVirtual {
	if g.wide {
		high := g.YMM()
		g.VEXTRACTF64X4(operand.U8(1), v, high)
		low := v.AsY()
		op(high, low, low)
	}
	high, x := g.XMM(), g.XMM()
	g.VEXTRACTF128(operand.U8(1), v.AsY(), high)
	op(high, v.AsX(), x)
	t := g.XMM()
	g.VPSHUFD(operand.U8(0x0e), x, t)
	op(t, x, x)
	g.VPSHUFD(operand.U8(0x01), x, t)
	op(t, x, x)
	return x
}

func (g *gen) addPS(a, b, to operand.Op) { g.VADDPS(a, b, to) }
func (g *gen) maxPS(a, b, to operand.Op) { g.VMAXPS(a, b, to) }

// softmax looks at four registers at a time for the maximum: a chain of them
// would wait for each.
func (g *gen) softmax() {
	g.function("softmax", "func(p *float32, n int, stat *[2]float32)",
		"turns p into exp(p - max p); stat is the maximum and the sum.")
	tops := g.vecs(4)
	for _, top := range tops {
		g.VMOVUPS(g.c("neginf"), top)
	}
	p, left := g.arg("p"), g.rounds()
	fours := g.moved(left)
	g.SHRQ(operand.U8(2), fours)
	g.ANDQ(operand.I8(3), left)
	g.loop(fours, func() {
		for i, top := range tops {
			g.VMAXPS(mem(p, 4*g.lanes()*i), top, top)
		}
		g.ADDQ(operand.I32(int32(16*g.lanes())), p)
	})
	g.loop(left, func() {
		g.VMAXPS(mem(p, 0), tops[0], tops[0])
		g.ADDQ(operand.I8(int8(4*g.lanes())), p)
	})
	g.VMAXPS(tops[1], tops[0], tops[0])
	g.VMAXPS(tops[3], tops[2], tops[2])
	g.VMAXPS(tops[2], tops[0], tops[0])
	most := g.fold(tops[0], g.maxPS)
	stat := g.arg("stat")
	g.VMOVSS(most, mem(stat, 0))
	all, sum := g.vec(), g.vec()
	g.VBROADCASTSS(most, all)
	g.zero(sum)
	held := g.keep("softmin", "log2e", "round", "ln2hi", "ln2lo", "exp7", "exp6", "exp5", "exp4", "exp3", "exp2", "one")
	g.elements([]string{"p"}, func(p []reg.Register) {
		x := g.load(mem(p[0], 0))
		g.VSUBPS(all, x, x)
		x = g.expNegative(x, held)
		g.VMOVUPS(x, mem(p[0], 0))
		g.VADDPS(x, sum, sum)
	})
	g.VMOVSS(g.fold(sum, g.addPS), mem(stat, 4))
	g.finish()
}

// keep holds constants in registers where there are enough of them.
func (g *gen) keep(names ...string) map[string]operand.Op {
	held := map[string]operand.Op{}
	for _, name := range names {
		if held[name] = g.c(name); g.wide {
			held[name] = g.load(g.c(name))
		}
	}
	return held
}

// expNegative is e^x for x that is not above zero: 0 below -86.6. Adding a
// number whose last place is a whole one rounds, and leaves the power of two
// where it can be shifted to the exponent.
func (g *gen) expNegative(x reg.VecVirtual, c map[string]operand.Op) reg.VecVirtual {
	n, r, p := g.vec(), g.vec(), g.vec()
	var keep reg.Virtual
	if g.wide {
		k := g.K()
		g.VCMPPS(operand.U8(13), c["softmin"], x, k) // x >= min
		keep = k
	} else {
		v := g.vec()
		g.VCMPPS(operand.U8(13), c["softmin"], x, v)
		keep = v
	}
	g.VMAXPS(c["softmin"], x, x)
	g.VMOVUPS(c["round"], n)
	g.VFMADD231PS(c["log2e"], x, n)
	g.VSUBPS(c["round"], n, r)
	g.VFNMADD231PS(c["ln2hi"], r, x)
	g.VFNMADD231PS(c["ln2lo"], r, x)
	g.VMOVUPS(c["exp7"], p)
	for _, name := range []string{"exp6", "exp5", "exp4", "exp3", "exp2", "one", "one"} {
		g.VFMADD213PS(c[name], x, p)
	}
	g.VPSLLD(operand.U8(23), n, n)
	if g.wide {
		g.VPADDD_Z(n, p, keep, p)
	} else {
		g.VPADDD(n, p, p)
		g.VANDPS(keep, p, p)
	}
	return p
}

func (g *gen) sumSquares() {
	g.function("sumSquares", "func(x *float32, n int) float32", "is Σx².")
	sum := g.vec()
	g.zero(sum)
	g.elements([]string{"x"}, func(p []reg.Register) {
		x := g.load(mem(p[0], 0))
		g.VFMADD231PS(x, x, sum)
	})
	g.VMOVSS(g.fold(sum, g.addPS), g.address(g.ReturnIndex(0)))
	g.finish()
}

func (g *gen) scaleMul() {
	g.function("scaleMul", "func(dst, x, w *float32, scale float32, n int)", "writes x·scale·w.")
	scale := g.scalar("scale")
	g.elements([]string{"dst", "x", "w"}, func(p []reg.Register) {
		v := g.vec()
		g.VMULPS(mem(p[1], 0), scale, v)
		g.VMULPS(mem(p[2], 0), v, v)
		g.VMOVUPS(v, mem(p[0], 0))
	})
	g.finish()
}

func (g *gen) add() {
	g.function("add", "func(x, y *float32, n int)", "adds y to x.")
	g.elements([]string{"x", "y"}, func(p []reg.Register) {
		v := g.load(mem(p[0], 0))
		g.VADDPS(mem(p[1], 0), v, v)
		g.VMOVUPS(v, mem(p[0], 0))
	})
	g.finish()
}

func (g *gen) addScaled() {
	g.function("addScaled", "func(x, y *float32, scale float32, n int)", "adds scale·y to x.")
	scale := g.scalar("scale")
	g.elements([]string{"x", "y"}, func(p []reg.Register) {
		v := g.load(mem(p[0], 0))
		g.VFMADD231PS(mem(p[1], 0), scale, v)
		g.VMOVUPS(v, mem(p[0], 0))
	})
	g.finish()
}

func (g *gen) addProduct() {
	g.function("addProduct", "func(x, y, w *float32, n int)", "adds y·w to x.")
	g.elements([]string{"x", "y", "w"}, func(p []reg.Register) {
		v, y := g.load(mem(p[0], 0)), g.load(mem(p[1], 0))
		g.VFMADD231PS(mem(p[2], 0), y, v)
		g.VMOVUPS(v, mem(p[0], 0))
	})
	g.finish()
}

func (g *gen) silu() {
	g.function("silu", "func(x *float32, n int)", "replaces x by x·sigmoid(x).")
	g.elements([]string{"x"}, func(p []reg.Register) {
		v := g.load(mem(p[0], 0))
		g.sigmoid(v)
		g.VMULPS(mem(p[0], 0), v, v)
		g.VMOVUPS(v, mem(p[0], 0))
	})
	g.finish()
}

func (g *gen) siluMul() {
	g.function("siluMul", "func(dst, gate, up *float32, n int)", "writes silu(gate)·up.")
	g.elements([]string{"dst", "gate", "up"}, func(p []reg.Register) {
		v := g.load(mem(p[1], 0))
		g.sigmoid(v)
		g.VMULPS(mem(p[1], 0), v, v)
		g.VMULPS(mem(p[2], 0), v, v)
		g.VMOVUPS(v, mem(p[0], 0))
	})
	g.finish()
}

func (g *gen) sigmoidMul() {
	g.function("sigmoidMul", "func(x, gate *float32, n int)", "multiplies x by sigmoid(gate).")
	g.elements([]string{"x", "gate"}, func(p []reg.Register) {
		v := g.load(mem(p[1], 0))
		g.sigmoid(v)
		g.VMULPS(mem(p[0], 0), v, v)
		g.VMOVUPS(v, mem(p[0], 0))
	})
	g.finish()
}

func (g *gen) rotate() {
	g.function("rotate", "func(a, b, cos, sin *float32, n int)", "turns the pairs (a, b).")
	g.elements([]string{"a", "b", "cos", "sin"}, func(p []reg.Register) {
		a, b := g.load(mem(p[0], 0)), g.load(mem(p[1], 0))
		cos, sin := g.load(mem(p[2], 0)), g.load(mem(p[3], 0))
		u, v := g.vec(), g.vec()
		g.VMULPS(cos, a, u)
		g.VFNMADD231PS(sin, b, u)
		g.VMULPS(sin, a, v)
		g.VFMADD231PS(cos, b, v)
		g.VMOVUPS(u, mem(p[0], 0))
		g.VMOVUPS(v, mem(p[1], 0))
	})
	g.finish()
}

func (g *gen) toHalf() {
	g.function("toHalf", "func(dst *uint16, x *float32, n int)", "rounds to float16, ties to even.")
	dst, x := g.arg("dst"), g.arg("x")
	g.loop(g.rounds(), func() {
		v := g.load(mem(x, 0))
		g.VCVTPS2PH(operand.U8(0), v, mem(dst, 0))
		g.ADDQ(operand.I8(int8(4*g.lanes())), x)
		g.ADDQ(operand.I8(int8(2*g.lanes())), dst)
	})
	g.finish()
}

// quantize emits the quantized form of a row, two blocks of 32 per record. The
// second half of the last record stays zero when blocks is odd.
func (g *gen) quantize() {
	g.function("quantize", "func(dst *byte, stride int, x *float32, blocks int)",
		"writes blocks of 32 values as records of activations.")
	dst, stride, x, blocks := g.arg("dst"), g.arg("stride"), g.arg("x"), g.arg("blocks")
	z := g.YMM()
	g.VPXOR(z, z, z)
	g.labels++
	head, end := operand.LabelRef("record"), operand.LabelRef("finished")
	g.Label("record")
	g.TESTQ(blocks, blocks)
	g.JLE(end)
	for at := 0; at < recordSize; at += 32 {
		g.VMOVDQU(z, mem(dst, at))
	}
	half := func(block int) {
		v, d := g.quantizeBlock(x, block)
		g.VMOVSS(d, mem(dst, atScale+4*block))
		g.blockSums(dst, block, v, d)
		g.blockCodes(dst, block, v)
	}
	half(0)
	g.DECQ(blocks)
	g.JZ(end)
	half(1)
	g.ADDQ(operand.I32(256), x)
	g.ADDQ(stride, dst)
	g.DECQ(blocks)
	g.JMP(head)
	g.Label("finished")
	g.finish()
}

// quantizeBand emits the form that bands take: what quantize finds, two blocks at a time.
// Biased codes are 128 more.
func (g *gen) quantizeBand(biased bool) {
	g.function("quantizeBand", "func(codes, tail *byte, stride int, x *float32, blocks int)",
		"writes blocks of 32 values as codes, and scales and sums apart from them.")
	codes, tail, stride, x, blocks := g.arg("codes"), g.arg("tail"), g.arg("stride"), g.arg("x"), g.arg("blocks")
	order, ones, zero := g.load(g.c("bandOrder")), g.load(g.c("ones8")), g.vec()
	g.zero(zero)
	g.Label("step")
	g.TESTQ(blocks, blocks)
	g.JLE(operand.LabelRef("finished"))
	v := g.twoBlocks(x, blocks)
	d, inverse := g.blockScales(v)
	for i := range v {
		g.VMULPS(inverse[i/2], v[i], v[i])
		g.VCVTPS2DQ(v[i], v[i])
	}
	packed := g.vec()
	g.VPACKSSDW(v[1], v[0], v[0])
	g.VPACKSSDW(v[3], v[2], v[2])
	g.VPACKSSWB(v[2], v[0], v[0])
	g.VPERMD(v[0], order, packed)
	stored := packed
	if biased {
		stored = g.vec()
		g.VPXORD(g.c("offset128"), packed, stored)
	}
	g.VMOVDQU32(stored, mem(codes, 0))
	sums := g.vec()
	g.VMOVDQA32(zero, sums)
	g.vnniReg(packed, ones, sums)
	g.halfReduce(sums, func(t reg.VecVirtual) { g.VPADDD(t, sums, sums) })
	both := g.firstOfHalves(sums)
	g.VCVTDQ2PS(both, both)
	g.VMULPS(d, both, both)
	g.VUNPCKLPD(both, d, both)
	g.VMOVUPS(both, mem(tail, 0))
	g.ADDQ(operand.I32(256), x)
	g.ADDQ(stride, codes)
	g.ADDQ(stride, tail)
	g.SUBQ(operand.I8(2), blocks)
	g.JMP(operand.LabelRef("step"))
	g.Label("finished")
	g.finish()
}

// twoBlocks loads two blocks, the second of which is zero if only one is left.
func (g *gen) twoBlocks(x, blocks reg.GPVirtual) []reg.VecVirtual {
	v := []reg.VecVirtual{g.load(mem(x, 0)), g.load(mem(x, 64)), g.vec(), g.vec()}
	g.zero(v[2:]...)
	g.CMPQ(blocks, operand.U8(1))
	g.JEQ(operand.LabelRef("loaded"))
	g.VMOVUPS(mem(x, 128), v[2])
	g.VMOVUPS(mem(x, 192), v[3])
	g.Label("loaded")
	return v
}

// blockScales is the scales of two blocks, side by side, and what each is to be
// multiplied with.
func (g *gen) blockScales(v []reg.VecVirtual) (d reg.VecVirtual, inverse [2]reg.VecVirtual) {
	abs, size := g.load(g.c("abs")), g.vecs(4)
	for i := range v {
		g.VPANDD(abs, v[i], size[i])
	}
	g.VMAXPS(size[1], size[0], size[0])
	g.VMAXPS(size[3], size[2], size[2])
	low, top := g.vec(), g.vec()
	g.VSHUFF64X2(operand.U8(0x44), size[2], size[0], low)
	g.VSHUFF64X2(operand.U8(0xee), size[2], size[0], top)
	g.VMAXPS(low, top, top)
	g.halfReduce(top, func(t reg.VecVirtual) { g.VMAXPS(t, top, top) })
	most, c127, inv := g.firstOfHalves(top), g.XMM(), g.XMM()
	g.VMAXPS(g.c("topmin"), most, most)
	g.VMOVUPS(g.c("c127"), c127)
	d = g.XMM()
	g.VDIVPS(c127, most, d)
	g.VDIVPS(most, c127, inv)
	for i := range inverse {
		inverse[i] = g.vec()
		g.VBROADCASTSS(inv, inverse[i])
		if i == 0 {
			g.VMOVSHDUP(inv, inv)
		}
	}
	return d, inverse
}

// halfReduce brings every value of each half of v together with all others of its
// half: join adds a rearranged v to v.
func (g *gen) halfReduce(v reg.VecVirtual, join func(t reg.VecVirtual)) {
	t := g.vec()
	g.VSHUFF64X2(operand.U8(0xb1), v, v, t)
	join(t)
	for _, order := range []uint8{0x4e, 0xb1} {
		g.VPSHUFD(operand.U8(order), v, t)
		join(t)
	}
}

// firstOfHalves is the first value of each half of v, twice.
func (g *gen) firstOfHalves(v reg.VecVirtual) reg.VecVirtual {
	both := g.XMM()
	g.VEXTRACTF32X4(operand.U8(2), v, both)
	g.VUNPCKLPS(both, v.AsX(), both)
	g.VMOVDDUP(both, both)
	return both
}

// quantizeOrder brings packed codes back in order: see blockCodes.
var quantizeOrder = []uint32{0, 4, 1, 5, 2, 6, 3, 7}

// quantizeBlock finds the codes of one block and its scale. Both levels use 256-bit
// registers: four hold the block, and the sums of its two halves fall out.
func (g *gen) quantizeBlock(x reg.Register, block int) (v []reg.VecVirtual, d reg.VecVirtual) {
	v = make([]reg.VecVirtual, 4)
	top := g.YMM()
	g.VMOVUPS(g.c("topmin"), top)
	for i := range v {
		v[i] = g.YMM()
		size := g.YMM()
		g.VMOVUPS(mem(x, block*128+i*32), v[i])
		g.VANDPS(g.c("abs"), v[i], size)
		g.VMAXPS(size, top, top)
	}
	high, most, t := g.XMM(), g.XMM(), g.XMM()
	g.VEXTRACTF128(operand.U8(1), top, high)
	g.VMAXPS(high, top.AsX(), most)
	g.VPSHUFD(operand.U8(0x0e), most, t)
	g.VMAXPS(t, most, most)
	g.VPSHUFD(operand.U8(0x01), most, t)
	g.VMAXPS(t, most, most)
	d = g.XMM()
	inv, c127 := g.XMM(), g.XMM()
	g.VMOVSS(g.c("c127"), c127)
	g.VDIVSS(c127, most, d)
	g.VDIVSS(most, c127, inv)
	factor := g.YMM()
	g.VBROADCASTSS(inv, factor)
	for i := range v {
		g.VMULPS(factor, v[i], v[i])
		g.VCVTPS2DQ(v[i], v[i])
	}
	return v, d
}

// blockCodes writes the codes of a block.
func (g *gen) blockCodes(dst reg.Register, block int, v []reg.VecVirtual) {
	// Packing works within 128-bit lanes: it leaves groups of four codes in the
	// order 0 2 4 6 1 3 5 7.
	g.VPACKSSDW(v[1], v[0], v[0])
	g.VPACKSSDW(v[3], v[2], v[2])
	g.VPACKSSWB(v[2], v[0], v[0])
	order, codes := g.YMM(), g.YMM()
	g.VMOVDQU(g.c("order"), order)
	g.VPERMD(v[0], order, codes)
	g.VMOVDQU(codes, mem(dst, block*32))
}

// blockSums writes the sums of the codes in the forms that kernels start from.
func (g *gen) blockSums(dst reg.Register, block int, v []reg.VecVirtual, d reg.VecVirtual) {
	first, second := g.YMM(), g.YMM()
	g.VPADDD(v[1], v[0], first)
	g.VPADDD(v[3], v[2], second)
	g.VPHADDD(second, first, first) // lanes: f f s s | f f s s
	high, sums, all, t := g.XMM(), g.XMM(), g.XMM(), g.XMM()
	g.VEXTRACTI128(operand.U8(1), first, high)
	g.VPADDD(high, first.AsX(), sums)
	g.VPHADDD(sums, sums, sums) // f s f s
	g.VPHADDD(sums, sums, all)  // the sum of both in every lane
	g.VPXOR(t, t, t)
	g.VPSUBD(sums, t, sums)
	g.VPSLLD(operand.U8(5), sums, sums)
	g.VMOVQ(sums, mem(dst, atC32+8*block))
	g.VCVTDQ2PS(all, high)
	g.VMULSS(d, high, high)
	g.VMOVSS(high, mem(dst, atSum+4*block))
	g.VPSUBD(all, t, all)
	g.VPSLLD(operand.U8(3), all, t)
	g.VMOVD(t, mem(dst, atC8+4*block))
	g.VPSLLD(operand.U8(7), all, t)
	g.VMOVD(t, mem(dst, atC128+4*block))
}

// multiplyAdds emits a loop of multiply-adds that depend on nothing but their own
// last round: twelve hide the latency of each.
func (g *gen) multiplyAdds() {
	g.function("multiply", "func(rounds int)", "does twelve multiply-adds of registers a round, as a measure.")
	x, sums := g.vec(), g.vecs(12)
	g.zero(x)
	g.zero(sums...)
	g.loop(g.arg("rounds"), func() {
		for _, s := range sums {
			g.VFMADD231PS(x, x, s)
		}
	})
	g.finish()
}
