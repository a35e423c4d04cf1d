package main

// delta emits one token of the gated delta rule for 16 columns of a state.
func (a *arm) delta() {
	a.function("delta", "func(state, k, q *float32, dk int, v *float32, decay, beta float32, out, next *float32)",
		"advances 16 columns of a state by one token; what lies at next is not fetched. dk is a multiple of 4.")
	decay, beta := a.scalar("decay"), a.scalar("beta")
	change, sums := a.vecs(4), a.vecs(4)
	a.zero(sums...)
	a.eachState(func(state greg, k, _ vreg, i int) {
		for c, s := range sums {
			a.scope(func() { a.fmaLane(s, a.loaded(state, 64*i+16*c), k, i) })
		}
	})
	a.scope(func() {
		v := a.arg("v")
		for c, r := range change {
			a.load(r, v, 16*c)
			a.do(fmls, r, sums[c], decay)
			a.do(fmul, r, r, beta)
		}
	})
	a.zero(sums...)
	a.eachState(func(state greg, k, q vreg, i int) {
		for c, sum := range sums {
			a.scope(func() {
				s := a.loaded(state, 64*i+16*c)
				a.do(fmul, s, s, decay)
				a.fmaLane(s, change[c], k, i)
				a.store(s, state, 64*i+16*c)
				a.fmaLane(sum, s, q, i)
			})
		}
	})
	out := a.arg("out")
	for c, s := range sums {
		a.store(s, out, 16*c)
	}
	a.finish()
}

// eachState walks over the rows of the state; k and q are the values of four of them.
func (a *arm) eachState(body func(state greg, k, q vreg, i int)) {
	a.scope(func() {
		state, kAt, qAt, left := a.arg("state"), a.arg("k"), a.arg("q"), a.arg("dk")
		a.line("LSR $2, %s", left)
		a.loop(left, func() {
			k, q := a.loaded(kAt, 0), a.loaded(qAt, 0)
			for i := range 4 {
				body(state, k, q, i)
			}
			a.add(state, 256)
			a.add(kAt, 16)
			a.add(qAt, 16)
		})
	})
}

// deltaParts emits what the delta rule needs around its matrices.
func (a *arm) deltaParts() {
	a.convolve()
	a.gates()
	a.decayRow()
	a.gatedNorm()
}

func (a *arm) convolve() {
	a.function("convolve", "func(dst *float32, in **float32, w *float32, wRow, prefetch, n int)",
		"writes silu(Σ in[tap]·w[tap]) of n channels; in is four pointers, the taps of w lie wRow bytes apart.")
	in, stride := a.arg("in"), a.arg("wRow")
	taps := []greg{a.arg("w")}
	var x []greg
	for i := range 4 {
		x = append(x, a.reg())
		a.fetch(x[i], in, 8*i)
		if i > 0 {
			taps = append(taps, a.moved(taps[i-1]))
			a.addReg(taps[i], stride)
		}
	}
	c := a.expConstants()
	a.elements([]string{"dst"}, func(p []greg, at int) {
		sum, gate := a.vec(), a.vec()
		a.do(fmul, sum, a.loaded(x[0], at), a.loaded(taps[0], at))
		for i := 1; i < 4; i++ {
			a.scope(func() { a.do(fmla, sum, a.loaded(x[i], at), a.loaded(taps[i], at)) })
		}
		a.copyVec(gate, sum)
		a.sigmoid(gate, c)
		a.do(fmul, sum, sum, gate)
		a.store(sum, p[0], at)
		if at == 48 {
			for i := range x {
				a.add(x[i], 64)
				a.add(taps[i], 64)
			}
		}
	})
	a.finish()
}

// gates emits the gates of a V head: softplus(x) is max(x, 0) + ln(1+u), u = e^-|x|,
// and ln(1+u) = 2 artanh(u/(2+u)) by its series, whose argument is at most 1/3.
func (a *arm) gates() {
	a.function("gates", "func(log, decay, beta *float32, a, bias float32, n int)",
		"turns log = alpha into a·softplus(alpha+bias), decay is its e^; beta becomes sigmoid(beta).")
	factor, bias, zero, c := a.scalar("a"), a.scalar("bias"), a.vec(), a.expConstants()
	a.zero(zero)
	a.elements([]string{"log", "decay", "beta"}, func(p []greg, at int) {
		x, u := a.loaded(p[0], at), a.vec()
		a.do(fadd, x, x, bias)
		a.do1(fabs, u, x)
		a.do1(fneg, u, u)
		a.exp(u, c)
		a.scope(func() {
			s, square, sum, next := a.floatBits(2), a.vec(), a.bits(0x3d9d89d9), a.vec()
			a.do(fadd, s, s, u)
			a.do(fdiv, s, u, s)
			a.do(fmul, square, s, s)
			for _, n := range []float32{11, 9, 7, 5, 3, 1} {
				a.scope(func() { a.copyVec(next, a.floatBits(1/n)) })
				a.do(fmla, next, sum, square)
				a.copyVec(sum, next)
			}
			a.do(fmul, sum, sum, s)
			a.do(fadd, sum, sum, sum)
			a.do(fmax, x, x, zero)
			a.do(fadd, x, x, sum)
		})
		a.do(fmul, x, x, factor)
		a.store(x, p[0], at)
		a.exp(x, c)
		a.store(x, p[1], at)
		b := u
		a.load(b, p[2], at)
		a.sigmoid(b, c)
		a.store(b, p[2], at)
	})
	a.finish()
}

func (a *arm) decayRow() {
	a.function("decayRow", "func(read, change, qk, kk, high, low *float32, topHigh, topLow, factor float32, n int)",
		"writes read = qk·e and change = factor·kk·e, e = e^(top - sum), the sums in two parts.")
	topHigh, topLow, factor, c := a.scalar("topHigh"), a.scalar("topLow"), a.scalar("factor"), a.expConstants()
	a.elements([]string{"read", "change", "qk", "kk", "high", "low"}, func(p []greg, at int) {
		e, low := a.loaded(p[4], at), a.loaded(p[5], at)
		a.do(fsub, e, topHigh, e)
		a.do(fsub, low, topLow, low)
		a.do(fadd, e, e, low)
		a.exp(e, c)
		a.load(low, p[2], at)
		a.do(fmul, low, low, e)
		a.store(low, p[0], at)
		a.load(low, p[3], at)
		a.do(fmul, e, e, low)
		a.do(fmul, e, e, factor)
		a.store(e, p[1], at)
	})
	a.finish()
}

func (a *arm) gatedNorm() {
	a.function("gatedNorm", "func(dst, o, z, w *float32, eps float32, prefetch, n int)",
		"writes o·rsqrt(mean(o²)+eps)·w·silu(z); dst may be o.")
	mean, eps, c := a.squares("o"), a.scalar("eps"), a.expConstants()
	a.scope(func() {
		n, count := a.arg("n"), a.vec()
		a.line("SCVTFS %s, F%d", n, count)
		a.dupLane(count, count, 0)
		a.do(fdiv, mean, mean, count)
	})
	a.do(fadd, mean, mean, eps)
	a.do1(fsqrt, mean, mean)
	a.do(fdiv, mean, c.one, mean)
	a.elements([]string{"dst", "o", "z", "w"}, func(p []greg, at int) {
		x, gate := a.loaded(p[1], at), a.loaded(p[2], at)
		a.do(fmul, x, x, mean)
		a.do(fmul, x, x, a.loaded(p[3], at))
		a.do(fmul, x, x, gate)
		a.sigmoid(gate, c)
		a.do(fmul, x, x, gate)
		a.store(x, p[0], at)
	})
	a.finish()
}

// products emits the small matrix products of the chunked delta rule.
func (a *arm) products() {
	a.product("product", "writes dst = scale·init + a·x for tiles of 8 rows by 32 columns; p is a *product.", false)
	a.product("solve", "finds dst of dst = init + a·dst, a strictly lower triangular; p is a *product.", true)
	a.transpose()
}

// armProduct is the fields of a *product that a tile moves on.
type armProduct struct{ p, dst, init, scale, a, n greg }

// product emits one of the two kernels: a product, or one whose x is the rows of dst
// before the tile, and within the tile the rows above. Four rows of a block at a time
// fit in registers.
func (a *arm) product(name, doc string, solve bool) {
	a.function(name, "func(p *byte)", doc)
	f := armProduct{p: a.arg("p")}
	field := func(at int) greg { r := a.reg(); a.fetch(r, f.p, at); return r }
	f.dst, f.init, f.scale, f.a, f.n = field(productDst), field(productInit), field(productScale), field(productA), field(productN)
	a.loop(field(productTiles), func() {
		for block := range 2 {
			for first := 0; first < productRows; first += 4 {
				a.scope(func() { a.productPart(f, block, first, solve) })
			}
		}
		a.scope(func() {
			for _, m := range []struct {
				pointer greg
				step    int
			}{{f.dst, productDstRow}, {f.init, productInitRow}, {f.scale, productScaleStep}, {f.a, productARow}} {
				step := field(m.step)
				a.line("ADD %s<<3, %s", step, m.pointer)
			}
			a.addReg(f.n, field(productNStep))
		})
	})
	a.finish()
}

// partAt is a pointer at the first row of a part that lies in one block of 16 columns, and
// the distance of its rows. perBlock is the field with the distance of blocks, 0 for none.
func (a *arm) partAt(f armProduct, base greg, row, perBlock, block, first int) (p, stride greg) {
	p, stride = a.moved(base), a.reg()
	a.fetch(stride, f.p, row)
	if first > 0 {
		a.line("ADD %s<<2, %s", stride, p)
	}
	a.scope(func() {
		if block > 0 && perBlock > 0 {
			size := a.reg()
			a.fetch(size, f.p, perBlock)
			a.addReg(p, size)
		}
	})
	return p, stride
}

// startPart loads the sums of a part.
func (a *arm) startPart(f armProduct, sums [][]vreg, block, first int, solve bool) {
	init, stride := a.partAt(f, f.init, productInitRow, productInitBlock, block, first)
	scale, step := a.partAt(f, f.scale, productScaleStep, 0, block, first)
	for _, row := range sums {
		for c, s := range row {
			a.load(s, init, 16*c)
		}
		a.addReg(init, stride)
		if solve {
			continue
		}
		a.scope(func() {
			factor := a.vec()
			a.load4(factor, scale, 0)
			for _, s := range row {
				a.mulLane(s, s, factor, 0)
			}
		})
		a.addReg(scale, step)
	}
}

// productPart computes four rows of one block of 16 columns.
func (a *arm) productPart(f armProduct, block, first int, solve bool) {
	sums := [][]vreg{a.vecs(4), a.vecs(4), a.vecs(4), a.vecs(4)}
	a.scope(func() { a.startPart(f, sums, block, first, solve) })
	left, x, column := a.moved(f.n), a.reg(), a.reg()
	from, stride := a.partAt(f, f.a, productARow, 0, block, first)
	a.fetch(x, f.p, productX)
	a.fetch(column, f.p, productACol)
	if block > 0 {
		a.scope(func() {
			size := a.reg()
			a.fetch(size, f.p, productXBlock)
			a.addReg(x, size)
		})
	}
	if solve {
		a.add(left, first)
	}
	a.loop(left, func() {
		v := a.vecs(4)
		for c, r := range v {
			a.load(r, x, 16*c)
		}
		factor := a.vec()
		a.rows(from, stride, 4, func(i int, row greg) {
			a.load4(factor, row, 0)
			for c, r := range v {
				a.fmaLane(sums[i][c], r, factor, 0)
			}
		})
		a.addReg(from, column)
		a.add(x, 64)
	})
	if solve {
		a.solveRows(sums, from, stride)
	}
	dst, distance := a.partAt(f, f.dst, productDstRow, productDstBlock, block, first)
	a.rows(dst, distance, 4, func(i int, row greg) {
		for c, s := range sums[i] {
			a.store(s, row, 16*c)
		}
	})
}

// solveRows takes the part's own rows into account, each with those above it; from
// is at their columns of a.
func (a *arm) solveRows(sums [][]vreg, from, stride greg) {
	a.rows(from, stride, 4, func(i int, row greg) {
		for j := range i {
			a.scope(func() {
				factor := a.vec()
				a.load4(factor, row, 4*j)
				for c := range sums[i] {
					a.fmaLane(sums[i][c], sums[j][c], factor, 0)
				}
			})
		}
	})
}

// transpose emits the change of 16 rows into [column][16 rows], four columns at a time.
func (a *arm) transpose() {
	a.function("transpose", "func(dst, x *float32, row, n int)", "writes n columns of 16 rows, which lie row bytes apart, as dst[n][16].")
	dst, x, stride, left := a.arg("dst"), a.arg("x"), a.arg("row"), a.arg("n")
	a.line("LSR $2, %s", left)
	a.loop(left, func() {
		row := a.moved(x)
		for four := range 4 {
			a.scope(func() {
				r, t, out := a.vecs(4), a.vecs(4), a.vec()
				for _, v := range r {
					a.load(v, row, 0)
					a.addReg(row, stride)
				}
				for i := range 2 {
					a.do(zip1, t[i], r[i], r[i+2])
					a.do(zip2, t[2+i], r[i], r[i+2])
				}
				for column := range 4 {
					a.do([]encoding{zip1, zip2}[column%2], out, t[column/2*2], t[column/2*2+1])
					a.store(out, dst, 64*column+16*four)
				}
			})
		}
		a.add(x, 16)
		a.add(dst, 256)
	})
	a.finish()
}
