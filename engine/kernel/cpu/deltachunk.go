package cpu

import "unsafe"

// product is dst = scale·init + a·x for tiles of 8 rows by 32 columns, which are
// two blocks of 16. Rows, columns, blocks and steps are given in bytes apart; rows
// of x lie 64 bytes apart. It is solved for dst when x is dst (ops.solve).
type product struct {
	dst                *float32
	dstRow, dstBlock   int
	init               *float32
	initRow, initBlock int
	scale              *float32 // of a row; scaleStep 0 is one for all
	scaleStep          int
	a                  *float32
	aRow, aCol         int
	x                  *float32
	xBlock             int
	n, nStep           int // columns of a, and how many more each further tile has
	tiles              int
}

// chunkScratch is what a thread needs for the chunked form.
type chunkScratch struct {
	job product

	turned       []float32 // k as [4][dim][16 rows]
	qk, kk       []float32 // [deltaChunk][deltaChunk]: q·k and k·k of a K head, lower triangles
	read, change []float32 // the same with decay (and -beta) of a V head, zero elsewhere
	// q, k as the state before the chunk sees them, with decay (and -beta); k as the
	// state after it does: [deltaChunk][dim].
	qIn, kIn, kOut []float32
	values, outs   [deltaPair * deltaChunk]float32 // two blocks of [deltaChunk][16]

	// Running sums of log, in two parts; e^ of the sum, e^ of what is left to the end.
	high, low, before, after [deltaChunk]float32
	zeros                    [16]float32
	one                      float32
}

// fit makes room for heads of dim values.
func (w *chunkScratch) fit(dim int) {
	rows := func(n int) []float32 { return asFloats(heapBytes(4 * deltaChunk * n)) }
	w.turned, w.qIn, w.kIn, w.kOut = rows(dim), rows(dim), rows(dim), rows(dim)
	w.qk, w.kk, w.read, w.change = rows(deltaChunk), rows(deltaChunk), rows(deltaChunk), rows(deltaChunk)
	w.one = 1
}

// products computes what all V heads of a K head share: q·k and k·k of n rows.
func (t *deltaTask) products(w *deltaScratch, n int) {
	d := w.dim
	clear(w.q[n*d : roundUp(n, 8)*d])
	clear(w.k[n*d : roundUp(n, deltaPair)*d])
	for i := 0; i < n; i += 16 {
		t.b.ops.transpose(&w.turned[i*d], &w.k[i*d], 4*d, d)
	}
	for first := 0; first < n; first += deltaPair {
		for _, m := range []struct{ dst, a []float32 }{{w.qk, w.q}, {w.kk, w.k}} {
			w.job = product{
				dst: &m.dst[first*deltaChunk+first], dstRow: 4 * deltaChunk, dstBlock: 64,
				init: &w.zeros[0], scale: &w.one,
				a: &m.a[first*d], aRow: 4 * d, aCol: 4,
				x: &w.turned[first*d], xBlock: 64 * d, n: d, tiles: (n - first + 7) / 8,
			}
			t.multiply(w)
		}
	}
}

func (t *deltaTask) multiply(w *deltaScratch) { t.b.ops.product((*byte)(unsafe.Pointer(&w.job))) }

// chunk advances columns low to high of a V head by n rows at once. With c the
// running sums of log decays and S the state before, the changes u of the state solve
// u_i = β_i·(v_i - e^c_i·Sᵀk_i) - Σ_{j<i} β_i·e^(c_i-c_j)·(k_i·k_j)·u_j; then
// o_i = e^c_i·Sᵀq_i + Σ_{j<=i} e^(c_i-c_j)·(q_i·k_j)·u_j and
// S' = e^c_n·S + Σ_j k_j·e^(c_n-c_j)·u_jᵀ. No exponent is above zero.
func (t *deltaTask) chunk(w *deltaScratch, state []float32, n, low, high int) {
	d, tiles := w.dim, (n+7)/8
	clear(w.v[n*d : 8*tiles*d])
	t.decays(w, n)
	const block = 4 * deltaPair / 2 * deltaChunk // bytes
	for col := low; col < high; col += deltaPair {
		s := &state[col*d]
		values := product{
			dst: &w.values[0], dstRow: 64, dstBlock: block,
			init: &w.v[col], initRow: 4 * d, initBlock: 64, scale: &w.beta[0], scaleStep: 4,
			a: &w.kIn[0], aRow: 4 * d, aCol: 4, x: s, xBlock: 64 * d, n: d, tiles: tiles,
		}
		w.job = values
		t.multiply(w)
		w.job = product{
			dst: &w.values[0], dstRow: 64, dstBlock: block, init: &w.values[0], initRow: 64, initBlock: block,
			a: &w.change[0], aRow: 4 * deltaChunk, aCol: 4, x: &w.values[0], xBlock: block, nStep: 8, tiles: tiles,
		}
		t.b.ops.solve((*byte)(unsafe.Pointer(&w.job)))
		w.job = product{
			dst: &w.outs[0], dstRow: 64, dstBlock: block, init: &w.zeros[0], scale: &w.one,
			a: &w.qIn[0], aRow: 4 * d, aCol: 4, x: s, xBlock: 64 * d, n: d, tiles: tiles,
		}
		t.multiply(w)
		w.job = product{
			dst: &w.o[col], dstRow: 4 * d, dstBlock: 64,
			init: &w.outs[0], initRow: 64, initBlock: block, scale: &w.one,
			a: &w.read[0], aRow: 4 * deltaChunk, aCol: 4, x: &w.values[0], xBlock: block, n: 8, nStep: 8, tiles: tiles,
		}
		t.multiply(w)
		w.job = product{
			dst: s, dstRow: 64, dstBlock: 64 * d, init: s, initRow: 64, initBlock: 64 * d, scale: &w.before[n-1],
			a: &w.kOut[0], aRow: 4, aCol: 4 * d, x: &w.values[0], xBlock: block, n: n, tiles: d / 8,
		}
		t.multiply(w)
	}
}

// decays computes what depends on the gates of a V head alone. Sums of logarithms
// run in float64 and are kept in two float32, so that a large decay early in the
// chunk takes no digits from the small ones after it.
func (t *deltaTask) decays(w *deltaScratch, n int) {
	d, tiles := w.dim, (n+7)/8
	var sum float64
	var sums [deltaChunk]float64
	for i := range n {
		sum += float64(w.log[i])
		sums[i] = sum
		w.high[i] = float32(sum)
		w.low[i] = float32(sum - float64(w.high[i]))
	}
	for i := range n {
		w.before[i], w.after[i] = w.high[i], float32(sum-sums[i])
	}
	t.b.ops.exp(&w.before[0], roundUp(n, 16))
	t.b.ops.exp(&w.after[0], roundUp(n, 16))
	for i := range n {
		at, end := i*d, i*deltaChunk
		t.b.ops.scale(&w.qIn[at], &w.q[at], w.before[i], d)
		t.b.ops.scale(&w.kIn[at], &w.k[at], -w.beta[i]*w.before[i], d)
		t.b.ops.scale(&w.kOut[at], &w.k[at], w.after[i], d)
		count := roundUp(i+1, 16)
		t.b.ops.decayRow(&w.read[end], &w.change[end], &w.qk[end], &w.kk[end], &w.high[0], &w.low[0],
			w.high[i], w.low[i], -w.beta[i], count)
		clear(w.read[end+i+1 : end+count])
		clear(w.change[end+i : end+count])
	}
	for _, rest := range [][]float32{w.qIn[n*d : 8*tiles*d], w.kIn[n*d : 8*tiles*d],
		w.read[n*deltaChunk : 8*tiles*deltaChunk], w.change[n*deltaChunk : 8*tiles*deltaChunk]} {
		clear(rest)
	}
}
