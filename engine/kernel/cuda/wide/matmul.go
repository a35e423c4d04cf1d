package wide

import (
	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/eager"
)

// Sizes of a tile of a product.
const (
	tileRows = 128
	tileOuts = 128
)

// products and gates are the kernels by the kind of the matrix.
var (
	products = map[int]string{eager.KindF16: "productF16", eager.KindBF16: "productBF16"}
	gates    = map[int]string{eager.KindF16: "gatedF16", eager.KindBF16: "gatedBF16"}
)

// fits says whether a matrix can be multiplied with many rows here.
func (b *Backend) fits(m eager.Matrix) bool { return b.able[products[m.Kind]] && m.Cols%8 == 0 }

// MatMul implements kernel.Backend.
func (b *Backend) MatMul(dst []kernel.Buffer, x kernel.Buffer, n int, w []kernel.Weight) {
	var made [2]bool
	for i := range w {
		m := b.Matrix(w[i])
		if n < RowsMin || !b.fits(m) {
			b.Backend.MatMul(dst[i:i+1], x, n, w[i:i+1])
			continue
		}
		form := formOf(m)
		if !made[form] {
			b.narrow(form, b.Address(x, n*m.Cols), n, m.Cols)
			made[form] = true
		}
		b.product(b.Address(dst[i], n*m.Rows), form, tileList{}, m, n)
	}
}

// formOf is what rows have to be for a matrix: 0 float16, 1 bfloat16.
func formOf(m eager.Matrix) int {
	if m.Kind == eager.KindBF16 {
		return 1
	}
	return 0
}

// narrow makes rows of 16-bit values of n rows of d.
func (b *Backend) narrow(form int, x cuda.Pointer, n, d int) {
	b.narrowTo(b.Need(&b.narrowed[form], 2*int64(n)*int64(d)), b.Need(&b.factors[form], 4*int64(n)), x, n, d, form)
}

func (b *Backend) narrowTo(to, factors, x cuda.Pointer, n, d, form int) {
	b.Queue("narrow", eager.Shape{X: n, Threads: 128}, to, factors, x, d, form)
}

// tileList is the tiles of experts' rows; where it is zero, rows follow each other.
type tileList struct {
	at    cuda.Pointer
	count int
}

// grid is the blocks of a product.
func (l tileList) grid(outs, each, n int) eager.Shape {
	tiles := l.count
	if tiles == 0 {
		tiles = up(n, tileRows)
	}
	return eager.Shape{X: up(outs, each), Y: tiles, Threads: 256, Shared: shared["productF16"]}
}

// product multiplies rows that were narrowed last.
func (b *Backend) product(dst cuda.Pointer, form int, l tileList, m eager.Matrix, n int) {
	b.Queue(products[m.Kind], l.grid(m.Rows, tileOuts, n), dst, b.Need(&b.narrowed[form], 0), b.Need(&b.factors[form], 0),
		l.at, m.At, n, m.Rows, m.Cols)
}
