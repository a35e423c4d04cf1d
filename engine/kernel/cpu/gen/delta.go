package main

import (
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// delta emits one token of the gated delta rule for 16 columns of a state. dk
// is a multiple of 4: four partial sums hide the latency of the adds.
func (g *gen) delta() {
	g.function("delta", "func(state, k, q *float32, dk int, v *float32, decay, beta float32, out, next *float32)",
		"advances 16 columns of a state by one token and fetches the columns at next.")
	prefetch := g.arg("next")
	restore := g.flushTiny()
	for part := range 16 / g.lanes() {
		at := part * g.lanes() * 4
		decay, beta := g.scalar("decay"), g.scalar("beta")
		sums := g.vecs(4)
		g.zero(sums...)
		g.eachState(func(i int, state, k, _ reg.Register) {
			g.prefetchLine(prefetch, part, i)
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
			g.prefetchLine(prefetch, part, i)
			s := g.vec()
			g.VMULPS(mem(state, i*64+at), decay, s)
			g.fmaBroadcast(mem(k, i*4), change, s)
			g.VMOVUPS(s, mem(state, i*64+at))
			g.fmaBroadcast(mem(q, i*4), s, outs[i])
		})
		g.addUp(outs)
		g.VMOVUPS(outs[0], mem(g.arg("out"), at))
	}
	restore()
	g.finish()
}

// prefetchLine fetches a line for every other row that the two walks of the first
// part pass, so that memory is never idle.
func (g *gen) prefetchLine(prefetch reg.GPVirtual, part, i int) {
	if part == 0 && i%2 == 0 {
		g.PREFETCHT0(mem(prefetch, 0))
		g.ADDQ(operand.I8(64), prefetch)
	}
}

// flushTiny makes numbers below the normal ones zero until the code that it
// returns is emitted: decays reach them, and they take a hundred times longer.
func (g *gen) flushTiny() (restore func()) {
	saved, flushing := g.AllocLocal(8), operand.Mem{}
	flushing = saved.Offset(4)
	g.STMXCSR(saved)
	mode := g.GP32()
	g.MOVL(saved, mode)
	g.ORL(operand.U32(0x8040), mode) // results and operands
	g.MOVL(mode, flushing)
	g.LDMXCSR(flushing)
	return func() { g.LDMXCSR(saved) }
}

// deltaParts emits what the delta rule needs around its matrices.
func (g *gen) deltaParts() {
	g.convolve()
	g.gates()
	g.decayRow()
	g.expRow()
	g.scaleRow()
	g.gatedNorm()
}

// convolve emits one row of a causal convolution of four taps.
func (g *gen) convolve() {
	g.function("convolve", "func(dst *float32, in **float32, w *float32, wRow, prefetch, n int)",
		"writes silu(Σ in[tap]·w[tap]) of n channels and fetches what lies prefetch bytes after the last tap; "+
			"in is four pointers, the taps of w lie wRow bytes apart.")
	in, w, row, prefetch := g.arg("in"), g.arg("w"), g.arg("wRow"), g.arg("prefetch")
	x := []reg.Register{}
	for i := range 4 {
		p := g.GP64()
		g.MOVQ(mem(in, 8*i), p)
		x = append(x, p)
	}
	taps := g.rowAddresses(w, row, 4)
	g.elements([]string{"dst"}, func(p []reg.Register) {
		sum, gate := g.vec(), g.vec()
		g.PREFETCHT0(operand.Mem{Base: x[3], Index: prefetch, Scale: 1})
		v := g.load(mem(x[0], 0))
		g.VMULPS(taps[0], v, sum)
		for i := 1; i < 4; i++ {
			v := g.load(mem(x[i], 0))
			g.VFMADD231PS(taps[i], v, sum)
		}
		g.VMOVUPS(sum, gate)
		g.sigmoid(gate)
		g.VMULPS(gate, sum, sum)
		g.VMOVUPS(sum, mem(p[0], 0))
		for _, r := range append(x, w) {
			g.ADDQ(operand.I8(int8(4*g.lanes())), r)
		}
	})
	g.finish()
}

// gates emits the gates of a V head: softplus(x) is max(x, 0) + ln(1+u), u = e^-|x|,
// and ln(1+u) = 2 artanh(u/(2+u)) by its series, whose argument is at most 1/3.
func (g *gen) gates() {
	g.function("gates", "func(log, decay, beta *float32, a, bias float32, n int)",
		"turns log = alpha into a·softplus(alpha+bias), decay is its e^; beta becomes sigmoid(beta).")
	a, bias := g.scalar("a"), g.scalar("bias")
	g.elements([]string{"log", "decay", "beta"}, func(p []reg.Register) {
		x, u := g.load(mem(p[0], 0)), g.vec()
		g.VADDPS(bias, x, x)
		g.VMOVUPS(x, u)
		g.and(g.c("abs"), u)
		g.xor(g.c("sign"), u)
		g.exp(u)
		s, s2, sum := g.vec(), g.vec(), g.vec()
		g.VADDPS(g.c("two"), u, s)
		g.VDIVPS(s, u, s)
		g.VMULPS(s, s, s2)
		g.VMOVUPS(g.c("thirteenth"), sum)
		for _, c := range []string{"eleventh", "ninth", "seventh", "fifth", "third", "one"} {
			g.VFMADD213PS(g.c(c), s2, sum)
		}
		g.VMULPS(s, sum, sum)
		g.VADDPS(sum, sum, sum)
		zero := g.vec()
		g.zero(zero)
		g.VMAXPS(zero, x, x)
		g.VADDPS(sum, x, x)
		g.VMULPS(a, x, x)
		g.VMOVUPS(x, mem(p[0], 0))
		g.exp(x)
		g.VMOVUPS(x, mem(p[1], 0))
		b := g.load(mem(p[2], 0))
		g.sigmoid(b)
		g.VMOVUPS(b, mem(p[2], 0))
	})
	g.finish()
}

// decayRow emits one row of the two decayed matrices of a chunk.
func (g *gen) decayRow() {
	g.function("decayRow", "func(read, change, qk, kk, high, low *float32, topHigh, topLow, factor float32, n int)",
		"writes read = qk·e and change = factor·kk·e, e = e^(top - sum), the sums in two parts.")
	restore := g.flushTiny()
	topHigh, topLow, factor := g.scalar("topHigh"), g.scalar("topLow"), g.scalar("factor")
	g.elements([]string{"read", "change", "qk", "kk", "high", "low"}, func(p []reg.Register) {
		e, low := g.vec(), g.vec()
		g.VSUBPS(mem(p[4], 0), topHigh, e)
		g.VSUBPS(mem(p[5], 0), topLow, low)
		g.VADDPS(low, e, e)
		g.exp(e)
		v := g.vec()
		g.VMULPS(mem(p[2], 0), e, v)
		g.VMOVUPS(v, mem(p[0], 0))
		g.VMULPS(mem(p[3], 0), e, e)
		g.VMULPS(factor, e, e)
		g.VMOVUPS(e, mem(p[1], 0))
	})
	restore()
	g.finish()
}

// gatedNorm emits the norm and the gate of a head's output.
func (g *gen) gatedNorm() {
	g.function("gatedNorm", "func(dst, o, z, w *float32, eps float32, prefetch, n int)",
		"writes o·rsqrt(mean(o²)+eps)·w·silu(z) and fetches what lies prefetch bytes after z; dst may be o.")
	sum := g.vec()
	g.zero(sum)
	g.elements([]string{"o"}, func(p []reg.Register) {
		x := g.load(mem(p[0], 0))
		g.VFMADD231PS(x, x, sum)
	})
	total, count := g.fold(sum, g.addPS), g.XMM()
	g.VXORPS(count, count, count)
	g.VCVTSI2SSQ(g.arg("n"), count, count)
	g.VDIVSS(count, total, total)
	g.VADDSS(g.address(g.Param("eps")), total, total)
	g.VSQRTSS(total, total, total)
	one, scale := g.XMM(), g.vec()
	g.VMOVSS(g.c("one"), one)
	g.VDIVSS(total, one, one)
	g.VBROADCASTSS(one, scale)
	prefetch := g.arg("prefetch")
	g.elements([]string{"dst", "o", "z", "w"}, func(p []reg.Register) {
		g.PREFETCHT0(operand.Mem{Base: p[2], Index: prefetch, Scale: 1})
		v, x := g.load(mem(p[2], 0)), g.vec()
		g.VMULPS(mem(p[1], 0), scale, x)
		g.VMULPS(mem(p[3], 0), x, x)
		g.sigmoid(v)
		g.VMULPS(mem(p[2], 0), v, v)
		g.VMULPS(x, v, v)
		g.VMOVUPS(v, mem(p[0], 0))
	})
	g.finish()
}

func (g *gen) expRow() {
	g.function("exp", "func(x *float32, n int)", "replaces x by e^x.")
	g.elements([]string{"x"}, func(p []reg.Register) {
		v := g.load(mem(p[0], 0))
		g.exp(v)
		g.VMOVUPS(v, mem(p[0], 0))
	})
	g.finish()
}

func (g *gen) scaleRow() {
	g.function("scale", "func(dst, x *float32, scale float32, n int)", "writes x·scale.")
	scale := g.scalar("scale")
	g.elements([]string{"dst", "x"}, func(p []reg.Register) {
		v := g.vec()
		g.VMULPS(mem(p[1], 0), scale, v)
		g.VMOVUPS(v, mem(p[0], 0))
	})
	g.finish()
}

// scalar is a float parameter in every lane. avo's Load would take a legacy SSE
// instruction, which costs 200 ns once a wide register was written.
func (g *gen) scalar(name string) reg.VecVirtual {
	v := g.vec()
	g.VBROADCASTSS(g.address(g.Param(name)), v)
	return v
}

// address is where a parameter or result lies.
func (g *gen) address(c gotypes.Component) operand.Mem {
	b, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
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
