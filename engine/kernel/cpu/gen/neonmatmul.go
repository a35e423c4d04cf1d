package main

import "fmt"

// codeMatMuls emits the products with codes, of all layouts and tile heights.
func (a *arm) codeMatMuls() {
	for _, rows := range []int{1, 2, 4, 8} {
		for _, l := range layouts {
			a.codes(l, rows)
		}
	}
}

// armPlace is where a step of a panel lies: the scales of it or of its superblock, its
// codes, and of superblocks the words and bytes of the step.
type armPlace struct{ scales, codes, words, bytes greg }

// armMasks are constants in registers: what turns a byte into a code.
type armMasks struct{ sign, nibble, high vreg }

// codes keeps the sums in dst, which stays in the nearest cache, and computes four
// outputs of all rows at a time.
func (a *arm) codes(l layout, rows int) {
	a.function(fmt.Sprintf("matMul%sRows%d", l.name, rows), matMulSignature,
		fmt.Sprintf("multiplies %d rows of quantized activations with a %s panel.", rows, l.name))
	dst, act, stride, panel, steps := a.arg("dst"), a.arg("act"), a.arg("actStride"), a.arg("panel"), a.arg("steps")
	a.scope(func() {
		z := a.vec()
		a.zero(z)
		for at := 0; at < rows*128; at += 16 {
			a.store(z, dst, at)
		}
	})
	var m armMasks
	switch {
	case !l.nibbles:
		m.sign = a.bits(0x80808080)
	case l.highBits > 0:
		m.high = a.bits(map[int]uint32{1: 0x10101010, 2: 0x30303030}[l.highBits])
		fallthrough
	default:
		m.nibble = a.bits(0x0f0f0f0f)
	}
	a.eachStep(l, panel, steps, func(at armPlace) {
		for _, p := range l.all() {
			a.scope(func() { a.group(l, p, rows, dst, act, at, m) })
		}
		a.addReg(act, stride)
	})
	a.finish()
}

// eachStep runs body for every step of a panel; it changes panel and steps.
func (a *arm) eachStep(l layout, panel, steps greg, body func(at armPlace)) {
	if !l.super {
		a.loop(steps, func() {
			body(armPlace{scales: panel, codes: panel})
			a.add(panel, l.stepBytes)
		})
		return
	}
	a.line("LSR $2, %s", steps)
	a.loop(steps, func() {
		at := armPlace{panel, a.moved(panel), a.moved(panel), a.moved(panel)}
		bytes := 32
		a.add(at.codes, l.codesAt)
		if l.mins {
			a.add(at.words, superWords)
			a.add(at.bytes, superBytes)
		} else {
			bytes = 128
			a.add(at.bytes, superParts)
		}
		a.times(superSteps, func() {
			body(at)
			a.add(at.codes, l.codeBytes())
			a.add(at.words, 64)
			a.add(at.bytes, bytes)
		})
		a.copyReg(panel, at.codes)
	})
}

// group adds the columns of one group.
func (a *arm) group(l layout, p group, rows int, dst, act greg, at armPlace, m armMasks) {
	var x [][]vreg // activations of the group by row, four groups of columns in a register
	for r := range rows {
		x = append(x, a.vecs(p.groups/4))
		for i, v := range x[r] {
			a.load(v, act, r*recordSize+4*p.first+16*i)
		}
	}
	out, line, next := a.moved(dst), a.moved(at.codes), armPlace{scales: a.moved(at.scales)}
	a.add(next.scales, map[bool]int{true: 0, false: p.index * 64}[l.super])
	if l.super {
		next.words, next.bytes = a.moved(at.words), a.moved(at.bytes)
		if !l.mins {
			a.add(next.bytes, p.index*32)
		}
	}
	// The lines of nibbles of the lower and the upper rows are the same.
	sides := []int{8}
	if l.nibbles {
		sides = []int{4, 4}
	}
	for side, count := range sides {
		a.times(count, func() {
			a.quarter(l, p, side, x, act, line, out, next, m)
			a.add(line, 16)
			a.add(out, 16)
			a.add(next.scales, 8)
			if l.super {
				a.add(next.words, 8)
				a.add(next.bytes, 4)
			}
		})
	}
}

// quarter adds four outputs of all rows.
func (a *arm) quarter(l layout, p group, side int, x [][]vreg, act, line, out greg, at armPlace, m armMasks) {
	dots, from := a.vecs(len(x)), l.correction(p)
	for r, d := range dots {
		if from < 0 || l.words == 0 { // codes with a sign need no correction
			a.zero(d)
			continue
		}
		a.load4(d, act, r*recordSize+from)
		a.dupLane(d, d, 0)
	}
	for k := range p.groups {
		a.scope(func() {
			w := a.code(l, p, k, side, line, m)
			for r, d := range dots {
				a.sdot(d, w, x[r][k/4], k%4)
			}
		})
	}
	scale := a.groupScale(l, p, at)
	for r, d := range dots {
		a.scope(func() {
			t, sum := a.vec(), a.vec()
			a.load4(t, act, r*recordSize+atScale+4*p.block)
			a.mulLane(t, scale, t, 0)
			a.load(sum, out, r*128)
			a.do1(scvtf, d, d)
			a.do(fmla, sum, d, t)
			a.store(sum, out, r*128)
		})
	}
	if !l.mins {
		return
	}
	low := a.groupLow(p, at)
	for r := range dots {
		t := dots[0]
		a.scope(func() {
			sum := a.loaded(out, r*128)
			a.load4(t, act, r*recordSize+atSum+4*p.block)
			a.fmsLane(sum, low, t, 0)
			a.store(sum, out, r*128)
		})
	}
}

// code is the codes of four rows of column group k of p. For the upper side, line is
// 64 bytes past what it was for the lower one.
func (a *arm) code(l layout, p group, k, side int, line greg, m armMasks) vreg {
	w := a.vec()
	if !l.nibbles {
		a.load(w, line, l.codesAt+(p.first+k)*128)
		a.do(eor, w, w, m.sign)
		return w
	}
	a.load(w, line, l.nibbleLine(p, k)-64*side)
	if side == 1 {
		a.shift(w, w, -4, 8)
	} else {
		a.do(and, w, w, m.nibble)
	}
	if l.highBits == 0 {
		return w
	}
	a.scope(func() {
		high := a.loaded(line, l.highLine(p, k))
		if by := 4 - (p.first+k)%8*l.highBits%8; by != 0 { // to bit 4 of each byte
			a.shift(high, high, by, 8)
		}
		a.do(and, high, high, m.high)
		a.do(orr, w, w, high)
	})
	return w
}

// groupScale is the scale of four rows of a group. The product of the file's two numbers is exact.
func (a *arm) groupScale(l layout, p group, at armPlace) vreg {
	scale := a.vec()
	a.scope(func() {
		a.load8(scale, at.scales, 0)
		a.do1(fcvtl, scale, scale)
		if !l.super {
			return
		}
		part := a.vec()
		if l.mins {
			a.load8(part, at.words, 0)
			a.widenWords(part)
			a.field(part, part, 6*p.index, 6)
		} else {
			a.load4(part, at.bytes, 0)
			a.widenBytes(part, true)
		}
		a.do1(scvtf, part, part)
		a.do(fmul, scale, scale, part)
	})
	return scale
}

// groupLow is the minimum of four rows of a group.
func (a *arm) groupLow(p group, at armPlace) vreg {
	part := a.vec()
	a.scope(func() {
		low := a.vec()
		a.load4(part, at.bytes, 0)
		a.widenBytes(part, false)
		if p.index == 0 {
			a.field(part, part, 0, 6)
		} else {
			a.shift(part, part, -6, 32)
			a.shift(part, part, 4, 32)
			a.load8(low, at.words, 0)
			a.widenWords(low)
			a.shift(low, low, -12, 32)
			a.do(orr, part, part, low)
		}
		a.do1(scvtf, part, part)
		a.load8(low, at.scales, 64)
		a.do1(fcvtl, low, low)
		a.do(fmul, part, part, low)
	})
	return part
}

// floatMatMuls emits the products with panels of floats. At most two rows of 32 outputs
// are in registers: more rows go in passes over the panel.
func (a *arm) floatMatMuls() {
	for _, rows := range []int{1, 2, 4, 8} {
		for _, name := range []string{"Float32", "Float16", "BFloat16"} {
			a.function(fmt.Sprintf("matMul%sRows%d", name, rows), matMulSignature,
				fmt.Sprintf("multiplies %d rows of float32 activations with a panel of %s.", rows, name))
			for first := 0; first < rows; first += 2 {
				a.scope(func() { a.floatRows(name, first, min(rows-first, 2)) })
			}
			a.finish()
		}
	}
}

func (a *arm) floatRows(name string, first, rows int) {
	dst, act, stride, panel, steps := a.arg("dst"), a.arg("act"), a.arg("actStride"), a.arg("panel"), a.arg("steps")
	sums, size := a.vecs(8*rows), 2
	if name == "Float32" {
		size = 4
	}
	a.zero(sums...)
	a.loop(steps, func() {
		x := a.vecs(rows)
		for r, v := range x {
			a.load4(v, act, 4*(first+r))
		}
		for i := range 8 {
			a.scope(func() {
				w := a.vec()
				a.loadFloats(name, w, panel, 4*i*size)
				for r, v := range x {
					a.fmaLane(sums[8*r+i], w, v, 0)
				}
			})
		}
		a.addReg(act, stride)
		a.add(panel, 32*size)
	})
	for i, s := range sums {
		a.store(s, dst, 128*first+16*i)
	}
}

// loadFloats widens four weights.
func (a *arm) loadFloats(name string, v vreg, base greg, at int) {
	if name == "Float32" {
		a.load(v, base, at)
		return
	}
	a.load8(v, base, at)
	if name == "Float16" {
		a.do1(fcvtl, v, v)
		return
	}
	a.widenWords(v)
	a.shift(v, v, 16, 32)
}
