package cpu

import (
	"fmt"
	"testing"

	"corenode/engine/kernel"
)

// TestDotBitEqual: the two assembly levels differ in how they make integers, so in no result.
func TestDotBitEqual(t *testing.T) {
	const cols, n = 512, 15 // tiles of every height
	if Levels()[0] != "dotprod" {
		t.Skip("this processor has no dot products")
	}
	dot, base, r := open(t, Options{Level: "dotprod", Threads: 1}), open(t, Options{Level: "neon", Threads: 1}), newRand(11)
	for _, typ := range allTypes {
		src := randomSource(r, typ, 1, 40, cols)
		x := normals(r, n*cols, 1)
		multiply := func(b *Backend) []float32 {
			out := b.NewBuffer(n * src.Rows)
			b.MatMul([]kernel.Buffer{out}, upload(b, x), n, []kernel.Weight{load(t, b, src)})
			return download(b, out, n*src.Rows)
		}
		same(t, fmt.Sprintf("type %d", typ), multiply(dot), multiply(base))
	}
}
