package cpu

import (
	"fmt"
	"testing"

	"corenode/engine/kernel"
)

// TestMatMulHeads: heads with widths of their own get the products with their matrices, a row has
// the bits that it has alone, and what lies between heads stays.
func TestMatMulHeads(t *testing.T) {
	const heads, rows, cols, n, in, out = 5, 40, 64, 19, 70, 47
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 2})
		for _, typ := range allTypes[:5] {
			r := newRand(21)
			src, x := randomSource(r, typ, heads, rows, cols), normals(r, n*heads*in, 1)
			run := func(b kernel.HeadBackend, x []float32, n int) []float32 {
				dst := upload(b, make([]float32, n*heads*out))
				to := kernel.Heads{Buffer: dst, Width: out, At: 3}
				b.MatMulHeads(to, kernel.Heads{Buffer: upload(b, x), Width: in, At: 6}, n, load(t, b, src))
				b.CopyHeads(kernel.Heads{Buffer: dst, Width: out, At: 1}, to, n, heads, 2)
				return download(b, dst, n*heads*out)
			}
			want, got := run(reference, x, n), run(b, x, n)
			tolerance := 1e-5
			if typ == kernel.Q8_0 || typ == kernel.Q4_0 {
				tolerance = 0.03 // the error of int8 activations
			}
			near(t, fmt.Sprint(typ), got, want, relative(want, tolerance))
			for i := range n {
				alone := run(b, x[i*heads*in:(i+1)*heads*in], 1)
				same(t, fmt.Sprintf("type %d, row %d", typ, i), alone, got[i*heads*out:(i+1)*heads*out])
			}
		}
	})
}
