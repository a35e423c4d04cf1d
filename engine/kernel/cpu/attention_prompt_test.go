package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"corenode/engine/kernel"
)

// promptCase is a model shape and the spans of a step, the last of which are prompts.
type promptCase struct {
	attnCase
	generated int // spans that are not prompts
}

var promptCases = []promptCase{
	{attnCase{heads: 1, kvHeads: 1, dim: 32, page: 16, spans: [][2]int{{0, 1}}}, 0},
	{attnCase{heads: 4, kvHeads: 2, dim: 64, page: 16, spans: [][2]int{{0, 70}}}, 0},
	{attnCase{heads: 4, kvHeads: 2, dim: 128, page: 32, spans: [][2]int{{1030, 17}}}, 0},
	{attnCase{heads: 4, kvHeads: 2, dim: 128, page: 64, spans: [][2]int{{530, 3}, {37, 1}, {0, 5}, {40, 17}, {500, 33}}}, 2},
	{attnCase{heads: 8, kvHeads: 1, dim: 256, page: 16, spans: [][2]int{{31, 1}, {511, 9}, {96, 20}}}, 1},
	{attnCase{heads: 12, kvHeads: 4, dim: 96, page: 32, spans: [][2]int{{127, 2}, {128, 31}}}, 0}, // groups of 3
	{attnCase{heads: 6, kvHeads: 2, dim: 24, page: 16, spans: [][2]int{{10, 30}, {401, 41}}}, 0},  // a head dimension that is padded
	{attnCase{heads: 4, kvHeads: 1, dim: 64, page: 64, spans: [][2]int{{100, 200}}}, 0},           // more rows than a unit
	{attnCase{heads: 40, kvHeads: 1, dim: 32, page: 16, spans: [][2]int{{111, 9}}}, 0},            // more heads than a tile
	{attnCase{heads: 20, kvHeads: 1, dim: 72, page: 16, spans: [][2]int{{5, 1}, {130, 40}, {0, 9}}, shared: true}, 1},
	{attnCase{heads: 6, kvHeads: 1, dim: 576, page: 32, spans: [][2]int{{250, 21}}, shared: true}, 0}, // latents of DeepSeek
}

// openPrompts opens level amx with so many threads, or a model of it where there are no matrix tiles.
func openPrompts(t testing.TB, threads int) *Backend {
	t.Helper()
	if slices.Contains(Levels(), "amx") {
		if b := open(t, Options{Level: "amx", Threads: threads}); b.ops.prompts != nil {
			return b
		}
	}
	return openModeled(t, threads)
}

// run is attnCase.run with spans that are prompts.
func (c promptCase) run(t *testing.T, b kernel.Backend, kv kernel.KVType, seed uint64) []float32 {
	t.Helper()
	c.prompts = len(c.spans) - c.generated
	return c.attnCase.run(t, b, kv, seed, 1<<20)
}

// promptBound is what matrix tiles may be off by. It allows for two parts of 8 bits of each number: 2^-16 of a
// product where both are rounded, and what the errors of scores make of weights.
func promptBound(t *testing.T, c attnCase, kv kernel.KVType, seed uint64) func(j int) float64 {
	t.Helper()
	c.absolute = true
	sizes := c.run(t, reference, kv, seed, 1<<20) // sums of weights times sizes of V
	return func(j int) float64 { return 2e-5 * float64(sizes[j]+slices.Max(sizes[j/c.dim*c.dim:][:c.dim])) }
}

func TestPromptAttend(t *testing.T) {
	b := openPrompts(t, 2)
	for _, kv := range kvAll {
		for i, c := range promptCases {
			want, got := c.run(t, reference, kv, uint64(i)), c.run(t, b, kv, uint64(i))
			c.prompts = len(c.spans) - c.generated
			near(t, fmt.Sprintf("%s %+v", kv, c), got, want, promptBound(t, c.attnCase, kv, uint64(i)))
		}
	}
}

// TestPromptBits computes a prompt in one piece, and then in pieces of every kind of
// length, on some numbers of threads and sizes of pages, beside other spans.
func TestPromptBits(t *testing.T) {
	one := openPrompts(t, 1)
	others := []*Backend{one, openPrompts(t, 2), openPrompts(t, 5)}
	for i, kv := range kvAll {
		for _, shape := range []attnCase{
			{heads: 4, kvHeads: 2, dim: 128}, {heads: 3, kvHeads: 1, dim: 24}, {heads: 2, kvHeads: 2, dim: 64},
			{heads: 16, kvHeads: 2, dim: 256}, {heads: 5, kvHeads: 1, dim: 72, shared: true},
		} {
			whole := shape
			whole.page, whole.spans = 16, [][2]int{{90, 260}}
			want := promptCase{attnCase: whole}.run(t, one, kv, 7)
			row, at := shape.heads*shape.dim, 90
			for j, n := range []int{1, 2, 15, 16, 17, 20, 33, 64, 92} {
				b, c := others[(i+j)%3], promptCase{attnCase: shape}
				c.page = []int{16, 32, 64}[j%3]
				c.spans = [][2]int{{at, n}}
				what := fmt.Sprintf("%s %+v, %d threads", kv, c, b.Threads())
				same(t, what, c.run(t, b, kv, 7), want[(at-90)*row:][:n*row])
				c.spans = append(c.spans, [2]int{37, 50}, [2]int{0, 3})
				same(t, what+" beside others", c.run(t, b, kv, 7)[:n*row], want[(at-90)*row:][:n*row])
				at += n
			}
		}
	}
}

// TestPromptsLeaveOthersAlone: generated rows have the bits that they have
// without prompts beside them; levels without matrix tiles know no prompts, and
// neither does a backend for exact results.
func TestPromptsLeaveOthersAlone(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 2})
		for i, kv := range kvAll {
			c := promptCase{attnCase: attnCase{heads: 4, kvHeads: 2, dim: 64, page: 16,
				spans: [][2]int{{530, 3}, {37, 1}, {0, 20}, {40, 17}}}, generated: 2}
			got := c.run(t, b, kv, uint64(i))
			c.generated = len(c.spans)
			want := c.run(t, b, kv, uint64(i))
			exact := c
			exact.generated = 0
			same(t, kv.String()+" exact", exact.run(t, open(t, Options{Level: level, Threads: 2, Exact: true}), kv, uint64(i)), want)
			if b.ops.prompts != nil {
				row := c.heads * c.dim
				got, want = got[:4*row], want[:4*row]
			}
			same(t, kv.String(), got, want)
		}
	})
}

// TestPromptIgnoresOldPages: what an earlier owner left behind the end of a
// prompt, even infinities, does not reach its rows.
func TestPromptIgnoresOldPages(t *testing.T) {
	b := openPrompts(t, 1)
	const d, page = 64, 64
	bad := make([]float32, page*d)
	for i := range bad {
		bad[i] = float32(math.Inf(1 - i%2*2))
	}
	x := normals(newRand(1), page*d, 1)
	run := func(kv kernel.KVType, shared bool, n int, before []float32) []float32 {
		cache, err := b.NewCache(kernel.CacheConfig{Layers: 1, KVHeads: 1, HeadDim: d, PageTokens: page, Pages: 1, KV: kv, Shared: shared})
		if err != nil {
			t.Fatal(err)
		}
		for _, rows := range [][]float32{before, x[:n*d]} {
			step := &kernel.Step{Rows: len(rows) / d, Spans: []kernel.Span{{Len: len(rows) / d, Pages: []int32{0}, Prompt: true}}}
			b.StoreKV(cache, 0, upload(b, rows), upload(b, rows), step)
		}
		out := b.NewBuffer(n * d)
		b.Attend(cache, 0, out, upload(b, x[:n*d]), &kernel.Step{Rows: n,
			Spans: []kernel.Span{{Len: n, Pages: []int32{0}, Prompt: true}}}, 1, 0, 1, nil)
		return download(b, out, n*d)
	}
	for _, kv := range kvAll {
		for _, n := range []int{1, 5, 16, 17, 33, 48} {
			for _, shared := range []bool{false, true} {
				same(t, fmt.Sprintf("%s, %d positions, shared %v", kv, n, shared), run(kv, shared, n, bad), run(kv, shared, n, x))
			}
		}
	}
}

// TestPromptUnits: units cover every row of prompts once for each KV head, none is
// larger than its scratch, and there are enough of them unless they would be tiny.
func TestPromptUnits(t *testing.T) {
	for _, c := range []struct{ threads, dim, kvHeads, group, rows, units int }{
		{1, 128, 8, 2, 512, 16}, {2, 128, 8, 2, 512, 16}, {2, 128, 8, 2, 90, 8}, {8, 128, 8, 2, 90, 48}, {16, 128, 8, 2, 1, 8},
		{2, 256, 2, 8, 512, 32}, {2, 1024, 1, 48, 3, 3}, {2, 64, 1, 1, 1000, 8}, {2, 576, 1, 16, 512, 31}, {2, 576, 1, 128, 64, 32},
	} {
		b := &Backend{ops: &ops{prompts: &promptOps{}}, pool: &pool{workers: c.threads - 1}}
		shared := c.dim == 576
		k := &cache{cfg: kernel.CacheConfig{KVHeads: c.kvHeads, HeadDim: c.dim, Shared: shared}, shape: tileShape{dim: c.dim}}
		task := attendTask{b: b, c: k, group: c.group}
		task.planPrompts(&kernel.Step{Rows: 1 + c.rows, Spans: []kernel.Span{{Len: 1}, {Row: 1, Len: c.rows, Prompt: true}}})
		seen := make([]int, c.rows)
		for _, u := range task.prompts {
			if n := u.rows * c.group; n > max(c.group, task.promptMax()) {
				t.Errorf("%+v: a unit of %d queries", c, n)
			}
			for r := range u.rows {
				seen[u.row+r]++
			}
		}
		if len(task.prompts) != c.units || slices.Min(seen) != c.kvHeads || slices.Max(seen) != c.kvHeads {
			t.Errorf("%+v: %d units, rows in %d to %d", c, len(task.prompts), slices.Min(seen), slices.Max(seen))
		}
	}
}
