package cpu

import (
	"math"
	"unsafe"
)

// productGo defines product; every level sums in the same order.
func productGo(b *byte) { (*product)(unsafe.Pointer(b)).run(false) }

// solveGo defines solve.
func solveGo(b *byte) { (*product)(unsafe.Pointer(b)).run(true) }

// run is a product, or its solution.
func (p *product) run(solve bool) {
	at := func(f *float32, bytes int) *[16]float32 { return (*[16]float32)(unsafe.Add(unsafe.Pointer(f), bytes)) }
	one := func(f *float32, bytes int) float32 { return *(*float32)(unsafe.Add(unsafe.Pointer(f), bytes)) }
	for row := range 8 * p.tiles {
		n := p.n + row/8*p.nStep
		if solve {
			n = row
		}
		for block := range 2 {
			sum := *at(p.init, row*p.initRow+block*p.initBlock)
			if !solve {
				f := one(p.scale, row*p.scaleStep)
				for c := range sum {
					sum[c] *= f
				}
			}
			for j := range n {
				f, x := one(p.a, row*p.aRow+j*p.aCol), at(p.x, block*p.xBlock+64*j)
				for c := range sum {
					sum[c] += f * x[c]
				}
			}
			*at(p.dst, row*p.dstRow+block*p.dstBlock) = sum
		}
	}
}

// transposeGo writes n columns of 16 rows as dst[n][16].
func transposeGo(dst, x *float32, row, n int) {
	out := unsafe.Slice(dst, 16*n)
	for i := range 16 {
		for j, v := range unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(x), i*row)), n) {
			out[j*16+i] = v
		}
	}
}

// convolveGo is one row of a causal convolution of four taps, with SiLU.
func convolveGo(dst *float32, in **float32, w *float32, wRow, _, n int) {
	out, x := unsafe.Slice(dst, n), unsafe.Slice(in, 4)
	clear(out)
	for tap := range x {
		taps := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(w), tap*wRow)), n)
		for ch, v := range unsafe.Slice(x[tap], n) {
			out[ch] += v * taps[ch]
		}
	}
	siluGo(dst, n)
}

// gatesGo turns log = alpha into a·softplus(alpha+bias), decay into its e^, beta into its sigmoid.
func gatesGo(log, decay, beta *float32, a, bias float32, n int) {
	logs, decays, betas := unsafe.Slice(log, n), unsafe.Slice(decay, n), unsafe.Slice(beta, n)
	for i, alpha := range logs {
		x := float64(alpha) + float64(bias)
		softplus := max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
		logs[i] = float32(float64(a) * softplus)
		decays[i] = exp32(logs[i])
		betas[i] = sigmoid32(betas[i])
	}
}

// decayRowGo writes one row of the two decayed matrices of a chunk.
func decayRowGo(read, change, qk, kk, high, low *float32, topHigh, topLow, factor float32, n int) {
	reads, changes, qks, kks := unsafe.Slice(read, n), unsafe.Slice(change, n), unsafe.Slice(qk, n), unsafe.Slice(kk, n)
	lows := unsafe.Slice(low, n)
	for j, h := range unsafe.Slice(high, n) {
		e := exp32(topHigh - h + (topLow - lows[j]))
		reads[j], changes[j] = qks[j]*e, factor*(kks[j]*e)
	}
}

// gatedNormGo writes o·rsqrt(mean(o²)+eps)·w·silu(z).
func gatedNormGo(dst, o, z, w *float32, eps float32, _, n int) {
	scale := float32(1 / math.Sqrt(float64(sumSquaresGo(o, n))/float64(n)+float64(eps)))
	scaleMulGo(dst, o, w, scale, n)
	siluMulGo(dst, z, dst, n)
}

func expGo(x *float32, n int) {
	v := unsafe.Slice(x, n)
	for i, f := range v {
		v[i] = exp32(f)
	}
}

func scaleGo(dst, x *float32, scale float32, n int) {
	out := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(x, n) {
		out[i] = v * scale
	}
}
