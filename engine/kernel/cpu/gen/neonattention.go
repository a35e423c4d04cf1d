package main

import "fmt"

// kvTypes are the types that K and V are stored in.
var kvTypes = []kvType{{"Half", 2, false}, {"Float", 4, false}, {"Code", 1, true}}

// attention emits scores and values for all KV types and query tiles, as for amd64.
func (a *arm) attention() {
	for _, queries := range []int{1, 2, 4, 8, 12} {
		for _, t := range kvTypes {
			a.scores(queries, t)
			a.values(queries, t)
		}
	}
	a.scores(12, kvType{"Wide", 4, true})
	a.wideValues(12)
	a.weigh(12)
	for _, t := range kvTypes {
		a.widen(t)
	}
	a.foldRange()
	a.encodeKV()
}

// loadKV loads four elements as float32, codes without their scale.
func (a *arm) loadKV(t kvType, v vreg, base greg, at int) {
	switch t.size {
	case 1:
		a.load4(v, base, at)
		a.widenBytes(v, true)
		a.do1(scvtf, v, v)
	case 2:
		a.load8(v, base, at)
		a.do1(fcvtl, v, v)
	default:
		a.load(v, base, at)
	}
}

// scoreParts is how many registers of a tile of 16 positions are computed at once.
func scoreParts(queries int) int { return map[int]int{1: 4, 2: 4, 4: 4, 8: 2, 12: 1}[queries] }

// scores emits dst[query][tile·16...] = q · K.
func (a *arm) scores(queries int, kv kvType) {
	a.function(fmt.Sprintf("scores%sQueries%d", kv.name, queries), "func(dst, q *float32, tiles **byte, count, d int)",
		fmt.Sprintf("computes the scores of %d queries against tiles of K.", queries))
	dst, q, list, count, d := a.arg("dst"), a.arg("q"), a.arg("tiles"), a.arg("count"), a.arg("d")
	stride, parts := a.moved(d), scoreParts(queries)
	a.line("LSL $2, %s", stride)
	a.loop(count, func() {
		for part := 0; part < 4; part += parts {
			a.scope(func() { a.scoreTile(kv, queries, part, parts, dst, q, list, d, stride) })
		}
		a.add(list, 8)
		a.add(dst, 64)
	})
	a.finish()
}

// scoreTile computes parts registers of a tile, codes block by block: the sum of each is scaled.
func (a *arm) scoreTile(kv kvType, queries, part, parts int, dst, q, list, d, stride greg) {
	k, x, left, scales := a.reg(), a.moved(q), a.moved(d), a.reg()
	a.fetch(k, list, 0)
	sums := make([][]vreg, queries)
	for m := range sums {
		sums[m] = a.vecs(parts)
		a.zero(sums[m]...)
	}
	columns := func() {
		rows := a.vecs(queries)
		a.rows(x, stride, queries, func(m int, row greg) { a.load(rows[m], row, 0) })
		for i := range 4 {
			for c := range parts {
				a.scope(func() {
					v := a.vec()
					a.loadKV(kv, v, k, (16*i+4*(part+c))*kv.size)
					for m := range sums {
						a.fmaLane(sums[m][c], v, rows[m], i)
					}
				})
			}
		}
		a.add(k, 64*kv.size)
		a.add(x, 16)
	}
	if !kv.coded {
		a.line("LSR $2, %s", left)
		a.loop(left, columns)
		for m := range sums {
			for c, s := range sums[m] {
				a.store(s, dst, m*scoreBytes+16*(part+c))
			}
		}
		return
	}
	a.line("LSL $%d, %s, %s", map[int]int{1: 4, 4: 6}[kv.size], d, scales)
	a.addReg(scales, k)
	a.scope(func() {
		z := a.vec()
		a.zero(z)
		for m := range sums {
			for c := range parts {
				a.store(z, dst, m*scoreBytes+16*(part+c))
			}
		}
	})
	a.line("LSR $5, %s", left)
	a.loop(left, func() {
		a.times(codeBlock/4, columns)
		for c := range parts {
			scale := a.vec()
			a.load8(scale, scales, 8*(part+c))
			a.do1(fcvtl, scale, scale)
			for m := range sums {
				a.scope(func() {
					total := a.loaded(dst, m*scoreBytes+16*(part+c))
					a.do(fmla, total, sums[m][c], scale)
					a.store(total, dst, m*scoreBytes+16*(part+c))
				})
				a.zero(sums[m][c])
			}
		}
		a.add(scales, 32)
	})
}

// armValues is what a run of positions of V is added to and with.
type armValues struct {
	kv             kvType
	queries, width int  // width in registers
	stride, row    greg // from one row of dst, of V, to the next, in bytes
}

func newArmValues(kv kvType, queries int) armValues {
	return armValues{kv: kv, queries: queries, width: map[int]int{1: 8, 2: 8, 4: 4, 8: 2, 12: 2}[queries]}
}

// block adds count positions to 32 columns of dst; p are their probabilities.
func (v armValues) block(a *arm, dst, p, from, count greg) {
	for part := 0; part < 8; part += v.width {
		a.scope(func() {
			at, weights, left := a.moved(from), a.moved(p), a.moved(count)
			sums := make([][]vreg, v.queries)
			for m := range sums {
				sums[m] = a.vecs(v.width)
			}
			each := func(f func(s vreg, row greg, at int)) {
				a.rows(dst, v.stride, v.queries, func(m int, row greg) {
					for c, s := range sums[m] {
						f(s, row, 16*(part+c))
					}
				})
			}
			each(a.load)
			a.loop(left, func() {
				x := a.vecs(v.width)
				for c, r := range x {
					a.loadKV(v.kv, r, at, 4*(part+c)*v.kv.size)
				}
				weight := a.vec()
				for m := range sums {
					a.load4(weight, weights, m*scoreBytes)
					for c, r := range x {
						a.fmaLane(sums[m][c], r, weight, 0)
					}
				}
				a.addReg(at, v.row)
				a.add(weights, 4)
			})
			each(a.store)
		})
	}
}

// values emits dst[query][d] += Σ p·V, one tile after the other.
func (a *arm) values(queries int, kv kvType) {
	a.function(fmt.Sprintf("values%sQueries%d", kv.name, queries), "func(dst, p *float32, tiles **byte, count, d int)",
		fmt.Sprintf("adds V, weighted by the probabilities of %d queries.", queries))
	v, p, list, left := newArmValues(kv, queries), a.arg("p"), a.arg("tiles"), a.arg("count")
	v.stride, v.row = a.arg("d"), a.arg("d")
	a.line("LSL $2, %s", v.stride)
	a.line("LSL $%d, %s", kv.size/2, v.row)
	scratchAt := a.arg("p")
	a.line("ADD $%d, %s", rangeBytes, scratchAt)
	a.text.WriteString("tile:\n")
	a.line("CMP $0, %s", left)
	a.line("BLE finished")
	a.scope(func() {
		dst, from, count, blocks := a.arg("dst"), a.reg(), a.reg(), a.arg("d")
		a.constant(count, 16)
		a.line("CMP %s, %s", count, left)
		a.line("CSEL LT, %s, %s, %s", left, count, count)
		a.fetch(from, list, 0)
		scales, weights := a.reg(), p
		if kv.coded {
			weights = scratchAt
			a.line("LSL $4, %s, %s", v.row, scales)
			a.addReg(scales, from)
		}
		a.line("LSR $5, %s", blocks)
		a.loop(blocks, func() {
			if kv.coded {
				a.scaleWeights(queries, p, scratchAt, scales)
			}
			v.block(a, dst, weights, from, count)
			a.add(from, 32*kv.size)
			a.add(dst, 128)
		})
	})
	a.add(list, 8)
	a.add(p, 64)
	a.line("SUB $16, %s", left)
	a.line("JMP tile")
	a.text.WriteString("finished:\n")
	a.finish()
}

// scaleWeights multiplies the probabilities of a tile with the scales of a block, and moves to the next.
func (a *arm) scaleWeights(queries int, p, to, scales greg) {
	for part := range 4 {
		a.scope(func() {
			scale := a.vec()
			a.load8(scale, scales, 8*part)
			a.do1(fcvtl, scale, scale)
			for m := range queries {
				a.scope(func() {
					x := a.loaded(p, m*scoreBytes+16*part)
					a.do(fmul, x, x, scale)
					a.store(x, to, m*scoreBytes+16*part)
				})
			}
		})
	}
	a.add(scales, 32)
}

// wideValues emits values for V that was converted: a matrix [count][stride] of
// float32, of which it takes columns.
func (a *arm) wideValues(queries int) {
	a.function("wideValues", "func(dst, p, v *float32, count, columns, stride int)",
		fmt.Sprintf("adds rows of V, weighted by the probabilities of %d queries.", queries))
	v := newArmValues(kvType{size: 4}, queries)
	dst, p, from, count, blocks := a.arg("dst"), a.arg("p"), a.arg("v"), a.arg("count"), a.arg("columns")
	v.stride = a.arg("stride")
	a.line("LSL $2, %s", v.stride)
	v.row = v.stride
	a.line("LSR $5, %s", blocks)
	a.loop(blocks, func() {
		v.block(a, dst, p, from, count)
		a.add(from, 128)
		a.add(dst, 128)
	})
	a.finish()
}

// weigh emits the product of probabilities and the scales of positions.
func (a *arm) weigh(queries int) {
	a.function("weigh", "func(dst, p, scales *float32, n int)",
		fmt.Sprintf("multiplies the probabilities of %d queries by the scales of n positions.", queries))
	a.elements([]string{"dst", "p", "scales"}, func(p []greg, at int) {
		scale := a.loaded(p[2], at)
		for m := range queries {
			a.scope(func() {
				x := a.loaded(p[1], m*scoreBytes+at)
				a.do(fmul, x, x, scale)
				a.store(x, p[0], m*scoreBytes+at)
			})
		}
	})
	a.finish()
}

// widen emits the conversion of K or V to float32; codes stay without their scale.
func (a *arm) widen(kv kvType) {
	a.function("widen"+kv.name, "func(dst *float32, src *byte, n int)", "converts n elements of K or V to float32.")
	src := a.arg("src")
	a.elements([]string{"dst"}, func(p []greg, at int) {
		v := a.vec()
		a.loadKV(kv, v, src, at/4*kv.size)
		a.store(v, p[0], at)
		if at == 48 {
			a.add(src, 16*kv.size)
		}
	})
	a.finish()
}

// foldRange emits the sum of two ranges of one query.
func (a *arm) foldRange() {
	a.function("fold", "func(sum *float32, stat *[2]float32, next *float32, nextStat *[2]float32, n int)",
		"adds the next range's values to those of the ranges before; stat is a maximum and a sum.")
	stat, other := a.arg("stat"), a.arg("nextStat")
	top, x, y := a.vec(), a.vec(), a.vec()
	a.load4(x, stat, 0)
	a.load4(y, other, 0)
	a.do(fmax, top, x, y)
	a.do(fsub, x, x, top)
	a.do(fsub, y, y, top)
	a.scope(func() {
		c := a.expConstants()
		a.exp(x, c)
		a.exp(y, c)
		a.store4(top, stat, 0)
		total, more := a.vec(), a.vec()
		a.load4(total, other, 4)
		a.load4(more, stat, 4)
		a.do(fmul, total, total, y)
		a.do(fmla, total, more, x)
		a.store4(total, stat, 4)
	})
	a.elements([]string{"sum", "next"}, func(p []greg, at int) {
		v, sum := a.loaded(p[1], at), a.loaded(p[0], at)
		a.mulLane(v, v, y, 0)
		a.fmaLane(v, sum, x, 0)
		a.store(v, p[0], at)
	})
	a.finish()
}

// encodeKV emits the 8-bit form of blocks of 32 values.
func (a *arm) encodeKV() {
	a.function("encodeKV", "func(codes *byte, scales *uint16, x *float32, blocks int)",
		"rounds blocks of 32 values to codes, and their scales to float16.")
	codes, scales, x, bits := a.arg("codes"), a.arg("scales"), a.arg("x"), a.reg()
	most, limit, one, zero := a.floatBits(127), a.floatBits(65504), a.floatBits(1), a.vec()
	a.zero(zero)
	a.loop(a.arg("blocks"), func() {
		v, top := a.largest(x, 0)
		used := a.vec()
		a.do(fdiv, top, top, most)
		a.do(fmin, top, top, limit)
		a.do1(fcvtn, top, top)
		a.line("FMOVS F%d, %s", top, bits)
		a.line("MOVH %s, (%s)", bits, scales)
		a.do1(fcvtl, top, top)
		a.do(fcmgt, used, top, zero) // a block of zeros has the scale 0
		a.do(fdiv, top, one, top)
		a.do(and, top, top, used)
		a.roundCodes(v, top)
		a.pack(v, codes, 0)
		a.add(codes, 32)
		a.add(scales, 2)
		a.add(x, 128)
	})
	a.finish()
}
