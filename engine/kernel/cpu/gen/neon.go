package main

import "math"

// vectorOps emits the element-wise kernels; n is a multiple of 16, 0 included.
func (a *arm) vectorOps() {
	a.softmax()
	a.sumSquares()
	a.quantize()
	a.toHalf()
	a.plainOps()
	a.sigmoids()
	a.measures()
}

// elements runs body for every four elements; the named pointers move on.
func (a *arm) elements(names []string, body func(p []greg, at int)) {
	var p []greg
	for _, name := range names {
		p = append(p, a.arg(name))
	}
	n := a.arg("n")
	a.line("LSR $4, %s", n)
	a.loop(n, func() {
		for at := 0; at < 64; at += 16 {
			a.scope(func() { body(p, at) })
		}
		for _, r := range p {
			a.add(r, 64)
		}
	})
}

// floatBits is a float in every lane.
func (a *arm) floatBits(f float32) vreg { return a.bits(math.Float32bits(f)) }

// expConstants are those of exp, in registers.
type expConstants struct {
	least, most, log2e, high, low, bias vreg
	terms                               []vreg // of e^r, the highest first
	one                                 vreg
}

func (a *arm) expConstants() (c expConstants) {
	c.least, c.most = a.bits(0xc2aeac50), a.bits(0x42b0c0a5) // -87.33655, 88.37626
	c.log2e, c.high, c.low, c.bias = a.bits(0x3fb8aa3b), a.bits(0x3f317200), a.bits(0x35bfbe8e), a.bits(127)
	for _, bits := range []uint32{0x39500d01, 0x3ab60b61, 0x3c088889, 0x3d2aaaab, 0x3e2aaaab, 0x3f000000} { // 1/7! to 1/2!
		c.terms = append(c.terms, a.bits(bits))
	}
	c.one = a.floatBits(1)
	return c
}

// exp replaces x by e^x: 0 below -87.3, constant above 88.4. The error is under two
// units in the last place: x = n·ln2 + r, and seven terms of e^r.
func (a *arm) exp(x vreg, c expConstants) {
	a.scope(func() {
		used, n, p := a.vec(), a.vec(), a.vec()
		a.do(fcmge, used, x, c.least)
		a.do(fmin, x, x, c.most)
		a.do(fmax, x, x, c.least)
		a.do(fmul, n, x, c.log2e)
		a.do1(frintn, n, n)
		a.do(fmls, x, n, c.high)
		a.do(fmls, x, n, c.low)
		a.copyVec(p, c.terms[0])
		for _, term := range append(append([]vreg{}, c.terms[1:]...), c.one, c.one) {
			a.scope(func() {
				next := a.vec()
				a.copyVec(next, term)
				a.do(fmla, next, p, x)
				a.copyVec(p, next)
			})
		}
		a.do1(fcvtns, n, n)
		a.do(addInts, n, n, c.bias)
		a.shift(n, n, 23, 32) // 2^n as a float
		a.do(fmul, x, p, n)
		a.do(and, x, x, used)
	})
}

// sigmoid replaces x by 1/(1+e^-x).
func (a *arm) sigmoid(x vreg, c expConstants) {
	a.do1(fneg, x, x)
	a.exp(x, c)
	a.do(fadd, x, x, c.one)
	a.do(fdiv, x, c.one, x)
}

// addUp leaves the sum of four registers in the first, and total the sum of its lanes
// in all lanes.
func (a *arm) addUp(v []vreg) {
	a.do(fadd, v[0], v[0], v[1])
	a.do(fadd, v[2], v[2], v[3])
	a.do(fadd, v[0], v[0], v[2])
}

func (a *arm) total(v vreg) {
	a.do(faddp, v, v, v)
	a.do(faddp, v, v, v)
}

func (a *arm) softmax() {
	a.function("softmax", "func(p *float32, n int, stat *[2]float32)", "turns p into exp(p - max p); stat is the maximum and the sum.")
	top := a.bits(0xff800000)
	a.scope(func() {
		a.elements([]string{"p"}, func(p []greg, at int) { a.do(fmax, top, top, a.loaded(p[0], at)) })
	})
	a.do1(fmaxv, top, top)
	stat, sums := a.arg("stat"), a.vecs(4)
	a.store4(top, stat, 0)
	a.dupLane(top, top, 0)
	a.zero(sums...)
	c := a.expConstants()
	a.elements([]string{"p"}, func(p []greg, at int) {
		x := a.loaded(p[0], at)
		a.do(fsub, x, x, top)
		a.exp(x, c)
		a.store(x, p[0], at)
		a.do(fadd, sums[at/16], sums[at/16], x)
	})
	a.addUp(sums)
	a.total(sums[0])
	a.store4(sums[0], stat, 4)
	a.finish()
}

// squares is Σx² of the n values of a parameter, in all lanes.
func (a *arm) squares(name string) vreg {
	sums := a.vecs(4)
	a.zero(sums...)
	a.scope(func() {
		a.elements([]string{name}, func(p []greg, at int) {
			x := a.loaded(p[0], at)
			a.do(fmla, sums[at/16], x, x)
		})
	})
	a.addUp(sums)
	a.total(sums[0])
	return sums[0]
}

func (a *arm) sumSquares() {
	a.function("sumSquares", "func(x *float32, n int) float32", "is Σx².")
	a.line("FMOVS F%d, ret+%d(FP)", a.squares("x"), a.param("ret"))
	a.finish()
}

// plainOps emits what takes additions and multiplications alone.
func (a *arm) plainOps() {
	a.function("scaleMul", "func(dst, x, w *float32, scale float32, n int)", "writes x·scale·w.")
	scale := a.scalar("scale")
	a.elements([]string{"dst", "x", "w"}, func(p []greg, at int) {
		x := a.loaded(p[1], at)
		a.do(fmul, x, x, scale)
		a.do(fmul, x, x, a.loaded(p[2], at))
		a.store(x, p[0], at)
	})
	a.finish()
	a.function("scale", "func(dst, x *float32, scale float32, n int)", "writes x·scale.")
	scale = a.scalar("scale")
	a.elements([]string{"dst", "x"}, func(p []greg, at int) {
		x := a.loaded(p[1], at)
		a.do(fmul, x, x, scale)
		a.store(x, p[0], at)
	})
	a.finish()
	a.function("add", "func(x, y *float32, n int)", "adds y to x.")
	a.elements([]string{"x", "y"}, func(p []greg, at int) {
		x := a.loaded(p[0], at)
		a.do(fadd, x, x, a.loaded(p[1], at))
		a.store(x, p[0], at)
	})
	a.finish()
	a.function("addScaled", "func(x, y *float32, scale float32, n int)", "adds scale·y to x.")
	scale = a.scalar("scale")
	a.elements([]string{"x", "y"}, func(p []greg, at int) {
		x := a.loaded(p[0], at)
		a.do(fmla, x, a.loaded(p[1], at), scale)
		a.store(x, p[0], at)
	})
	a.finish()
	a.function("addProduct", "func(x, y, w *float32, n int)", "adds y·w to x.")
	a.elements([]string{"x", "y", "w"}, func(p []greg, at int) {
		x := a.loaded(p[0], at)
		a.do(fmla, x, a.loaded(p[1], at), a.loaded(p[2], at))
		a.store(x, p[0], at)
	})
	a.finish()
	a.rotate()
}

func (a *arm) rotate() {
	a.function("rotate", "func(a, b, cos, sin *float32, n int)", "turns the pairs (a, b).")
	a.elements([]string{"a", "b", "cos", "sin"}, func(p []greg, at int) {
		x, y, cos, sin := a.loaded(p[0], at), a.loaded(p[1], at), a.loaded(p[2], at), a.loaded(p[3], at)
		u, v := a.vec(), a.vec()
		a.do(fmul, u, x, cos)
		a.do(fmls, u, y, sin)
		a.do(fmul, v, x, sin)
		a.do(fmla, v, y, cos)
		a.store(u, p[0], at)
		a.store(v, p[1], at)
	})
	a.finish()
}

// sigmoids emits what is made of exp.
func (a *arm) sigmoids() {
	a.function("exp", "func(x *float32, n int)", "replaces x by e^x.")
	c := a.expConstants()
	a.elements([]string{"x"}, func(p []greg, at int) {
		x := a.loaded(p[0], at)
		a.exp(x, c)
		a.store(x, p[0], at)
	})
	a.finish()
	gated := func(name, signature, doc string, pointers []string, gate int, factors ...int) {
		a.function(name, signature, doc)
		c := a.expConstants()
		a.elements(pointers, func(p []greg, at int) {
			v := a.loaded(p[gate], at)
			a.sigmoid(v, c)
			for _, f := range factors {
				a.do(fmul, v, v, a.loaded(p[f], at))
			}
			a.store(v, p[0], at)
		})
		a.finish()
	}
	gated("silu", "func(x *float32, n int)", "replaces x by x·sigmoid(x).", []string{"x"}, 0, 0)
	gated("siluMul", "func(dst, gate, up *float32, n int)", "writes silu(gate)·up.", []string{"dst", "gate", "up"}, 1, 1, 2)
	gated("sigmoidMul", "func(x, gate *float32, n int)", "multiplies x by sigmoid(gate).", []string{"x", "gate"}, 1, 0)
}

func (a *arm) toHalf() {
	a.function("toHalf", "func(dst *uint16, x *float32, n int)", "rounds to float16, ties to even.")
	dst := a.arg("dst")
	a.elements([]string{"x"}, func(p []greg, at int) {
		x := a.loaded(p[0], at)
		a.do1(fcvtn, x, x)
		a.store8(x, dst, at/2)
		if at == 48 {
			a.add(dst, 32)
		}
	})
	a.finish()
}

// largest is the largest magnitude of 32 values, in every lane, and the values.
func (a *arm) largest(x greg, at int) (v []vreg, top vreg) {
	v, top = a.vecs(8), a.vec()
	for i := range v {
		a.load(v[i], x, at+16*i)
	}
	a.do1(fabs, top, v[0])
	for _, next := range v[1:] {
		a.scope(func() {
			size := a.vec()
			a.do1(fabs, size, next)
			a.do(fmax, top, top, size)
		})
	}
	a.do1(fmaxv, top, top)
	a.dupLane(top, top, 0)
	return v, top
}

// roundCodes multiplies 32 values by factor and rounds them to integers; pack makes
// bytes of these.
func (a *arm) roundCodes(v []vreg, factor vreg) {
	for _, r := range v {
		a.do(fmul, r, r, factor)
		a.do1(fcvtns, r, r)
	}
}

func (a *arm) pack(v []vreg, dst greg, at int) {
	for i := 0; i < 8; i += 2 {
		a.do1(sqxtn4, v[i], v[i])
		a.do1(sqxtn4b, v[i], v[i+1])
	}
	for i := 0; i < 8; i += 4 {
		a.do1(sqxtn8, v[i], v[i])
		a.do1(sqxtn8b, v[i], v[i+2])
		a.store(v[i], dst, at+4*i)
	}
}

// quantize emits the quantized form of a row, two blocks of 32 per record. The second
// half of the last record stays zero when blocks is odd.
func (a *arm) quantize() {
	a.function("quantize", "func(dst *byte, stride int, x *float32, blocks int)", "writes blocks of 32 values as records of activations.")
	dst, stride, x, blocks := a.arg("dst"), a.arg("stride"), a.arg("x"), a.arg("blocks")
	zero, most, least := a.vec(), a.floatBits(127), a.bits(0x0da24260) // 1e-30
	a.zero(zero)
	a.line("CMP $0, %s", blocks)
	a.line("BLE finished")
	a.text.WriteString("record:\n")
	for at := 0; at < recordSize; at += 16 {
		a.store(zero, dst, at)
	}
	for block := range 2 {
		a.scope(func() { a.quantizeBlock(dst, x, block, most, least) })
		a.line("SUB $1, %s", blocks)
		if block == 0 {
			a.line("CBZ %s, finished", blocks)
		}
	}
	a.add(x, 256)
	a.addReg(dst, stride)
	a.line("CBNZ %s, record", blocks)
	a.text.WriteString("finished:\n")
	a.finish()
}

// quantizeBlock writes one block, and the sums of its codes in the forms that kernels start from.
func (a *arm) quantizeBlock(dst, x greg, block int, most, least vreg) {
	v, top := a.largest(x, 128*block)
	d, inverse := a.vec(), a.vec()
	a.do(fmax, top, top, least)
	a.do(fdiv, d, top, most)
	a.do(fdiv, inverse, most, top)
	a.store4(d, dst, atScale+4*block)
	a.roundCodes(v, inverse)
	sums := []greg{a.reg(), a.reg()}
	part := a.reg()
	for half, sum := range sums {
		a.scope(func() {
			t := a.vec()
			a.do(addInts, t, v[4*half], v[4*half+1])
			a.do(addInts, t, t, v[4*half+2])
			a.do(addInts, t, t, v[4*half+3])
			a.do1(addv, t, t)
			a.line("FMOVS F%d, %s", t, sum)
		})
		a.line("NEG %s<<5, %s", sum, part)
		a.line("MOVW %s, %d(%s)", part, atC32+8*block+4*half, dst)
	}
	a.addReg(sums[0], sums[1])
	a.line("SCVTFWS %s, F%d", sums[0], inverse)
	a.line("FMULS F%d, F%d, F%d", d, inverse, inverse)
	a.store4(inverse, dst, atSum+4*block)
	for _, f := range []struct{ shift, at int }{{3, atC8}, {7, atC128}} {
		a.line("NEG %s<<%d, %s", sums[0], f.shift, part)
		a.line("MOVW %s, %d(%s)", part, f.at+4*block, dst)
	}
	a.pack(v, dst, 32*block)
}

// measures emits plain reading and multiplying, and the request for lines of memory.
func (a *arm) measures() {
	a.function("multiply", "func(rounds int)", "does twelve multiply-adds of registers a round, as a measure.")
	x, sums := a.vec(), a.vecs(12)
	a.zero(x)
	a.zero(sums...)
	a.loop(a.arg("rounds"), func() {
		for _, s := range sums {
			a.do(fmla, s, x, x)
		}
	})
	a.finish()
	a.function("readStreams", "func(p *byte, n int)", "reads n bytes, a multiple of 1024, in 4 streams.")
	n := a.arg("n")
	streams := []greg{a.arg("p")}
	a.line("LSR $2, %s", n)
	for i := 1; i < vecStreams; i++ {
		streams = append(streams, a.moved(streams[i-1]))
		a.addReg(streams[i], n)
	}
	a.line("LSR $8, %s", n)
	a.loop(n, func() {
		for _, s := range streams {
			for at := 0; at < 256; at += 16 {
				a.scope(func() { a.loaded(s, at) })
			}
			a.add(s, 256)
		}
	})
	a.finish()
	a.function("fetchLines", "func(p *byte, lines int)", "asks for lines of 64 bytes to come to the second cache.")
	p := a.arg("p")
	a.loop(a.arg("lines"), func() {
		a.line("PRFM (%s), PLDL2KEEP", p)
		a.add(p, 64)
	})
	a.finish()
}
