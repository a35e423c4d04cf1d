package cpu

import (
	"math"

	"corenode/engine/kernel"
)

// vectorParallel is the number of values from which element-wise operations
// run on all threads.
const vectorParallel = 32 << 10

// eachRow calls f for every row of n·d values, on all threads when it pays.
func (b *Backend) eachRow(n, d int, f func(row int)) {
	if n*d < vectorParallel || n == 1 {
		for i := range n {
			f(i)
		}
		return
	}
	units := min(n, 8*b.Threads())
	b.pool.run(units, taskFunc(func(_, u int) {
		for i := u * n / units; i < (u+1)*n/units; i++ {
			f(i)
		}
	}))
}

// AddBias implements kernel.Backend.
func (b *Backend) AddBias(x, bias kernel.Buffer, n, d int) {
	v, w := floats(x, n*d), floats(bias, d)
	b.eachRow(n, d, func(i int) { b.addRow(v[i*d:(i+1)*d], w) })
}

// addRow is x += y.
func (b *Backend) addRow(x, y []float32) {
	body := len(x) &^ 15
	b.ops.add(ptr(x), ptr(y), body)
	for i := body; i < len(x); i++ {
		x[i] += y[i]
	}
}

// Add implements kernel.Backend.
func (b *Backend) Add(x, delta kernel.Buffer, n, d int) {
	v, w := floats(x, n*d), floats(delta, n*d)
	b.eachRow(n, d, func(i int) { b.addRow(v[i*d:(i+1)*d], w[i*d:(i+1)*d]) })
}

// RMSNorm implements kernel.Backend.
func (b *Backend) RMSNorm(dst, x, w kernel.Buffer, n, d int, eps float32) {
	out, in, weights := floats(dst, n*d), floats(x, n*d), floats(w, d)
	b.eachRow(n, d, func(i int) { b.normRow(out[i*d:(i+1)*d], in[i*d:(i+1)*d], weights, eps) })
}

// AddRMSNorm implements kernel.Backend.
func (b *Backend) AddRMSNorm(dst, x, delta, w kernel.Buffer, n, d int, eps float32) {
	out, sum, add, weights := floats(dst, n*d), floats(x, n*d), floats(delta, n*d), floats(w, d)
	b.eachRow(n, d, func(i int) {
		row := sum[i*d : (i+1)*d]
		b.addRow(row, add[i*d:(i+1)*d])
		b.normRow(out[i*d:(i+1)*d], row, weights, eps)
	})
}

// sumSquares is Σx², any length.
func (b *Backend) sumSquares(x []float32) float32 {
	body := len(x) &^ 15
	sum := b.ops.sumSquares(ptr(x), body)
	for _, v := range x[body:] {
		sum += v * v
	}
	return sum
}

// normRow writes x·rsqrt(mean(x²)+eps)·w; dst may be x.
func (b *Backend) normRow(dst, x, w []float32, eps float32) {
	scale := float32(1 / math.Sqrt(float64(b.sumSquares(x))/float64(len(x))+float64(eps)))
	b.scaleMul(dst, x, w, scale)
}

// scaleMul is dst = x·scale·w, any length.
func (b *Backend) scaleMul(dst, x, w []float32, scale float32) {
	body := len(x) &^ 15
	b.ops.scaleMul(ptr(dst), ptr(x), ptr(w), scale, body)
	for i := body; i < len(x); i++ {
		dst[i] = x[i] * scale * w[i]
	}
}

// SiLUMul implements kernel.Backend.
func (b *Backend) SiLUMul(dst, gate, up kernel.Buffer, n, d int) {
	out, g, u := floats(dst, n*d), floats(gate, n*d), floats(up, n*d)
	b.eachRow(n, d, func(i int) { b.siluMulRow(out[i*d:(i+1)*d], g[i*d:(i+1)*d], u[i*d:(i+1)*d]) })
}

// siluMulRow is dst = silu(gate)·up; dst may be one of the others. The last
// elements go through a padded copy, so that an element's result does not
// depend on where it lies.
func (b *Backend) siluMulRow(dst, gate, up []float32) {
	body := len(dst) &^ 15
	b.ops.siluMul(ptr(dst), ptr(gate), ptr(up), body)
	if body < len(dst) {
		var g, u [16]float32
		copy(g[:], gate[body:])
		copy(u[:], up[body:])
		b.ops.siluMul(&g[0], &g[0], &u[0], 16)
		copy(dst[body:], g[:])
	}
}

// SigmoidMul implements kernel.Backend.
func (b *Backend) SigmoidMul(x, gate kernel.Buffer, n, d int) {
	v, g := floats(x, n*d), floats(gate, n*d)
	b.eachRow(n, d, func(i int) { b.sigmoidMulRow(v[i*d:(i+1)*d], g[i*d:(i+1)*d]) })
}

// sigmoidMulRow is x *= sigmoid(gate), any length.
func (b *Backend) sigmoidMulRow(x, gate []float32) {
	body := len(x) &^ 15
	b.ops.sigmoidMul(ptr(x), ptr(gate), body)
	if body < len(x) {
		var v, g [16]float32
		copy(v[:], x[body:])
		copy(g[:], gate[body:])
		b.ops.sigmoidMul(&v[0], &g[0], 16)
		copy(x[body:], v[:])
	}
}

// siluRow is x = silu(x), any length.
func (b *Backend) siluRow(x []float32) {
	body := len(x) &^ 15
	b.ops.silu(ptr(x), body)
	if body < len(x) {
		var v [16]float32
		copy(v[:], x[body:])
		b.ops.silu(&v[0], 16)
		copy(x[body:], v[:])
	}
}

// AddScaled implements kernel.Backend.
func (b *Backend) AddScaled(x, y, gate kernel.Buffer, n, d int) {
	v, w, g := floats(x, n*d), floats(y, n*d), floats(gate, n)
	b.eachRow(n, d, func(i int) { b.addScaledRow(v[i*d:(i+1)*d], w[i*d:(i+1)*d], sigmoid32(g[i])) })
}

// addScaledRow is x += scale·y.
func (b *Backend) addScaledRow(x, y []float32, scale float32) {
	body := len(x) &^ 15
	b.ops.addScaled(ptr(x), ptr(y), scale, body)
	for i := body; i < len(x); i++ {
		x[i] += scale * y[i]
	}
}

// SplitHeads implements kernel.Backend.
func (b *Backend) SplitHeads(first, second, x kernel.Buffer, n, heads, d int) {
	u, v, in := floats(first, n*heads*d), floats(second, n*heads*d), floats(x, 2*n*heads*d)
	for i := range n * heads {
		copy(u[i*d:(i+1)*d], in[2*i*d:])
		copy(v[i*d:(i+1)*d], in[(2*i+1)*d:])
	}
}

// RopeAngles implements kernel.Backend.
func (*Backend) RopeAngles(dst kernel.Buffer, step *kernel.Step, invFreq []float64) {
	half := len(invFreq)
	out := floats(dst, step.Rows*2*half)
	for _, s := range step.Spans {
		for i := range s.Len {
			row := out[(s.Row+i)*2*half : (s.Row+i+1)*2*half]
			for j, f := range invFreq {
				sin, cos := math.Sincos(float64(s.Pos+i) * f)
				row[j], row[half+j] = float32(cos), float32(sin)
			}
		}
	}
}

// Rope implements kernel.Backend.
func (b *Backend) Rope(x, angles kernel.Buffer, n, heads, headDim, half int, neox bool) {
	width := heads * headDim
	v, a := floats(x, n*width), floats(angles, n*2*half)
	b.eachRow(n, width, func(i int) {
		cos, sin := a[i*2*half:(2*i+1)*half], a[(2*i+1)*half:(2*i+2)*half]
		for h := range heads {
			head := v[i*width+h*headDim : i*width+(h+1)*headDim]
			switch {
			case !neox:
				rotatePairs(head, cos, sin)
			case half%16 == 0:
				b.ops.rotate(&head[0], &head[half], &cos[0], &sin[0], half)
			default:
				rotateGo(&head[0], &head[half], &cos[0], &sin[0], half)
			}
		}
	})
}

// rotatePairs turns the pairs (2j, 2j+1).
func rotatePairs(head, cos, sin []float32) {
	for j, c := range cos {
		u, v := head[2*j], head[2*j+1]
		head[2*j], head[2*j+1] = u*c-v*sin[j], u*sin[j]+v*c
	}
}
