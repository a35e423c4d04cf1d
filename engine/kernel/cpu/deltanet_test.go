package cpu

import (
	"fmt"
	"testing"

	"corenode/engine/kernel"
)

// deltaCase is a DeltaNet layer, and sequences with the cuts of their prefill.
type deltaCase struct {
	kHeads, vHeads, dim int
	tiled               bool
	cuts                [][]int // per sequence: lengths of its steps
}

// run computes all sequences, step i of each in one batch, and returns each
// sequence's rows.
func (c deltaCase) run(t *testing.T, b kernel.Backend) [][]float32 {
	t.Helper()
	const taps = 4
	conv, width := (2*c.kHeads+c.vHeads)*c.dim, c.vHeads*c.dim
	cache, err := b.NewCache(kernel.CacheConfig{PageTokens: 16, LinearLayers: 2, StateSlots: len(c.cuts), ConvDim: conv, ConvKernel: taps, VHeads: c.vHeads, StateDim: c.dim})
	if err != nil {
		t.Fatal(err)
	}
	r := newRand(50)
	a := normals(r, c.vHeads, 1)
	for i := range a {
		a[i] = -a[i] * a[i]
	}
	w := kernel.DeltaWeights{Conv: upload(b, normals(r, conv*taps, 0.5)), A: upload(b, a), DtBias: upload(b, normals(r, c.vHeads, 1)), Norm: upload(b, normals(r, c.dim, 1))}
	shape := kernel.DeltaShape{KHeads: c.kHeads, VHeads: c.vHeads, Dim: c.dim, ConvKernel: taps, Tiled: c.tiled, Eps: 1e-6}
	result, pos := make([][]float32, len(c.cuts)), make([]int, len(c.cuts))
	for more, i := true, 0; more; i++ {
		more = false
		var step kernel.Step
		var in [4][]float32 // qkv, z, beta, alpha
		for s, cuts := range c.cuts {
			if i >= len(cuts) {
				continue
			}
			more = true
			step.Spans = append(step.Spans, kernel.Span{Row: step.Rows, Len: cuts[i], Pos: pos[s], State: int32(s)})
			step.Rows += cuts[i]
			for k, wide := range []int{conv, width, c.vHeads, c.vHeads} {
				all := normals(newRand(uint64(s*10+k)), 200*wide, 1)
				in[k] = append(in[k], all[pos[s]*wide:(pos[s]+cuts[i])*wide]...)
			}
			pos[s] += cuts[i]
		}
		if !more {
			break
		}
		out := b.NewBuffer(step.Rows * width)
		b.DeltaNet(cache, 1, out, upload(b, in[0]), upload(b, in[1]), upload(b, in[2]), upload(b, in[3]), w, shape, &step)
		all := download(b, out, step.Rows*width)
		for _, s := range step.Spans {
			result[s.State] = append(result[s.State], all[s.Row*width:(s.Row+s.Len)*width]...)
		}
	}
	return result
}

var deltaCases = []deltaCase{
	{1, 1, 16, false, [][]int{{1, 1, 1, 1, 1, 1}}},
	{2, 4, 64, true, [][]int{{30}, {5, 1, 9}}},
	{2, 4, 128, false, [][]int{{20, 1, 1}}},
	{1, 2, 24, true, [][]int{{7, 2}}},
}

func TestDeltaNet(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		for _, c := range deltaCases {
			b := open(t, Options{Level: level, Threads: 2})
			got, want := c.run(t, b), c.run(t, reference)
			for s := range want {
				near(t, fmt.Sprintf("%+v sequence %d", c, s), got[s], want[s], relative(want[s], 2e-5))
			}
		}
	})
}

// TestDeltaNetBits cuts the same sequences differently, alone and together.
func TestDeltaNetBits(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		for _, threads := range []int{1, 3} {
			b := open(t, Options{Level: level, Threads: threads})
			c := deltaCase{2, 4, 64, true, [][]int{{40}}}
			want := c.run(t, open(t, Options{Level: level, Threads: 1}))[0]
			for _, cuts := range [][][]int{{{1, 1, 38}}, {{2, 17, 1, 20}, {40}}, {{3, 3, 34}, {1, 1}, {9, 31}}} {
				c.cuts = cuts
				same(t, fmt.Sprintf("cuts %v", cuts), c.run(t, b)[0], want)
			}
		}
	})
}

func TestStateSlots(t *testing.T) {
	b := open(t, Options{Threads: 1})
	kc, err := b.NewCache(kernel.CacheConfig{PageTokens: 16, LinearLayers: 1, StateSlots: 3, ConvDim: 48, ConvKernel: 4, VHeads: 1, StateDim: 16})
	if err != nil {
		t.Fatal(err)
	}
	if n := kc.BytesUsed(); n != 0 {
		t.Fatalf("%d bytes before the first use", n)
	}
	c := kc.(*cache)
	c.ResetState(0)
	one := c.BytesUsed()
	c.slots[0].s[5], c.slots[0].conv[7] = 3, 4
	c.CopyState(2, 0)
	if c.slots[2].s[5] != 3 || c.slots[2].conv[7] != 4 || c.BytesUsed() != 2*one || one == 0 {
		t.Fatalf("copy holds %g and %g in %d bytes", c.slots[2].s[5], c.slots[2].conv[7], c.BytesUsed())
	}
	c.ResetState(2)
	if c.slots[2].s[5] != 0 || c.slots[0].s[5] != 3 {
		t.Fatal("reset did not clear its slot, or cleared another")
	}
	c.ReleaseState(0)
	c.ReleaseState(2)
	c.ReleaseState(1) // never used
	if n := c.BytesUsed(); n != 0 {
		t.Fatalf("%d bytes after releasing all", n)
	}
}
