// Package ref is the reference implementation of kernel.Backend: it defines
// what every operation means. It is written to be read and checked by eye,
// not to be fast: weights are float32 from Load on, sums and functions run in
// float64 in index order, results are stored as float32.
//
// A faster backend that disagrees with this one beyond its stated tolerance
// is wrong. Misuse (a buffer too small, a page table too short) panics.
package ref

import (
	"bytes"
	"fmt"
	"math"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

// Backend computes on the caller's goroutine and keeps nothing but what it returned.
type Backend struct{}

// New returns the reference backend.
func New() *Backend { return &Backend{} }

var _ kernel.HeadBackend = (*Backend)(nil)

// buffer is memory in the Go heap.
type buffer []float32

func (b buffer) Len() int { return len(b) }

// weight is experts matrices of rows x cols, one after the other.
type weight struct {
	experts, rows, cols int
	data                []float32
}

func (w *weight) Rows() int    { return w.rows }
func (w *weight) Cols() int    { return w.cols }
func (w *weight) Experts() int { return w.experts }

// row is one output's coefficients.
func (w *weight) row(expert, r int) []float32 {
	at := (expert*w.rows + r) * w.cols
	return w.data[at : at+w.cols]
}

// mem is the memory behind a Buffer of this backend.
func mem(b kernel.Buffer) buffer { return b.(buffer) }

// Name implements kernel.Backend.
func (*Backend) Name() string { return "ref" }

// Load dequantizes the whole weight.
func (*Backend) Load(src kernel.Source) (kernel.Weight, error) {
	if src.Experts < 1 || src.Rows < 1 || src.Cols < 1 {
		return nil, fmt.Errorf("load %s: shape %d x %d x %d", src.Name, src.Experts, src.Rows, src.Cols)
	}
	w := &weight{src.Experts, src.Rows, src.Cols, make([]float32, src.Experts*src.Rows*src.Cols)}
	if src.Pieces != nil {
		src.Data = bytes.Join(src.Pieces, nil)
	}
	if err := modelfile.Dequantize(w.data, src.Type, src.Data); err != nil {
		return nil, fmt.Errorf("load %s: %w", src.Name, err)
	}
	return w, nil
}

// NewBuffer implements kernel.Backend.
func (*Backend) NewBuffer(n int) kernel.Buffer { return make(buffer, n) }

// Upload implements kernel.Backend.
func (*Backend) Upload(dst kernel.Buffer, off int, src []float32) {
	copy(mem(dst)[off:off+len(src)], src)
}

// Download implements kernel.Backend.
func (*Backend) Download(dst []float32, src kernel.Buffer, off int) {
	copy(dst, mem(src)[off:off+len(dst)])
}

// Embed implements kernel.Backend.
func (*Backend) Embed(dst kernel.Buffer, table kernel.Weight, ids []int32) {
	t, out := table.(*weight), mem(dst)
	for i, id := range ids {
		copy(out[i*t.cols:(i+1)*t.cols], t.row(0, int(id)))
	}
}

// GatherRows implements kernel.Backend.
func (*Backend) GatherRows(dst, src kernel.Buffer, rows []int32, d int) {
	out, in := mem(dst), mem(src)
	for i, r := range rows {
		copy(out[i*d:(i+1)*d], in[int(r)*d:(int(r)+1)*d])
	}
}

// MatMul implements kernel.Backend.
func (*Backend) MatMul(dst []kernel.Buffer, x kernel.Buffer, n int, w []kernel.Weight) {
	for i := range w {
		matMul(mem(dst[i]), mem(x), n, w[i].(*weight), 0)
	}
}

// matMul computes n rows of outputs of one expert's matrix.
func matMul(dst, x []float32, n int, w *weight, expert int) {
	for i := range n {
		row := x[i*w.cols : (i+1)*w.cols]
		for r := range w.rows {
			dst[i*w.rows+r] = float32(dot(row, w.row(expert, r)))
		}
	}
}

// dot sums in float64, in index order.
func dot(a, b []float32) float64 {
	var sum float64
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}

// AddBias implements kernel.Backend.
func (*Backend) AddBias(x, bias kernel.Buffer, n, d int) {
	v, b := mem(x), mem(bias)
	for i := range n * d {
		v[i] += b[i%d]
	}
}

// RMSNorm implements kernel.Backend.
func (*Backend) RMSNorm(dst, x, w kernel.Buffer, n, d int, eps float32) {
	for i := range n {
		rmsNorm(mem(dst)[i*d:(i+1)*d], mem(x)[i*d:(i+1)*d], mem(w), eps)
	}
}

// AddRMSNorm implements kernel.Backend.
func (b *Backend) AddRMSNorm(dst, x, delta, w kernel.Buffer, n, d int, eps float32) {
	v, a := mem(x), mem(delta)
	for i := range n * d {
		v[i] += a[i]
	}
	b.RMSNorm(dst, x, w, n, d, eps)
}

// rmsNorm normalizes one row; dst may be x.
func rmsNorm(dst, x, w []float32, eps float32) {
	scale := 1 / math.Sqrt(dot(x, x)/float64(len(x))+float64(eps))
	for i, v := range x {
		dst[i] = float32(float64(v) * scale * float64(w[i]))
	}
}

// SiLUMul implements kernel.Backend.
func (*Backend) SiLUMul(dst, gate, up kernel.Buffer, n, d int) {
	out, g, u := mem(dst), mem(gate), mem(up)
	for i := range n * d {
		out[i] = float32(silu(float64(g[i])) * float64(u[i]))
	}
}

// GELUMul implements kernel.Backend.
func (*Backend) GELUMul(dst, gate, up kernel.Buffer, n, d int) {
	out, g, u := mem(dst), mem(gate), mem(up)
	for i := range n * d {
		x := float64(g[i])
		out[i] = float32(x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) * float64(u[i]))
	}
}

// SigmoidMul implements kernel.Backend.
func (*Backend) SigmoidMul(x, gate kernel.Buffer, n, d int) {
	v, g := mem(x), mem(gate)
	for i := range n * d {
		v[i] = float32(float64(v[i]) * sigmoid(float64(g[i])))
	}
}

// AddScaled implements kernel.Backend.
func (*Backend) AddScaled(x, y, gate kernel.Buffer, n, d int) {
	v, a, g := mem(x), mem(y), mem(gate)
	for i := range n * d {
		v[i] = float32(float64(v[i]) + sigmoid(float64(g[i/d]))*float64(a[i]))
	}
}

// SplitHeads implements kernel.Backend.
func (*Backend) SplitHeads(a, b, x kernel.Buffer, n, heads, d int) {
	first, second, in := mem(a), mem(b), mem(x)
	for i := range n * heads {
		copy(first[i*d:(i+1)*d], in[2*i*d:(2*i+1)*d])
		copy(second[i*d:(i+1)*d], in[(2*i+1)*d:(2*i+2)*d])
	}
}

// CopyHeads implements kernel.HeadBackend.
func (*Backend) CopyHeads(dst, src kernel.Heads, n, heads, d int) {
	out, in := mem(dst.Buffer), mem(src.Buffer)
	for i := range n * heads {
		copy(out[i*dst.Width+dst.At:][:d], in[i*src.Width+src.At:][:d])
	}
}

// MatMulHeads implements kernel.HeadBackend.
func (*Backend) MatMulHeads(dst, src kernel.Heads, n int, kw kernel.Weight) {
	out, in, w := mem(dst.Buffer), mem(src.Buffer), kw.(*weight)
	for i := range n * w.experts {
		matMul(out[i*dst.Width+dst.At:][:w.rows], in[i*src.Width+src.At:][:w.cols], 1, w, i%w.experts)
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func silu(x float64) float64 { return x * sigmoid(x) }

// Close implements kernel.Backend; the garbage collector does the rest.
func (*Backend) Close() {}
