package cpu

import (
	"fmt"
	"slices"
	"testing"

	"corenode/engine/kernel"
)

// openWords opens level avx512vnni with so many threads.
func openWords(t testing.TB, threads int) *Backend {
	t.Helper()
	if !slices.Contains(Levels(), "avx512vnni") {
		t.Skip("this processor has no level avx512vnni")
	}
	return open(t, Options{Level: "avx512vnni", Threads: threads})
}

// TestWordAttend compares rows that see far ranges with the reference. Rounding to 16 bits
// costs at most 2^-11 of the sum of weights times sizes of V, as storing them in float16 does.
func TestWordAttend(t *testing.T) {
	b := openWords(t, 2)
	for _, kv := range kvAll {
		for i, c := range []promptCase{
			{attnCase{heads: 4, kvHeads: 2, dim: 32, page: 32, spans: [][2]int{{9000, 5}}}, 0},
			{attnCase{heads: 2, kvHeads: 2, dim: 128, page: 64, spans: [][2]int{{40, 1}, {5120, 3}}}, 1},
			{attnCase{heads: 3, kvHeads: 1, dim: 256, page: 16, spans: [][2]int{{4606, 5}}}, 0}, // far ranges from the third row on
			{attnCase{heads: 20, kvHeads: 1, dim: 24, page: 16, spans: [][2]int{{5200, 2}}}, 0},
			{attnCase{heads: 5, kvHeads: 1, dim: 72, page: 16, spans: [][2]int{{40, 1}, {4700, 5}}, shared: true}, 1},
			{attnCase{heads: 3, kvHeads: 1, dim: 576, page: 64, spans: [][2]int{{4609, 2}}, shared: true}, 0}, // latents of DeepSeek
		} {
			want := c.run(t, reference, kv, uint64(i))
			c.absolute = true
			sizes := c.run(t, reference, kv, uint64(i))
			c.absolute = false
			head := func(j int) float64 { return float64(slices.Max(sizes[j/c.dim*c.dim:][:c.dim])) }
			near(t, fmt.Sprintf("%s %+v", kv, c), c.run(t, b, kv, uint64(i)), want,
				func(j int) float64 { return 0x1p-12 * (float64(sizes[j]) + head(j)) })
		}
	}
}

// openRounding is openWords with a matrix whose products round activations.
func openRounding(t testing.TB, threads int) *Backend {
	t.Helper()
	b := openWords(t, threads)
	load(t, b, randomSource(newRand(1), kernel.Q8_0, 1, 32, 32))
	return b
}

// TestRoundingAttend: where products round, all blocks before a row's own are computed with
// integers in wide heads, within the same bounds and with the same bits however rows are cut.
func TestRoundingAttend(t *testing.T) {
	one, two, plain := openRounding(t, 1), openRounding(t, 2), openWords(t, 2)
	const from, rows = rangeSize - 70, 160
	for _, kv := range kvAll {
		for i, dim := range []int{32, 64, 128, 96} {
			heads, shared := []int{4, 20, 6, 11}[i], dim == 96
			kvHeads := 2
			if shared {
				kvHeads = 1
			}
			whole := promptCase{attnCase: attnCase{heads: heads, kvHeads: kvHeads, dim: dim, page: 16, shared: shared,
				spans: [][2]int{{from, rows}}}}
			want := whole.run(t, reference, kv, 5)
			whole.absolute = true
			sizes := whole.run(t, reference, kv, 5)
			whole.absolute = false
			head := func(j int) float64 { return float64(slices.Max(sizes[j/dim*dim:][:dim])) }
			got := whole.run(t, one, kv, 5)
			near(t, fmt.Sprintf("%s, heads of %d", kv, dim), got, want, func(j int) float64 { return 0x1p-12 * (float64(sizes[j]) + head(j)) })
			row := heads * dim
			if differ := !slices.Equal(got, whole.run(t, plain, kv, 5)); differ != (dim >= wordColumns) {
				t.Errorf("%s: heads of %d are computed with integers: %v", kv, dim, differ)
			}
			for at, n := range map[int]int{0: 1, 1: 5, 6: 74, 80: 64, 144: 3, 147: 13} {
				c := whole
				c.page, c.spans = 32, [][2]int{{from + at, n}, {700, 2}, {0, 70}}
				same(t, fmt.Sprintf("%s, heads of %d, %d rows from %d on", kv, dim, n, at), c.run(t, two, kv, 5)[:n*row], got[at*row:][:n*row])
			}
		}
	}
	begin := promptCase{attnCase: attnCase{heads: 2, kvHeads: 1, dim: 64, page: 16, spans: [][2]int{{0, wordBlock}}}}
	same(t, "a first block", begin.run(t, one, kernel.KVF16, 5), begin.run(t, plain, kernel.KVF16, 5))
}

// TestWordBits computes rows around a multiple of the range's size in one piece, and then in
// pieces, on some numbers of threads and sizes of pages, alone and beside others.
func TestWordBits(t *testing.T) {
	one := openWords(t, 1)
	others := []*Backend{one, openWords(t, 2), openWords(t, 5)}
	for i, kv := range kvAll {
		shape := attnCase{heads: 4, kvHeads: 2, dim: 64}
		if i == 1 {
			shape = attnCase{heads: 6, kvHeads: 1, dim: 48, shared: true}
		}
		whole := shape
		const from = 9*rangeSize - 70
		whole.page, whole.spans = 16, [][2]int{{from, 160}}
		want := promptCase{attnCase: whole}.run(t, one, kv, 7)
		row, at := shape.heads*shape.dim, from
		for j, n := range []int{1, 15, 54, 3, 17, 70} {
			b, c := others[(i+j)%3], promptCase{attnCase: shape}
			c.page = []int{16, 32, 64}[j%3]
			c.spans = [][2]int{{at, n}}
			what := fmt.Sprintf("%s %+v, %d threads", kv, c, b.Threads())
			same(t, what, c.run(t, b, kv, 7), want[(at-from)*row:][:n*row])
			c.spans = append(c.spans, [2]int{4700, 3}, [2]int{0, 3})
			same(t, what+" beside others", c.run(t, b, kv, 7)[:n*row], want[(at-from)*row:][:n*row])
			at += n
		}
	}
}

// TestWordsAreForFarPrompts: rows of a prompt have the bits of generated ones until they see a
// far range, and so do all rows of other levels and of backends for exact results.
func TestWordsAreForFarPrompts(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		for _, exact := range []bool{false, true} {
			b := open(t, Options{Level: level, Threads: 2, Exact: exact})
			if b.ops.prompts != nil && !exact {
				continue
			}
			const near = 4
			span := [2]int{(wordNear+1)*rangeSize - near, 12}
			c := promptCase{attnCase: attnCase{heads: 2, kvHeads: 1, dim: 32, page: 16, spans: [][2]int{span}}}
			got := c.run(t, b, kernel.KVF16, 3)
			c.generated = 1
			want := c.run(t, b, kernel.KVF16, 3)
			row := near * c.heads * c.dim
			same(t, "near", got[:row], want[:row])
			if far := !slices.Equal(got[row:], want[row:]); far != (b.ops.words != nil && !exact) {
				t.Errorf("far rows differ: %v", far)
			}
		}
	})
}
