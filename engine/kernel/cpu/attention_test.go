package cpu

import (
	"fmt"
	"math"
	"testing"

	"corenode/engine/kernel"
)

// attnCase is a model shape and the state of its sequences before the step.
type attnCase struct {
	heads, kvHeads, dim int
	page                int
	spans               [][2]int // position, length
	prompts             int      // of the spans, the last ones
	absolute            bool     // V is not negative
	window              int
	sinks               bool
	shared              bool // V is K; with absolute it is stored for itself
}

// run fills the pages in chunks (as prefills would) and returns the output of
// the last step. k, v and q are as long as all sequences together.
func (c attnCase) run(t *testing.T, b kernel.Backend, kv kernel.KVType, seed uint64, chunk int) []float32 {
	t.Helper()
	pages := int32(0)
	var step kernel.Step
	for i, s := range c.spans {
		table := []int32{}
		for range (s[0] + s[1] + c.page - 1) / c.page {
			table = append(table, pages)
			pages++
		}
		step.Spans = append(step.Spans, kernel.Span{Row: step.Rows, Len: s[1], Pos: s[0], Pages: table,
			Prompt: i >= len(c.spans)-c.prompts})
		step.Rows += s[1]
	}
	cache, err := b.NewCache(kernel.CacheConfig{Layers: 2, KVHeads: c.kvHeads, HeadDim: c.dim, PageTokens: c.page, Pages: int(pages),
		KV: kv, Shared: c.shared && !c.absolute})
	if err != nil {
		t.Fatal(err)
	}
	width := c.kvHeads * c.dim
	for i, s := range c.spans {
		k, v := normals(newRand(seed+uint64(i)), (s[0]+s[1])*width, 1), normals(newRand(seed+50+uint64(i)), (s[0]+s[1])*width, 1)
		if c.absolute {
			of := v
			if c.shared {
				of = k
			}
			for j, x := range of {
				v[j] = float32(math.Abs(float64(x)))
			}
		}
		for at := 0; at < s[0]+s[1]; at += chunk {
			n := min(chunk, s[0]+s[1]-at)
			part := kernel.Step{Rows: n, Spans: []kernel.Span{{Len: n, Pos: at, Pages: step.Spans[i].Pages}}}
			b.StoreKV(cache, 1, upload(b, k[at*width:(at+n)*width]), upload(b, v[at*width:(at+n)*width]), &part)
		}
	}
	var q []float32
	for i, s := range c.spans { // queries of a sequence do not depend on the others
		q = append(q, normals(newRand(seed+100+uint64(i)), (s[0]+s[1])*c.heads*c.dim, 2)[s[0]*c.heads*c.dim:]...)
	}
	out, sinks := b.NewBuffer(step.Rows*c.heads*c.dim), kernel.Buffer(nil)
	if c.sinks {
		sinks = upload(b, normals(newRand(seed+200), c.heads, 3))
	}
	b.Attend(cache, 1, out, upload(b, q), &step, c.heads, c.window, float32(1/math.Sqrt(float64(c.dim))), sinks)
	return download(b, out, step.Rows*c.heads*c.dim)
}

var attnCases = []attnCase{
	{heads: 1, kvHeads: 1, dim: 16, page: 16, spans: [][2]int{{0, 1}}},
	{heads: 4, kvHeads: 2, dim: 64, page: 16, spans: [][2]int{{0, 17}}},
	{heads: 4, kvHeads: 2, dim: 128, page: 32, spans: [][2]int{{530, 3}, {0, 5}, {40, 1}}},
	{heads: 8, kvHeads: 1, dim: 64, page: 64, spans: [][2]int{{1100, 2}}},
	{heads: 12, kvHeads: 2, dim: 256, page: 16, spans: [][2]int{{31, 1}, {511, 2}}},
	{heads: 6, kvHeads: 2, dim: 24, page: 16, spans: [][2]int{{10, 30}}},  // a head dimension that is padded
	{heads: 2, kvHeads: 2, dim: 32, page: 32, spans: [][2]int{{600, 70}}}, // more rows than a query block, two ranges
	{heads: 4, kvHeads: 2, dim: 64, page: 16, spans: [][2]int{{0, 40}, {9, 1}}, window: 7},
	{heads: 4, kvHeads: 1, dim: 256, page: 16, spans: [][2]int{{500, 70}, {1500, 1}, {3, 2}, {1023, 2}}, window: 512},
	{heads: 8, kvHeads: 2, dim: 32, page: 64, spans: [][2]int{{1100, 3}, {20, 1}}, window: 1},
	{heads: 2, kvHeads: 2, dim: 32, page: 32, spans: [][2]int{{480, 200}}, window: 60, prompts: 1},
	{heads: 2, kvHeads: 1, dim: 32, page: 32, spans: [][2]int{{5000, 1}, {30, 1}}, window: 1000},
	{heads: 6, kvHeads: 2, dim: 64, page: 16, spans: [][2]int{{600, 40}, {9, 1}}, window: 60, sinks: true},
	{heads: 8, kvHeads: 1, dim: 32, page: 32, spans: [][2]int{{0, 70}, {1100, 2}}, prompts: 2, sinks: true},
	{heads: 20, kvHeads: 1, dim: 576, page: 16, spans: [][2]int{{40, 30}, {600, 1}}}, // latent
	{heads: 20, kvHeads: 1, dim: 96, page: 32, spans: [][2]int{{40, 30}, {600, 1}}, shared: true},
	{heads: 30, kvHeads: 1, dim: 72, page: 16, spans: [][2]int{{520, 4}, {0, 9}, {3, 1}}, shared: true, prompts: 2},
	{heads: 3, kvHeads: 1, dim: 40, page: 16, spans: [][2]int{{5, 1}, {1100, 4}}, shared: true},
}

var kvAll = []kernel.KVType{kernel.KVF16, kernel.KVF32, kernel.KVQ8}

// TestAttend allows prompts on matrix tiles what TestPromptAttend says.
func TestAttend(t *testing.T) {
	type bounded struct {
		want    []float32
		prompts func(j int) float64
	}
	known := map[kernel.KVType][]bounded{}
	for _, kv := range kvAll {
		for i, c := range attnCases {
			known[kv] = append(known[kv], bounded{c.run(t, reference, kv, uint64(i), 1<<20), promptBound(t, c, kv, uint64(i))})
		}
	}
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 2})
		for _, kv := range kvAll {
			for i, c := range attnCases {
				want, prompts := known[kv][i].want, known[kv][i].prompts
				exact, generated := relative(want, 1e-5), 0
				for _, s := range c.spans[:len(c.spans)-c.prompts] {
					generated += s[1] * c.heads * c.dim
				}
				near(t, fmt.Sprintf("%s %+v", kv, c), c.run(t, b, kv, uint64(i), 1<<20), want, func(j int) float64 {
					if b.ops.prompts != nil && j >= generated {
						return prompts(j)
					}
					return exact(j)
				})
			}
		}
	})
}

// TestAttendBits compares with one thread, pages of 16 and prefill in one piece,
// which stores whole tiles where pieces of 7 rows store none and those of 37 some.
func TestAttendBits(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		one := open(t, Options{Level: level, Threads: 1})
		var others []*Backend
		for _, threads := range []int{1, 2, 5} {
			others = append(others, open(t, Options{Level: level, Threads: threads}))
		}
		for _, kv := range kvAll {
			for i, c := range attnCases {
				c.page = 16
				want := c.run(t, one, kv, uint64(i), 1<<20)
				for j, b := range others {
					c.page = []int{16, 32, 64}[(i+j)%3]
					same(t, fmt.Sprintf("%s %+v, %d threads", kv, c, b.Threads()), c.run(t, b, kv, uint64(i), []int{7, 37}[j%2]), want)
				}
			}
		}
	})
}

// TestAttendWaves: the results of ranges take the memory that they may and give
// the same bits, however many pass at a time.
func TestAttendWaves(t *testing.T) {
	c := attnCase{heads: 4, kvHeads: 2, dim: 32, page: 16, spans: [][2]int{{8000, 60}, {700, 2}}}
	const size, threads = 120 * 32, 3 // of a result of the longer span
	forLevels(t, func(t *testing.T, level string) {
		want := c.run(t, open(t, Options{Level: level, Threads: 1}), kernel.KVF16, 1, 1<<20)
		for _, most := range []int{1, 24 * size, attendFloats} {
			b := open(t, Options{Level: level, Threads: threads})
			b.attend.floatsMax = most
			same(t, fmt.Sprintf("at most %d", most), c.run(t, b, kernel.KVF16, 1, 1<<20), want)
			if b.attend.wave == 0 {
				t.Fatal("the units were not split: the test is of no use")
			}
			taken := 0
			for _, p := range b.attend.parts {
				taken += cap(p.out)
			}
			if may := max(most, (4*threads+len(b.attend.units))*size); taken > may {
				t.Errorf("results of ranges take %d values, want at most %d", taken, may)
			}
		}
	})
}

// TestEightBitStorage: attention that sees one position gives back what is
// stored, on every level exactly what the reference says 8 bits keep.
func TestEightBitStorage(t *testing.T) {
	const heads, d = 6, 128
	v := normals(newRand(3), heads*d, 1)
	block := func(head, b int) []float32 { return v[head*d+b*kernel.KVBlock:][:kernel.KVBlock] }
	clear(block(0, 1)) // zeros have no scale
	for i := range kernel.KVBlock {
		block(1, 0)[i] *= 1e-7 // the scale is a subnormal float16
		block(1, 1)[i] *= 1e-12
		block(2, 0)[i] *= 1e7 // beyond the largest scale
		block(3, 0)[i] = float32(i) - 15.5
	}
	block(4, 0)[7] = 1e4 // one value that makes its block coarse, and no other
	run := func(b kernel.Backend) []float32 {
		cache, err := b.NewCache(kernel.CacheConfig{Layers: 1, KVHeads: heads, HeadDim: d, PageTokens: 16, Pages: 1, KV: kernel.KVQ8})
		if err != nil {
			t.Fatal(err)
		}
		step := &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pages: []int32{0}}}}
		b.StoreKV(cache, 0, upload(b, v), upload(b, v), step)
		out := b.NewBuffer(heads * d)
		b.Attend(cache, 0, out, upload(b, make([]float32, heads*d)), step, heads, 0, 1, nil)
		return download(b, out, heads*d)
	}
	want := run(reference)
	if worst := want[5*d] - v[5*d]; worst == 0 || math.Abs(float64(worst)) > 4.0/254 {
		t.Fatalf("the reference keeps %g as %g: want it rounded, a little", v[5*d], want[5*d])
	}
	forLevels(t, func(t *testing.T, level string) {
		same(t, "stored", run(open(t, Options{Level: level})), want)
	})
}

// TestAttendRowsAlone computes the rows of a prefill one by one.
func TestAttendRowsAlone(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 2})
		for g, group := range []int{1, 3, 4, 8} {
			kv := kvAll[g%len(kvAll)]
			if level != "portable" {
				kv = kvAll[(g+1)%len(kvAll)]
			}
			c := attnCase{heads: 2 * group, kvHeads: 2, dim: 64, page: 16, spans: [][2]int{{500, 40}}}
			all := c.run(t, b, kv, 1, 1<<20)
			row := c.heads * c.dim
			for i := 0; i < 40; i += 3 {
				c.spans = [][2]int{{500 + i, 1}}
				same(t, fmt.Sprintf("%s group %d row %d", kv, group, i), c.run(t, b, kv, 1, 16), all[i*row:(i+1)*row])
			}
		}
	})
}

// TestAttendIgnoresOldPages checks that what an earlier owner left in a page,
// even infinities, does not leak into a row that cannot see it.
func TestAttendIgnoresOldPages(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 1})
		cache, err := b.NewCache(kernel.CacheConfig{Layers: 1, KVHeads: 1, HeadDim: 16, PageTokens: 16, Pages: 1})
		if err != nil {
			t.Fatal(err)
		}
		bad := make([]float32, 16*16)
		for i := range bad {
			bad[i] = float32(math.Inf(1 - i%2*2))
		}
		store := func(x []float32) {
			n := len(x) / 16
			b.StoreKV(cache, 0, upload(b, x), upload(b, x), &kernel.Step{Rows: n, Spans: []kernel.Span{{Len: n, Pages: []int32{0}}}})
		}
		store(bad)
		x := normals(newRand(1), 5*16, 1)
		store(x)
		out := b.NewBuffer(16)
		b.Attend(cache, 0, out, upload(b, x[:16]),
			&kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pos: 4, Pages: []int32{0}}}}, 1, 0, 1, nil)
		for i, v := range download(b, out, 16) {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Fatalf("value %d is %g", i, v)
			}
		}
	})
}
