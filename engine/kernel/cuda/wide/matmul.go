package wide

import (
	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/eager"
)

// Sizes of a tile of a product, and of the wider one of groups of warps.
const (
	tileRows  = 128
	tileOuts  = 128
	groupOuts = 256
	// productBytes is three stages of 128 rows and 128 outputs by 64 values.
	productBytes = 3 * (tileRows + tileOuts) * 64 * 2
)

// products and gates are the kernels by the kind of the matrix, those of groups of warps by the form of the input.
var (
	products = map[int]string{
		eager.KindF16: "productF16", eager.KindBF16: "productBF16", eager.KindQ8: "productQ8", eager.KindQ4K: "productQ4K",
		eager.KindE4M3: "productE4M3",
	}
	gates = map[int]string{
		eager.KindF16: "gatedF16", eager.KindBF16: "gatedBF16", eager.KindQ8: "gatedQ8", eager.KindQ4K: "gatedQ4K",
		eager.KindE4M3: "gatedE4M3",
	}
	groupProducts = []string{"productGroupF16", "productGroupBF16"}
	groupGates    = []string{"gatedGroupF16", "gatedGroupBF16"}
)

// formOf is what rows have to be for a matrix: 0 float16, 1 bfloat16.
func formOf(m eager.Matrix) int {
	if m.Kind == eager.KindBF16 {
		return 1
	}
	return 0
}

// grouped says whether groups of warps multiply with a matrix: they read it as it is.
func (b *Backend) grouped(m eager.Matrix) bool {
	return b.groups && (m.Kind == eager.KindF16 || m.Kind == eager.KindBF16)
}

// fits says whether a matrix can be multiplied with many rows here.
func (b *Backend) fits(m eager.Matrix) bool {
	return m.Cols%8 == 0 && (b.grouped(m) || b.able[products[m.Kind]])
}

// MatMul implements kernel.Backend.
func (b *Backend) MatMul(dst []kernel.Buffer, x kernel.Buffer, n int, w []kernel.Weight) {
	var made [2]bool
	for i := range w {
		m := b.Matrix(w[i])
		if n < rowsMin || !b.fits(m) {
			b.Backend.MatMul(dst[i:i+1], x, n, w[i:i+1])
			continue
		}
		form := formOf(m)
		if !made[form] {
			b.narrow(form, b.Address(x, n*m.Cols), 0, n, m.Cols)
			made[form] = true
		}
		b.product(b.Address(dst[i], n*m.Rows), form, tileList{count: up(n, tileRows)}, m, n)
	}
}

// input is what is multiplied with a matrix: rows of 16-bit values, and a factor of each.
type input struct {
	values, factors eager.Room
	bytes           int64 // of the values
	at, by          cuda.Pointer
	cols            int
}

// narrow makes n rows of d values the input of the next products: in order, or as a list of rows says.
func (b *Backend) narrow(form int, x, list cuda.Pointer, n, d int) {
	in := &b.input[form]
	in.bytes = max(in.bytes, 2*int64(n)*int64(d))
	in.at, in.by, in.cols = b.Need(&in.values, in.bytes), b.Need(&in.factors, 4*int64(n)), d
	b.Queue("narrow", eager.Shape{X: n, Threads: 128}, in.at, in.by, x, list, d, form)
}

// rows is the input as a tensor: all rows that there is room for, since maps are kept.
func (b *Backend) rows(in *input) cuda.Pointer {
	return b.tensorMap(in.at, in.cols, int(in.bytes/2/int64(in.cols)), formElem(in == &b.input[1]))
}

func formElem(brain bool) cuda.Elem {
	if brain {
		return cuda.BF16
	}
	return cuda.F16
}

// matrix is a matrix as a tensor.
func (b *Backend) matrix(m eager.Matrix) cuda.Pointer {
	return b.tensorMap(m.At, m.Cols, m.Experts*m.Rows, formElem(m.Kind == eager.KindBF16))
}

// tileList is tiles of rows: those of experts, or where at is 0 rows that follow each other.
type tileList struct {
	at    cuda.Pointer
	count int
}

// grid is the blocks of a product.
func (l tileList) grid(outs, each int) eager.Shape {
	return eager.Shape{X: up(outs, each), Y: l.count, Threads: 256, Shared: productBytes}
}

// product multiplies the input.
func (b *Backend) product(dst cuda.Pointer, form int, l tileList, m eager.Matrix, n int) {
	in := &b.input[form]
	if b.grouped(m) {
		b.Queue(groupProducts[form], b.groupGrid(l, m.Rows, groupOuts), dst, b.rows(in), in.by, l.at, b.matrix(m), l.count, n,
			m.Rows, m.Cols)
		return
	}
	b.Queue(products[m.Kind], l.grid(m.Rows, tileOuts), dst, in.at, in.by, l.at, m.At, n, m.Rows, m.Cols)
}
