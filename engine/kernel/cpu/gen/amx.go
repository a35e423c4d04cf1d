package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Sizes of the tile kernels, as in package cpu.
const (
	bandRows   = 12             // of activations
	sumsBytes  = 128            // a row of 32 sums, and of scales
	lineBytes  = 64             // a column group of half a panel taken apart, a row's codes of a step, a row of 16 integer sums
	dotsBytes  = bandRows * 128 // the integer sums of a band x 32 outputs
	magicAt    = 64             // offset in the scratch, after the configuration, of 16 x bits of 1.5·2^23
	dotsAt     = 128            // and of the first of two buffers of integer sums
	plainSide  = 64 / 4 * 64    // codes of 16 outputs of a step as signed bytes
	plainCodes = 2 * plainSide
	tailBytes  = 16 // of each row, after the codes of all: the scales of two blocks, scale·Σcodes of both
	tailSum    = 8
)

// bandStep is the size of a step of a panel taken apart: signed codes, then
// the float32 scales of its groups, then their minima.
func (l layout) bandStep() int {
	n := plainCodes + 64/l.group*sumsBytes
	if l.mins {
		n += 64 / l.group * sumsBytes
	}
	return n
}

// bands emits what the level amx adds to the one below.
func (g *gen) bands() {
	for _, l := range layouts {
		g.unpack(l, false)
	}
	g.quantizeBand(false)
	for _, l := range layouts {
		g.band(l)
	}
}

// bandConstants defines the constants of level amx.
func (g *gen) bandConstants() {
	for _, c := range []struct {
		name string
		bits uint32
	}{
		{"nibbles", 0x0f0f0f0f}, {"bit4", 0x10101010}, {"bits45", 0x30303030},
		{"topmin", 0x0da24260}, {"abs", 0x7fffffff}, {"c127", 0x42fe0000}, // what quantize takes
	} {
		g.constant(c.name, g.repeat(c.bits))
	}
	g.unpackConstants()
}

// unpackConstants defines what the kernels of bands take at every level.
func (g *gen) unpackConstants() {
	for n, bits := range []uint32{0x80808080, 0x20202020, 0x08080808} {
		g.constant(fmt.Sprintf("offset%d", []int{128, 32, 8}[n]), g.repeat(bits))
	}
	g.constant("ones8", g.repeat(0x01010101))
	g.constant("bandOrder", []uint32{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}) // packing works within 128-bit lanes
}

// unpack takes steps of a panel apart. What biased sums begin at stands in the end.
func (g *gen) unpack(l layout, biased bool) {
	g.function("unpack"+l.name, "func(dst *byte, panel *byte, steps int)",
		fmt.Sprintf("takes steps of a %s panel apart.", l.name))
	dst, panel, steps := g.arg("dst"), g.arg("panel"), g.arg("steps")
	mask, offset, zero, bias := g.vec(), g.vec(), g.vec(), g.vec()
	if l.nibbles {
		g.VMOVDQU32(g.c("nibbles"), mask)
	}
	if l.offset > 0 {
		g.VMOVDQU32(g.c(fmt.Sprintf("offset%d", l.offset)), offset)
	}
	if biased {
		g.zero(zero)
		g.VMOVDQU32(g.c("offset128"), bias)
	}
	g.eachStep(l, panel, steps, func(at place) {
		for _, p := range l.all() {
			begin := g.vecs(2)
			if biased {
				g.zero(begin...)
			}
			for k := range p.groups {
				for side := range 2 {
					w := reg.VecVirtual(nil)
					if l.nibbles {
						w = g.loadCode(l, p, k, side, at.codes, mask)
					} else {
						w = g.load(mem(at.codes, l.codesAt+(p.first+k)*2*lineBytes+side*64))
					}
					if l.offset > 0 {
						g.VPSUBB(offset, w, w)
					}
					g.VMOVDQU32(w, mem(dst, side*plainSide+(p.first+k)*lineBytes))
					if biased {
						g.vnniReg(w, bias, begin[side])
					}
				}
			}
			for side := 0; side < 2 && biased; side++ {
				g.VPSUBD(begin[side], zero, begin[side])
				g.VMOVDQU32(begin[side], mem(dst, l.bandStep()+p.index*sumsBytes+side*64))
			}
		}
		g.plainScales(l, at, dst, plainCodes)
		if biased {
			g.ADDQ(operand.I32(l.biasedStep()), dst)
		} else {
			g.ADDQ(operand.I32(l.bandStep()), dst)
		}
	})
	g.finish()
}

const bandSignature = "func(dst *float32, dstStride int, sums *float32, more int, act *byte, bands, actStride int, codes *byte, " +
	"steps int, prefetch uintptr, prefetchStride, prefetchStep int, scratch *byte)"

// Registers that tile instructions name. The current and the next step of
// activations and of weights; the integer sums; the distance of lines.
var (
	nowAct, nowCodes   = reg.RAX, reg.RCX
	nextAct, nextCodes = reg.RSI, reg.RDI
	dotsBase, line     = reg.R8, reg.RDX
)

// banding is what the parts of a kernel for bands share.
type banding struct {
	*gen
	layout
	sums  []reg.VecVirtual // by row, two each
	magic reg.VecVirtual   // 1.5·2^23: see multiply
	// prefetchAt is the memory that was asked for so far, target how far it should be.
	prefetchAt, target reg.GPVirtual
}

// newBanding begins a kernel for bands.
func (g *gen) newBanding(l layout) *banding {
	scratch := reg.R9
	g.Load(g.Param("scratch"), scratch)
	g.loadTileConfig(scratch)
	g.LEAQ(operand.Mem{Base: scratch, Disp: dotsAt}, dotsBase)
	g.MOVQ(operand.U32(lineBytes), line)
	return &banding{g, l, g.vecs(2 * bandRows), g.load(mem(dotsBase, magicAt-dotsAt)), g.GP64(), g.GP64()}
}

// band emits the product of bands of rows with steps of a panel taken apart.
//
// Groups pass through three stages, two groups apart: their integer products
// form in one of two pairs of tiles, the pair is stored to one of two
// buffers, and the buffer is scaled and added to the sums in registers. The
// stages of three groups overlap; the last two groups of a band overlap the
// first two of the next. After the last band the products of its own first
// groups are made once more, for nothing.
func (g *gen) band(l layout) {
	g.function("band"+l.name, bandSignature,
		fmt.Sprintf("multiplies bands of %d rows of activations with steps of a %s panel taken apart.", bandRows, l.name))
	b := g.newBanding(l)
	dst, earlier, bands := g.arg("dst"), g.arg("sums"), g.arg("bands")
	g.Load(g.Param("prefetch"), b.prefetchAt)
	g.MOVQ(b.prefetchAt, b.target)
	g.Load(g.Param("act"), nowAct)
	g.Load(g.Param("codes"), nowCodes)
	nextBand := g.GP64()
	g.MOVQ(nowAct, nextBand)
	b.start()
	g.loop(bands, func() {
		b.nextBand(bands, nextBand)
		b.startSums(earlier)
		g.ADDQ(operand.U32(bandRows*sumsBytes), earlier)
		b.steps(g.arg("steps"), nextBand)
		b.finishBand(dst, g.arg("dstStride"))
	})
	g.tileRelease()
	g.finish()
}

// start fills the stages.
func (b *banding) start() {
	for _, group := range []int{0, 1} {
		for _, op := range b.multiply(group, group, nowAct, nowCodes) {
			op()
		}
	}
	for _, op := range b.storeDots(0) {
		op()
	}
}

// steps computes as many steps of a band as are left.
func (b *banding) steps(left, nextBand reg.GPVirtual) {
	b.loop(left, func() {
		b.nextStep(left, nextBand)
		b.step()
		b.MOVQ(nextAct, nowAct)
		b.MOVQ(nextCodes, nowCodes)
	})
}

// finishBand writes the sums and moves dst past them.
func (b *banding) finishBand(dst, stride reg.GPVirtual) {
	for r := range len(b.sums) / 2 {
		b.VMOVUPS(b.sums[2*r], mem(dst, 0))
		b.VMOVUPS(b.sums[2*r+1], mem(dst, 64))
		b.ADDQ(stride, dst)
	}
}

// nextBand moves on to the band after the one that it points at, unless that is the last.
func (b *banding) nextBand(bands, band reg.GPVirtual) {
	after := b.GP64()
	b.Load(b.Param("actStride"), after)
	b.ADDQ(band, after)
	b.CMPQ(bands, operand.U8(1))
	b.CMOVQNE(after, band)
}

// nextStep points at the step after this one, which may be the first of the next band.
func (b *banding) nextStep(left, nextBand reg.GPVirtual) {
	first := b.arg("codes")
	b.LEAQ(operand.Mem{Base: nowAct, Disp: bandRows * (lineBytes + tailBytes)}, nextAct)
	b.LEAQ(operand.Mem{Base: nowCodes, Disp: b.bandStep()}, nextCodes)
	b.CMPQ(left, operand.U8(1))
	b.CMOVQEQ(nextBand, nextAct)
	b.CMOVQEQ(first, nextCodes)
}

// step computes one step. What tiles do and asking for memory are spread
// between the rows that are scaled.
func (b *banding) step() {
	groups := 64 / b.group
	for _, p := range b.all() {
		var ops []func()
		if then := p.index + 2; then < groups {
			ops = b.multiply(then, then%2, nowAct, nowCodes)
		} else {
			ops = b.multiply(then-groups, then%2, nextAct, nextCodes)
		}
		ops = append(ops, b.storeDots((p.index+1)%2)...)
		b.scale(p, func(slot int) {
			emitPart(ops, slot, 2*bandRows)
			if slot%(groups*bandRows) == 0 {
				b.prefetchNext()
			}
		})
	}
}

// prefetchNext moves target on and asks for memory up to there, in four streams of
// prefetchStride bytes. It has four places in a step.
func (b *banding) prefetchNext() {
	b.labels++
	head, end := fmt.Sprintf("ask%d", b.labels), fmt.Sprintf("asked%d", b.labels)
	step, err := b.Param("prefetchStep").Resolve()
	if err != nil {
		panic(err)
	}
	b.ADDQ(step.Addr, b.target)
	b.CMPQ(b.prefetchAt, b.target)
	b.JGE(operand.LabelRef(end))
	stride := b.arg("prefetchStride")
	b.Label(head)
	b.PREFETCHT0(mem(b.prefetchAt, 0))
	b.PREFETCHT0(operand.Mem{Base: b.prefetchAt, Index: stride, Scale: 1})
	third := b.GP64()
	b.LEAQ(operand.Mem{Base: b.prefetchAt, Index: stride, Scale: 2}, third)
	b.PREFETCHT0(mem(third, 0))
	b.PREFETCHT0(operand.Mem{Base: third, Index: stride, Scale: 1})
	b.ADDQ(operand.I8(64), b.prefetchAt)
	b.CMPQ(b.prefetchAt, b.target)
	b.JLT(operand.LabelRef(head))
	b.Label(end)
}

// emitPart does the share of ops that belongs to one of so many slots.
func emitPart(ops []func(), slot, slots int) {
	for _, op := range ops[slot*len(ops)/slots : (slot+1)*len(ops)/slots] {
		op()
	}
}

// startSums takes up the sums of earlier steps, or zeros.
func (b *banding) startSums(earlier reg.GPVirtual) {
	b.labels++
	fresh, end := fmt.Sprintf("fresh%d", b.labels), fmt.Sprintf("started%d", b.labels)
	more := b.arg("more")
	b.TESTQ(more, more)
	b.JZ(operand.LabelRef(fresh))
	for i, s := range b.sums {
		b.VMOVUPS(mem(earlier, i*64), s)
	}
	b.JMP(operand.LabelRef(end))
	b.Label(fresh)
	b.zero(b.sums...)
	b.Label(end)
}

// multiply forms the products of a group in a pair of tiles: 0 and 1, or 2 and
// 3, with the activations in 4 or 5 and the codes in 6 and 7.
//
// The integer sums start at the bits of the float32 1.5·2^23: as long as they
// stay below 2^22, which 32 products of signed bytes do, their bits are those of
// 1.5·2^23 + sum, and a subtraction makes a float32 of them, exactly. While
// tiles multiply, one of the two ports for wide instructions only adds: it does
// subtractions beside the other's multiplications, but not conversions.
func (b *banding) multiply(group, pair int, act, codes reg.GPPhysical) []func() {
	c, a := tile(2*pair), tile(4+pair)
	at := group * b.group / 4 * lineBytes
	magic := tileMem{dotsBase, noIndex, magicAt - dotsAt}
	return []func(){
		func() { b.tileLoad(a, tileMem{act, line, group * b.group}) },
		func() { b.tileLoad(6, tileMem{codes, line, at}) },
		func() { b.tileLoad(7, tileMem{codes, line, plainSide + at}) },
		func() { b.tileLoad(c, magic) },
		func() { b.tileLoad(c+1, magic) },
		func() { b.tileDot(c, a, 6) },
		func() { b.tileDot(c+1, a, 7) },
	}
}

// dots is where the integer sums of a pair's tile lie.
func (b *banding) dots(pair, side int) int { return pair*dotsBytes + side*bandRows*lineBytes }

// storeDots writes a pair of tiles to its buffer.
func (b *banding) storeDots(pair int) (ops []func()) {
	for side := range 2 {
		ops = append(ops, func() {
			b.tileStore(tileMem{dotsBase, line, b.dots(pair, side)}, tile(2*pair+side))
		})
	}
	return ops
}

// scale adds a group's integer sums, times their scales, to the sums: what
// scaleDots computes. The negative of a sum is subtracted, since only the
// second operand of a subtraction can be in memory.
func (b *banding) scale(p group, between func(slot int)) {
	scales := plainCodes + p.index*sumsBytes
	scale := []reg.VecVirtual{b.load(mem(nowCodes, scales)), b.load(mem(nowCodes, scales+64))}
	for r := range bandRows {
		d := b.vec()
		b.VBROADCASTSS(mem(nowAct, bandRows*lineBytes+r*tailBytes+4*p.block), d)
		for side := range 2 {
			between(2*r + side)
			t, dots := b.vec(), b.vec()
			b.VMULPS(d, scale[side], t)
			b.VSUBPS(mem(dotsBase, b.dots(p.index%2, side)+r*lineBytes), b.magic, dots)
			b.VFNMADD231PS(t, dots, b.sums[2*r+side])
		}
		b.subtractMinima(p, mem(nowAct, bandRows*lineBytes+r*tailBytes+tailSum+4*p.block), nowCodes, r)
	}
}

// subtractMinima subtracts a group's minima, times scale·Σcodes of row r, where the layout has any.
func (b *banding) subtractMinima(p group, sumAt operand.Mem, codes reg.Register, r int) {
	if !b.mins {
		return
	}
	low, sum := plainCodes+(64/b.group+p.index)*sumsBytes, b.vec()
	b.VBROADCASTSS(sumAt, sum)
	for side := range 2 {
		b.VFNMADD231PS(mem(codes, low+side*64), sum, b.sums[2*r+side])
	}
}
