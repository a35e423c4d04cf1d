package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// delta emits one token of the gated delta rule for 16 columns of a state. dk
// is a multiple of 4: four partial sums hide the latency of the adds.
func (g *gen) delta() {
	g.function("delta", "func(state, k, q *float32, dk int, v *float32, decay, beta float32, out *float32)",
		"advances 16 columns of a state by one token.")
	for part := range 16 / g.lanes() {
		at := part * g.lanes() * 4
		decay, beta := g.scalar("decay"), g.scalar("beta")
		sums := g.vecs(4)
		g.zero(sums...)
		g.eachState(func(i int, state, k, _ reg.Register) {
			s := g.vec()
			g.VMOVUPS(mem(state, i*64+at), s)
			g.fmaBroadcast(mem(k, i*4), s, sums[i])
		})
		g.addUp(sums)
		change := g.vec()
		g.VMOVUPS(mem(g.arg("v"), at), change)
		g.VFNMADD231PS(sums[0], decay, change)
		g.VMULPS(beta, change, change)
		outs := g.vecs(4)
		g.zero(outs...)
		g.eachState(func(i int, state, k, q reg.Register) {
			s := g.vec()
			g.VMULPS(mem(state, i*64+at), decay, s)
			g.fmaBroadcast(mem(k, i*4), change, s)
			g.VMOVUPS(s, mem(state, i*64+at))
			g.fmaBroadcast(mem(q, i*4), s, outs[i])
		})
		g.addUp(outs)
		g.VMOVUPS(outs[0], mem(g.arg("out"), at))
	}
	g.finish()
}

// scalar is a float parameter in every lane.
func (g *gen) scalar(name string) reg.VecVirtual {
	x, v := g.XMM(), g.vec()
	g.Load(g.Param(name), x)
	g.VBROADCASTSS(x, v)
	return v
}

// eachState walks over the rows of the state, four at a time.
func (g *gen) eachState(body func(i int, state, k, q reg.Register)) {
	state, k, q, left := g.arg("state"), g.arg("k"), g.arg("q"), g.arg("dk")
	g.SHRQ(operand.U8(2), left)
	g.loop(left, func() {
		for i := range 4 {
			body(i, state, k, q)
		}
		g.ADDQ(operand.I32(256), state)
		g.ADDQ(operand.I8(16), k)
		g.ADDQ(operand.I8(16), q)
	})
}

// addUp leaves the sum of four registers in the first.
func (g *gen) addUp(v []reg.VecVirtual) {
	g.VADDPS(v[1], v[0], v[0])
	g.VADDPS(v[3], v[2], v[2])
	g.VADDPS(v[2], v[0], v[0])
}
