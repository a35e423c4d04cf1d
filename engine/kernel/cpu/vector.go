package cpu

import (
	"math"

	"corenode/engine/kernel"
)

// vectorParallel is the number of values from which element-wise operations
// run on all threads.
const vectorParallel = 32 << 10

// rowTask is an element-wise operation over rows of d values. There is one per
// backend, used again and again: steps allocate nothing.
type rowTask struct {
	b     *Backend
	row   func(t *rowTask, i int)
	n, d  int
	units int

	out, x, y, w []float32 // as the operation says
	eps          float32
	heads, half  int // of a rotation
	neox         bool
}

// of is the part of v that is row i.
func (t *rowTask) of(v []float32, i int) []float32 { return v[i*t.d : (i+1)*t.d] }

// rows runs t, on all threads when it pays.
func (b *Backend) rows(t rowTask) {
	t.b = b
	b.row = t
	if t.n*t.d < vectorParallel || t.n == 1 {
		for i := range t.n {
			t.row(&b.row, i)
		}
		return
	}
	b.row.units = min(t.n, 8*b.Threads())
	b.pool.run(b.row.units, &b.row)
}

// do computes one unit of rows.
func (t *rowTask) do(_, u int) {
	for i := u * t.n / t.units; i < (u+1)*t.n/t.units; i++ {
		t.row(t, i)
	}
}

// AddBias implements kernel.Backend.
func (b *Backend) AddBias(x, bias kernel.Buffer, n, d int) {
	b.rows(rowTask{row: (*rowTask).addSame, n: n, d: d, out: floats(x, n*d), x: floats(bias, d)})
}

func (t *rowTask) addSame(i int) { t.b.addRow(t.of(t.out, i), t.x) }

// addRow is x += y.
func (b *Backend) addRow(x, y []float32) {
	body := len(x) &^ 15
	b.ops.add(ptr(x), ptr(y), body)
	for i := body; i < len(x); i++ {
		x[i] += y[i]
	}
}

// RMSNorm implements kernel.Backend.
func (b *Backend) RMSNorm(dst, x, w kernel.Buffer, n, d int, eps float32) {
	b.rows(rowTask{row: (*rowTask).norm, n: n, d: d, out: floats(dst, n*d), x: floats(x, n*d), w: floats(w, d), eps: eps})
}

func (t *rowTask) norm(i int) { t.b.normRow(t.of(t.out, i), t.of(t.x, i), t.w, t.eps) }

// AddRMSNorm implements kernel.Backend.
func (b *Backend) AddRMSNorm(dst, x, delta, w kernel.Buffer, n, d int, eps float32) {
	b.rows(rowTask{
		row: (*rowTask).addNorm, n: n, d: d, eps: eps,
		out: floats(dst, n*d), x: floats(x, n*d), y: floats(delta, n*d), w: floats(w, d),
	})
}

func (t *rowTask) addNorm(i int) {
	t.b.addRow(t.of(t.x, i), t.of(t.y, i))
	t.norm(i)
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
	b.rows(rowTask{row: (*rowTask).siluMul, n: n, d: d, out: floats(dst, n*d), x: floats(gate, n*d), y: floats(up, n*d)})
}

func (t *rowTask) siluMul(i int) { t.b.siluMulRow(t.of(t.out, i), t.of(t.x, i), t.of(t.y, i)) }

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

// GELUMul implements kernel.Backend. 1 + tanh(z) is twice the sigmoid of 2z, so the gate is
// multiplied by the sigmoid of a polynomial of its own.
func (b *Backend) GELUMul(dst, gate, up kernel.Buffer, n, d int) {
	b.rows(rowTask{row: (*rowTask).geluMul, n: n, d: d, out: floats(dst, n*d), x: floats(gate, n*d), y: floats(up, n*d)})
}

func (t *rowTask) geluMul(i int) {
	const block = 256
	var values, gates [block]float32
	out, gate, up := t.of(t.out, i), t.of(t.x, i), t.of(t.y, i)
	for at := 0; at < len(out); at += block {
		n := min(block, len(out)-at)
		for j, x := range gate[at : at+n] {
			gates[j], values[j] = 1.5957691216057308*(x+0.044715*x*x*x), x*up[at+j]
		}
		t.b.sigmoidMulRow(values[:n], gates[:n])
		copy(out[at:], values[:n])
	}
}

// SigmoidMul implements kernel.Backend.
func (b *Backend) SigmoidMul(x, gate kernel.Buffer, n, d int) {
	b.rows(rowTask{row: (*rowTask).sigmoidMul, n: n, d: d, out: floats(x, n*d), x: floats(gate, n*d)})
}

func (t *rowTask) sigmoidMul(i int) { t.b.sigmoidMulRow(t.of(t.out, i), t.of(t.x, i)) }

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
	b.rows(rowTask{row: (*rowTask).addScaled, n: n, d: d, out: floats(x, n*d), x: floats(y, n*d), w: floats(gate, n)})
}

func (t *rowTask) addScaled(i int) { t.b.addScaledRow(t.of(t.out, i), t.of(t.x, i), sigmoid32(t.w[i])) }

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
func (*Backend) RopeAngles(dst kernel.Buffer, step *kernel.Step, invFreq []float64, gain float64) {
	half := len(invFreq)
	out := floats(dst, step.Rows*2*half)
	for _, s := range step.Spans {
		for i := range s.Len {
			row := out[(s.Row+i)*2*half : (s.Row+i+1)*2*half]
			for j, f := range invFreq {
				sin, cos := math.Sincos(float64(s.Pos+i) * f)
				row[j], row[half+j] = float32(cos*gain), float32(sin*gain)
			}
		}
	}
}

// Rope implements kernel.Backend.
func (b *Backend) Rope(x, angles kernel.Buffer, n, heads, headDim, half int, neox bool) {
	d := heads * headDim
	b.rows(rowTask{
		row: (*rowTask).rotate, n: n, d: d, out: floats(x, n*d), x: floats(angles, n*2*half),
		heads: heads, half: half, neox: neox,
	})
}

func (t *rowTask) rotate(i int) {
	half, row, d := t.half, t.of(t.out, i), t.d/t.heads
	cos, sin := t.x[i*2*half:(2*i+1)*half], t.x[(2*i+1)*half:(2*i+2)*half]
	for h := range t.heads {
		head := row[h*d : (h+1)*d]
		switch {
		case !t.neox:
			rotatePairs(head, cos, sin)
		case half%16 == 0:
			t.b.ops.rotate(&head[0], &head[half], &cos[0], &sin[0], half)
		default:
			rotateGo(&head[0], &head[half], &cos[0], &sin[0], half)
		}
	}
}

// rotatePairs turns the pairs (2j, 2j+1).
func rotatePairs(head, cos, sin []float32) {
	for j, c := range cos {
		u, v := head[2*j], head[2*j+1]
		head[2*j], head[2*j+1] = u*c-v*sin[j], u*sin[j]+v*c
	}
}
