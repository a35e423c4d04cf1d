package main

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	// scoreBytes is one query's row of scores: a range of 512, and a line more,
	// for scratch, and so that rows do not fall into the same sets of the cache.
	scoreBytes = rangeBytes + 64
	rangeBytes = 512 * 4
	// prefetchTiles is how many tiles lie between the one that is read and the one that
	// memory is asked for.
	prefetchTiles = 8
	// codeBlock is how many codes of 8-bit KV share a scale.
	codeBlock = 32
)

// kvType is a type that K and V are stored in.
type kvType struct {
	name  string
	size  int  // bytes of an element
	coded bool // elements are codes: the scale of their block comes after
}

// attention emits scores and values for all KV types and query tiles. Wide is
// codes as float32: what many queries read is converted once.
func (g *gen) attention() {
	half, float, code, wide := kvType{"Half", 2, false}, kvType{"Float", 4, false}, kvType{"Code", 1, true}, kvType{"Wide", 4, true}
	for _, queries := range []int{1, 2, 4, 8, 12} {
		for _, t := range []kvType{half, float, code} {
			g.scores(queries, t)
			g.values(queries, t)
		}
	}
	g.scores(12, wide)
	g.wideValues(12)
	g.weigh(12)
	for _, t := range []kvType{half, float, code} {
		g.widen(t)
	}
	g.foldRange()
	g.encodeKV()
}

// loadKV loads lanes() elements as float32, codes without their scale.
func (g *gen) loadKV(t kvType, m operand.Mem, v reg.VecVirtual) {
	switch {
	case t.size == 1:
		g.VPMOVSXBD(m, v)
		g.VCVTDQ2PS(v, v)
	case t.size == 2:
		g.loadHalves(m, v)
	default:
		g.VMOVUPS(m, v)
	}
}

// local is a parameter moved to the stack, where it can change and takes no register.
func (g *gen) local(name string) operand.Mem {
	m := g.AllocLocal(8)
	g.MOVQ(g.arg(name), m)
	return m
}

// moved is a register with the value of src.
func (g *gen) moved(src operand.Op) reg.GPVirtual {
	r := g.GP64()
	g.MOVQ(src, r)
	return r
}

// matrixRows are pointers into a matrix, of every third row: with the distance
// of rows as an index of scale 0, 1 or 2 they reach all.
type matrixRows struct {
	third  []reg.GPVirtual
	stride reg.GPVirtual
}

// rowsFrom points at count rows from first on.
func (g *gen) rowsFrom(first, stride reg.GPVirtual, count int) matrixRows {
	r := matrixRows{[]reg.GPVirtual{first}, stride}
	for at := 3; at < count; at += 3 {
		next := g.GP64()
		g.LEAQ(operand.Mem{Base: r.third[len(r.third)-1], Index: stride, Scale: 2}, next)
		g.ADDQ(stride, next)
		r.third = append(r.third, next)
	}
	return r
}

func (r matrixRows) mem(row, at int) operand.Mem {
	m := mem(r.third[row/3], at)
	if row%3 > 0 {
		m.Index, m.Scale = r.stride, uint8(row%3)
	}
	return m
}

// scoreShape is how many tiles are computed at once, and how many registers of
// each: as many sums as hide the latency of a multiplication and leave room.
func (g *gen) scoreShape(queries int) (tiles, parts int) {
	switch {
	case g.wide && queries <= 4:
		return 4, 1
	case g.wide:
		return 2, 1
	case queries <= 2:
		return 2, 2
	case queries == 4:
		return 1, 2
	}
	return 1, 1
}

// scoreTiles is the state of one group of tiles in scores.
type scoreTiles struct {
	kv          kvType
	part, parts int             // registers of each tile that are computed: the first, how many
	k, ask      []reg.GPVirtual // where reading is; where memory is asked for, none if it was
	q           matrixRows
	sums        [][]reg.VecVirtual // [query][tile and part]
}

// scores emits dst[query][tile·16...] = q · K.
func (g *gen) scores(queries int, kv kvType) {
	g.function(fmt.Sprintf("scores%sQueries%d", kv.name, queries), "func(dst, q *float32, tiles **byte, count, d int)",
		fmt.Sprintf("computes the scores of %d queries against tiles of K.", queries))
	n, parts := g.scoreShape(queries)
	dst, list, count := g.local("dst"), g.local("tiles"), g.local("count")
	stride := g.arg("d")
	g.SHLQ(operand.U8(2), stride)
	g.SHRQ(operand.U8(uint8(bits.TrailingZeros(uint(n)))), count)
	g.whilePositive(count, func() {
		for part := 0; part < 16/g.lanes(); part += parts {
			s := scoreTiles{kv: kv, part: part, parts: parts}
			at := g.moved(list)
			for i := range n {
				s.k = append(s.k, g.moved(mem(at, 8*i)))
				if part == 0 {
					s.ask = append(s.ask, g.moved(mem(at, 8*(i+prefetchTiles))))
				}
			}
			s.q = g.rowsFrom(g.arg("q"), stride, queries)
			for range queries {
				s.sums = append(s.sums, g.vecs(n*parts))
			}
			if kv.coded {
				g.scoreCodes(s, dst)
			} else {
				g.scoreFloats(s, dst)
			}
		}
		g.ADDQ(operand.I8(int8(8*n)), list)
		g.ADDQ(operand.I32(int32(64*n)), dst)
		g.DECQ(count)
	})
	g.finish()
}

// whilePositive runs body while count, in memory, is above zero.
func (g *gen) whilePositive(count operand.Mem, body func()) {
	g.labels++
	head, end := fmt.Sprintf("while%d", g.labels), fmt.Sprintf("done%d", g.labels)
	g.Label(head)
	g.CMPQ(count, operand.I8(0))
	g.JLE(operand.LabelRef(end))
	body()
	g.JMP(operand.LabelRef(head))
	g.Label(end)
}

// each calls f for every register of the group with its place in a row of scores.
func (s scoreTiles) each(lanes int, f func(i, at int)) {
	for i := range s.k {
		for h := range s.parts {
			f(i*s.parts+h, i*64+(s.part+h)*lanes*4)
		}
	}
}

func (g *gen) scoreFloats(s scoreTiles, dst operand.Mem) {
	left := g.arg("d")
	if perLine := 4 / s.kv.size; perLine > 1 {
		g.SHRQ(operand.U8(uint8(bits.TrailingZeros(uint(perLine)))), left)
	}
	for _, sums := range s.sums {
		g.zero(sums...)
	}
	g.loop(left, func() { g.scoreLine(s) })
	out := g.moved(dst)
	for m, sums := range s.sums {
		s.each(g.lanes(), func(i, at int) { g.VMOVUPS(sums[i], mem(out, m*scoreBytes+at)) })
	}
}

// scoreCodes sums block by block, and scales the sum of each. K is followed by its scales.
func (g *gen) scoreCodes(s scoreTiles, dst operand.Mem) {
	out, zero := g.moved(dst), g.vec()
	g.zero(zero)
	for m := range s.sums {
		s.each(g.lanes(), func(_, at int) { g.VMOVUPS(zero, mem(out, m*scoreBytes+at)) })
	}
	blocks, scales := g.arg("d"), g.arg("d")
	g.SHRQ(operand.U8(5), blocks)
	g.SHLQ(operand.U8(uint8(4+s.kv.size/2)), scales)
	g.SUBQ(operand.I32(int32(16*codeBlock*s.kv.size)), scales) // as seen from the end of the first block
	g.loop(blocks, func() {
		for _, sums := range s.sums {
			g.zero(sums...)
		}
		lines := g.moved(operand.U32(uint32(codeBlock / 4 * s.kv.size)))
		g.loop(lines, func() { g.scoreLine(s) })
		for _, p := range s.ask {
			g.PREFETCHT1(operand.Mem{Base: p, Index: scales, Scale: 1})
		}
		out := g.moved(dst)
		s.each(g.lanes(), func(i, at int) {
			scale := g.vec()
			g.loadHalves(operand.Mem{Base: s.k[i/s.parts], Index: scales, Scale: 1, Disp: (s.part + i%s.parts) * g.lanes() * 2}, scale)
			for m, sums := range s.sums {
				g.VFMADD213PS(mem(out, m*scoreBytes+at), scale, sums[i])
				g.VMOVUPS(sums[i], mem(out, m*scoreBytes+at))
			}
		})
		g.SUBQ(operand.I32(int32(16*codeBlock*s.kv.size-2*16)), scales)
	})
}

// scoreLine adds the columns that lie in one line of each tile.
func (g *gen) scoreLine(s scoreTiles) {
	for _, p := range s.ask {
		g.PREFETCHT1(mem(p, 0))
		g.ADDQ(operand.I8(64), p)
	}
	columns := 4 / s.kv.size
	for j := range columns {
		var k []reg.VecVirtual
		s.each(g.lanes(), func(i, _ int) {
			v := g.vec()
			g.loadKV(s.kv, mem(s.k[i/s.parts], (j*16+(s.part+i%s.parts)*g.lanes())*s.kv.size), v)
			k = append(k, v)
		})
		for m, sums := range s.sums {
			x := g.vec()
			g.VBROADCASTSS(s.q.mem(m, 4*j), x)
			for i, v := range k {
				g.VFMADD231PS(x, v, sums[i])
			}
		}
	}
	for _, p := range s.k {
		g.ADDQ(operand.I8(64), p)
	}
	for _, p := range s.q.third {
		g.ADDQ(operand.I8(int8(4*columns)), p)
	}
}

// valueWidth is how many registers of a row of V are summed at once, at most
// the 32 columns that share a scale.
func (g *gen) valueWidth(queries int) int {
	switch {
	case g.wide:
		return 2
	case queries <= 2:
		return 4
	case queries == 4:
		return 2
	}
	return 1
}

// values emits dst[query][d] += Σ p·V, one tile after the other.
func (g *gen) values(queries int, kv kvType) {
	g.function(fmt.Sprintf("values%sQueries%d", kv.name, queries), "func(dst, p *float32, tiles **byte, count, d int)",
		fmt.Sprintf("adds V, weighted by the probabilities of %d queries.", queries))
	v := valueTile{kv: kv, queries: queries, width: g.valueWidth(queries)}
	list, left := g.local("tiles"), g.local("count")
	v.p, v.count = g.local("p"), g.AllocLocal(8)
	v.stride = g.arg("d")
	g.SHLQ(operand.U8(2), v.stride)
	v.row = g.arg("d")
	if kv.size > 1 {
		g.SHLQ(operand.U8(uint8(kv.size/2)), v.row)
	}
	g.whilePositive(left, func() {
		n, tile := g.moved(operand.U32(16)), g.moved(left)
		g.CMPQ(tile, n)
		g.CMOVQLT(tile, n)
		g.MOVQ(n, v.count)
		at := g.moved(list)
		v.at, v.ask, v.dst = g.moved(mem(at, 0)), g.moved(mem(at, 8*prefetchTiles)), g.arg("dst")
		blocks := g.arg("d")
		if kv.coded {
			v.block = g.moved(v.row)
			g.SHLQ(operand.U8(4), v.block)
		}
		g.SHRQ(operand.U8(5), blocks)
		g.loop(blocks, func() { g.valueBlock(v) })
		g.SUBQ(operand.I8(16), left)
		g.ADDQ(operand.I8(8), list)
		g.ADDQ(operand.I8(64), v.p)
	})
	g.finish()
}

// wideValues emits values for V that was converted: a matrix [count][stride] of
// float32, of which it takes columns.
func (g *gen) wideValues(queries int) {
	g.function("wideValues", "func(dst, p, v *float32, count, columns, stride int)",
		fmt.Sprintf("adds rows of V, weighted by the probabilities of %d queries.", queries))
	v := valueTile{kv: kvType{size: 4}, queries: queries, width: g.valueWidth(queries)}
	v.stride, v.at, v.dst = g.arg("stride"), g.arg("v"), g.arg("dst")
	g.SHLQ(operand.U8(2), v.stride)
	v.row = v.stride
	blocks := g.arg("columns")
	g.SHRQ(operand.U8(5), blocks)
	g.loop(blocks, func() {
		for part := 0; part < 32; part += v.width * g.lanes() {
			at, p := g.moved(v.at), g.arg("p")
			sums := g.loadSums(v, part)
			g.loop(g.arg("count"), func() { g.valuePosition(v, part, at, p, sums) })
			g.storeSums(v, part, sums)
		}
		g.ADDQ(operand.I32(4*32), v.at)
		g.ADDQ(operand.I32(4*32), v.dst)
	})
	g.finish()
}

// weigh emits the product of probabilities and the scales of positions.
func (g *gen) weigh(queries int) {
	g.function("weigh", "func(dst, p, scales *float32, n int)",
		fmt.Sprintf("multiplies the probabilities of %d queries by the scales of n positions.", queries))
	g.elements([]string{"dst", "p", "scales"}, func(p []reg.Register) {
		scale := g.load(mem(p[2], 0))
		for m := range queries {
			x := g.vec()
			g.VMULPS(mem(p[1], m*scoreBytes), scale, x)
			g.VMOVUPS(x, mem(p[0], m*scoreBytes))
		}
	})
	g.finish()
}

// weights points at the probabilities of a tile, or at them times their scales.
func (g *gen) weights(v valueTile) reg.GPVirtual {
	if !v.kv.coded {
		return g.moved(v.p)
	}
	p := g.arg("p")
	g.ADDQ(operand.I32(rangeBytes), p)
	return p
}

// loadSums loads the sums of a part of a block.
func (g *gen) loadSums(v valueTile, part int) (sums [][]reg.VecVirtual) {
	out := g.rowsFrom(g.moved(v.dst), v.stride, v.queries)
	for m := range v.queries {
		sums = append(sums, g.vecs(v.width))
		for c, s := range sums[m] {
			g.VMOVUPS(out.mem(m, 4*(part+c*g.lanes())), s)
		}
	}
	return sums
}

func (g *gen) storeSums(v valueTile, part int, sums [][]reg.VecVirtual) {
	out := g.rowsFrom(g.moved(v.dst), v.stride, v.queries)
	for m, s := range sums {
		for c := range s {
			g.VMOVUPS(s[c], out.mem(m, 4*(part+c*g.lanes())))
		}
	}
}

// valuePosition adds one position and moves on.
func (g *gen) valuePosition(v valueTile, part int, at, p reg.GPVirtual, sums [][]reg.VecVirtual) {
	x := g.vecs(v.width)
	for c := range x {
		g.loadKV(v.kv, mem(at, (part+c*g.lanes())*v.kv.size), x[c])
	}
	for m, s := range sums {
		weight := g.vec()
		g.VBROADCASTSS(mem(p, m*scoreBytes), weight)
		for c := range x {
			g.VFMADD231PS(x[c], weight, s[c])
		}
	}
	g.ADDQ(v.row, at)
	g.ADDQ(operand.I8(4), p)
}

// valueTile is the state of one tile in values.
type valueTile struct {
	kv             kvType
	queries, width int
	p, count       operand.Mem // probabilities at the tile; positions of it that count
	stride, row    reg.GPVirtual
	at, ask, dst   reg.GPVirtual // at the block's columns
	block          reg.GPVirtual // from them to their scales
}

// valueBlock adds 32 columns.
func (g *gen) valueBlock(v valueTile) {
	if v.kv.coded {
		g.scaleProbabilities(v)
	}
	for part := 0; part < 32; part += v.width * g.lanes() {
		at, ask, left, p := g.moved(v.at), g.moved(v.ask), g.moved(v.count), g.weights(v)
		sums := g.loadSums(v, part)
		g.loop(left, func() {
			if part == 0 {
				for line := 0; line < 32*v.kv.size; line += 64 {
					g.PREFETCHT1(mem(ask, line))
				}
				g.ADDQ(v.row, ask)
			}
			g.valuePosition(v, part, at, p, sums)
		})
		g.storeSums(v, part, sums)
	}
	for _, p := range []reg.GPVirtual{v.at, v.ask} {
		g.ADDQ(operand.I32(int32(32*v.kv.size)), p)
	}
	g.ADDQ(operand.I32(4*32), v.dst)
}

// scaleProbabilities multiplies the probabilities of a tile with the block's
// scales, which follow the codes of V as [block][16], into the scratch of each row.
func (g *gen) scaleProbabilities(v valueTile) {
	scales, p, out := g.moved(v.block), g.moved(v.p), g.arg("p")
	g.PREFETCHT1(operand.Mem{Base: v.ask, Index: scales, Scale: 1})
	for part := 0; part < 16; part += g.lanes() {
		scale := g.vec()
		g.loadHalves(operand.Mem{Base: v.at, Index: scales, Scale: 1, Disp: 2 * part}, scale)
		for m := range v.queries {
			x := g.vec()
			g.VMULPS(mem(p, m*scoreBytes+4*part), scale, x)
			g.VMOVUPS(x, mem(out, m*scoreBytes+rangeBytes+4*part))
		}
	}
}

// widen emits the conversion of K or V to float32; codes stay without their scale.
func (g *gen) widen(kv kvType) {
	g.function("widen"+kv.name, "func(dst *float32, src *byte, n int)", "converts n elements of K or V to float32.")
	dst, src := g.arg("dst"), g.arg("src")
	g.loop(g.rounds(), func() {
		v := g.vec()
		g.loadKV(kv, mem(src, 0), v)
		g.VMOVUPS(v, mem(dst, 0))
		g.ADDQ(operand.I8(int8(kv.size*g.lanes())), src)
		g.ADDQ(operand.I8(int8(4*g.lanes())), dst)
	})
	g.finish()
}

// foldRange emits the sum of two ranges of one query.
func (g *gen) foldRange() {
	g.function("fold", "func(sum *float32, stat *[2]float32, next *float32, nextStat *[2]float32, n int)",
		"adds the next range's values to those of the ranges before; stat is a maximum and a sum.")
	stat, other := g.arg("stat"), g.arg("nextStat")
	top, a, b := g.vec(), g.vec(), g.vec()
	g.VBROADCASTSS(mem(stat, 0), a)
	g.VBROADCASTSS(mem(other, 0), b)
	g.VMAXPS(a, b, top)
	g.VSUBPS(top, a, a)
	g.VSUBPS(top, b, b)
	g.exp(a)
	g.exp(b)
	total := g.XMM()
	g.VMULSS(mem(other, 4), b.AsX(), total)
	g.VFMADD231SS(mem(stat, 4), a.AsX(), total)
	g.VMOVSS(top.AsX(), mem(stat, 0))
	g.VMOVSS(total, mem(stat, 4))
	g.elements([]string{"sum", "next"}, func(p []reg.Register) {
		v := g.vec()
		g.VMULPS(mem(p[1], 0), b, v)
		g.VFMADD231PS(mem(p[0], 0), a, v)
		g.VMOVUPS(v, mem(p[0], 0))
	})
	g.finish()
}

// encodeKV emits the 8-bit form of blocks of 32 values.
func (g *gen) encodeKV() {
	g.function("encodeKV", "func(codes *byte, scales *uint16, x *float32, blocks int)",
		"rounds blocks of 32 values to codes, and their scales to float16.")
	codes, scales, x, blocks := g.arg("codes"), g.arg("scales"), g.arg("x"), g.arg("blocks")
	g.loop(blocks, func() {
		v := make([]reg.VecVirtual, 4)
		top := g.YMM()
		g.VPXOR(top, top, top)
		for i := range v {
			v[i] = g.YMM()
			size := g.YMM()
			g.VMOVUPS(mem(x, 32*i), v[i])
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
		c127, inv, used := g.XMM(), g.XMM(), g.XMM()
		g.VMOVSS(g.c("c127"), c127)
		g.VDIVSS(c127, most, most)
		g.VMINSS(g.c("halfmax"), most, most)
		g.VCVTPS2PH(operand.U8(0), most, most)
		g.VPEXTRW(operand.U8(0), most, mem(scales, 0))
		g.VCVTPH2PS(most, most)
		g.VMOVSS(g.c("one"), inv)
		g.VDIVSS(most, inv, inv)
		g.VPXOR(t, t, t)
		g.VCMPSS(operand.U8(4), t, most, used) // a block of zeros has the scale 0
		g.VANDPS(used, inv, inv)
		factor := g.YMM()
		g.VBROADCASTSS(inv, factor)
		for i := range v {
			g.VMULPS(factor, v[i], v[i])
			g.VCVTPS2DQ(v[i], v[i])
		}
		g.VPACKSSDW(v[1], v[0], v[0])
		g.VPACKSSDW(v[3], v[2], v[2])
		g.VPACKSSWB(v[2], v[0], v[0])
		order, packed := g.YMM(), g.YMM()
		g.VMOVDQU(g.c("order"), order)
		g.VPERMD(v[0], order, packed)
		g.VMOVDQU(packed, mem(codes, 0))
		g.ADDQ(operand.I8(32), codes)
		g.ADDQ(operand.I8(2), scales)
		g.ADDQ(operand.I32(128), x)
	})
	g.finish()
}
