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
	{attnCase{heads: 16, kvHeads: 8, dim: 128, page: 32, spans: [][2]int{{2000, 33}}}, 0},
	{attnCase{heads: 4, kvHeads: 2, dim: 128, page: 64, spans: [][2]int{{530, 3}, {37, 1}, {0, 5}, {40, 17}, {500, 64}}}, 2},
	{attnCase{heads: 16, kvHeads: 2, dim: 256, page: 16, spans: [][2]int{{31, 1}, {511, 20}, {96, 32}}}, 1},
	{attnCase{heads: 12, kvHeads: 4, dim: 96, page: 32, spans: [][2]int{{127, 2}, {128, 31}}}, 0}, // groups of 3
	{attnCase{heads: 6, kvHeads: 2, dim: 24, page: 16, spans: [][2]int{{10, 30}, {1015, 41}}}, 0}, // a head dimension that is padded
	{attnCase{heads: 2, kvHeads: 2, dim: 64, page: 64, spans: [][2]int{{300, 600}}}, 0},           // more rows than a unit
	{attnCase{heads: 40, kvHeads: 1, dim: 32, page: 16, spans: [][2]int{{111, 9}}}, 0},            // more heads than a tile
}

// openPrompts opens level amx with so many threads.
func openPrompts(t testing.TB, threads int) *Backend {
	t.Helper()
	if !slices.Contains(Levels(), "amx") {
		t.Skip("this processor and system have no level amx")
	}
	b := open(t, Options{Level: "amx", Threads: threads})
	if b.ops.prompts == nil {
		t.Skip("this processor has no matrix tiles of bfloat16")
	}
	return b
}

// run is attnCase.run with spans that are prompts.
func (c promptCase) run(t *testing.T, b kernel.Backend, kv kernel.KVType, seed uint64) []float32 {
	t.Helper()
	c.prompts = len(c.spans) - c.generated
	return c.attnCase.run(t, b, kv, seed, 1<<20)
}

// TestPromptAttend allows for two parts of 8 bits of each number: 2^-16 of a
// product where both are rounded, and what the errors of scores make of weights.
func TestPromptAttend(t *testing.T) {
	b := openPrompts(t, 2)
	for _, kv := range kvAll {
		for i, c := range promptCases {
			want := c.run(t, reference, kv, uint64(i))
			c.absolute = true
			sizes := c.run(t, reference, kv, uint64(i)) // sums of weights times sizes of V
			c.absolute = false
			got := c.run(t, b, kv, uint64(i))
			head := func(j int) float64 { return float64(slices.Max(sizes[j/c.dim*c.dim:][:c.dim])) }
			var worst float64
			for j := range got {
				worst = max(worst, math.Abs(float64(got[j])-float64(want[j]))/(float64(sizes[j])+head(j)))
			}
			t.Logf("%v %+v: %.2g", kv, c, worst)
			near(t, fmt.Sprintf("%s %+v", kv, c), got, want, func(j int) float64 { return 2e-5 * (float64(sizes[j]) + head(j)) })
		}
	}
}
