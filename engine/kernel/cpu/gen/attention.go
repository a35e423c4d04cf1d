package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rangeBytes is one query's row of scores.
const rangeBytes = 512 * 4

// attention emits scores and values for both KV types and all query tiles.
func (g *gen) attention() {
	for _, queries := range []int{1, 2, 4, 8} {
		for _, half := range []bool{true, false} {
			g.scores(queries, half)
			g.values(queries, half)
		}
	}
}

func kvName(half bool) (string, int) {
	if half {
		return "Half", 2
	}
	return "Float", 4
}

// loadKV loads lanes() elements.
func (g *gen) loadKV(half bool, m operand.Mem, v reg.VecVirtual) {
	if half {
		g.loadHalves(m, v)
	} else {
		g.VMOVUPS(m, v)
	}
}

// scores emits dst[query][tile·16...] = q · K, lanes() positions at a time.
func (g *gen) scores(queries int, half bool) {
	name, size := kvName(half)
	g.function(fmt.Sprintf("scores%sQueries%d", name, queries), "func(dst, q *float32, tiles **byte, count, d int)",
		fmt.Sprintf("computes the scores of %d queries against tiles of K.", queries))
	dst, q, tiles, count, d := g.arg("dst"), g.arg("q"), g.arg("tiles"), g.arg("count"), g.arg("d")
	vBytes := g.GP64() // K is followed by V, which is asked for here and needed next
	g.MOVQ(d, vBytes)
	g.IMUL3Q(operand.U32(uint32(16*size)), vBytes, vBytes)
	g.loop(count, func() {
		for part := range 16 / g.lanes() {
			k, x, left := g.GP64(), g.GP64(), g.GP64()
			g.MOVQ(mem(tiles, 0), k)
			g.MOVQ(q, x)
			g.MOVQ(d, left)
			sums := g.vecs(queries)
			g.zero(sums...)
			g.loop(left, func() {
				if part == 0 {
					g.PREFETCHT1(operand.Mem{Base: k, Index: vBytes, Scale: 1})
				}
				v := g.vec()
				g.loadKV(half, mem(k, part*g.lanes()*size), v)
				for m, s := range sums {
					g.fmaBroadcast(mem(x, m*4), v, s)
				}
				g.ADDQ(operand.I8(16*size), k)
				g.ADDQ(operand.I8(4*queries), x)
			})
			for m, s := range sums {
				g.VMOVUPS(s, mem(dst, m*rangeBytes+part*g.lanes()*4))
			}
		}
		g.ADDQ(operand.I8(8), tiles)
		g.ADDQ(operand.I8(64), dst)
	})
	g.finish()
}

// values emits dst[query][d] = Σ p·V, 16 columns at a time.
func (g *gen) values(queries int, half bool) {
	name, size := kvName(half)
	g.function(fmt.Sprintf("values%sQueries%d", name, queries), "func(dst, p *float32, tiles **byte, count, d, at int)",
		fmt.Sprintf("sums V, weighted by the probabilities of %d queries.", queries))
	dst, d, at := g.arg("dst"), g.arg("d"), g.arg("at")
	stride, chunks := g.GP64(), g.GP64()
	g.MOVQ(d, stride)
	g.SHLQ(operand.U8(2), stride)
	g.MOVQ(d, chunks)
	g.SHRQ(operand.U8(4), chunks)
	g.loop(chunks, func() {
		for part := range 16 / g.lanes() {
			g.valuesPart(queries, half, size, part, at, dst, stride)
		}
		g.ADDQ(operand.I32(16*16*size), at)
		g.ADDQ(operand.I8(64), dst)
	})
	g.finish()
}

// valuesPart sums lanes() columns over all positions.
func (g *gen) valuesPart(queries int, half bool, size, part int, at, dst, stride reg.GPVirtual) {
	p, tiles, left := g.arg("p"), g.arg("tiles"), g.arg("count")
	sums := g.vecs(queries)
	g.zero(sums...)
	g.labels++
	head, end := fmt.Sprintf("tile%d", g.labels), fmt.Sprintf("done%d", g.labels)
	g.Label(head)
	g.TESTQ(left, left)
	g.JLE(operand.LabelRef(end))
	v, n := g.GP64(), g.GP64()
	g.MOVQ(mem(tiles, 0), v)
	g.ADDQ(at, v)
	g.MOVQ(operand.U32(16), n)
	g.CMPQ(left, n)
	g.CMOVQLT(left, n)
	g.loop(n, func() {
		x := g.vec()
		g.loadKV(half, mem(v, part*g.lanes()*size), x)
		for m, s := range sums {
			g.fmaBroadcast(mem(p, m*rangeBytes), x, s)
		}
		g.ADDQ(operand.I8(16*size), v)
		g.ADDQ(operand.I8(4), p)
	})
	g.SUBQ(operand.I8(16), left)
	g.ADDQ(operand.I8(8), tiles)
	g.JMP(operand.LabelRef(head))
	g.Label(end)
	out := g.GP64()
	g.MOVQ(dst, out)
	for _, s := range sums {
		g.VMOVUPS(s, mem(out, part*g.lanes()*4))
		g.ADDQ(stride, out)
	}
}
