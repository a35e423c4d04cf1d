package devicetest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel"
)

// Attention is a shape of it; spans are position and length.
type Attention struct {
	Heads, KVHeads, Dim, Page int
	Spans                     [][2]int
	Window                    int
	Sinks                     bool
	Shared                    bool
	KV                        kernel.KVType
	Chunk                     int // rows that are stored at a time; 0 is all of a sequence
}

// Input is K, V and queries.
func (c Attention) Input(random *rand.Rand) [3][]float32 {
	tokens, rows := 0, 0
	for _, s := range c.Spans {
		tokens, rows = tokens+s[0]+s[1], rows+s[1]
	}
	width := c.KVHeads * c.Dim
	return [3][]float32{Normals(random, tokens*width, 1), Normals(random, tokens*width, 1), Normals(random, rows*c.Heads*c.Dim, 2)}
}

// Attend stores all positions and attends with the spans' rows.
func (c Attention) Attend(t testing.TB, b kernel.Backend, in [3][]float32) []float32 {
	t.Helper()
	var step kernel.Step
	pages := int32(0)
	for _, s := range c.Spans {
		var table []int32
		for range (s[0] + s[1] + c.Page - 1) / c.Page {
			table = append([]int32{pages}, table...) // not in order
			pages++
		}
		step.Spans = append(step.Spans, kernel.Span{Row: step.Rows, Len: s[1], Pos: s[0], Pages: table})
		step.Rows += s[1]
	}
	cache, err := b.NewCache(kernel.CacheConfig{Layers: 2, KVHeads: c.KVHeads, HeadDim: c.Dim, PageTokens: c.Page, Pages: int(pages),
		KV: c.KV, Shared: c.Shared})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	width, from := c.KVHeads*c.Dim, 0
	for _, s := range step.Spans {
		end := s.Pos + s.Len
		chunk := cmp.Or(c.Chunk, end)
		for at := 0; at < end; at += chunk {
			n := min(chunk, end-at)
			part := kernel.Step{Rows: n, Spans: []kernel.Span{{Len: n, Pos: at, Pages: s.Pages}}}
			for layer := range 2 { // the other layer's must not be seen
				k, v := in[layer][(from+at)*width:], in[1-layer][(from+at)*width:]
				b.StoreKV(cache, layer, Upload(b, k[:n*width]), Upload(b, v[:n*width]), &part)
			}
		}
		from += end
	}
	q, sinks := Upload(b, in[2][:step.Rows*c.Heads*c.Dim]), kernel.Buffer(nil)
	if c.Sinks {
		sinks = Upload(b, in[2][:c.Heads])
	}
	out := b.NewBuffer(q.Len())
	b.Attend(cache, 1, out, q, &step, c.Heads, c.Window, float32(1/math.Sqrt(float64(c.Dim))), sinks)
	return Download(b, out)
}

// Recurrence is a DeltaNet layer, and a step of it: Step says the spans' rows and slots.
type Recurrence struct {
	KHeads, VHeads, Dim, Taps int
	Tiled                     bool
	States                    kernel.StateType
	Spans                     []kernel.Span
}

func (c Recurrence) channels() int { return (2*c.KHeads + c.VHeads) * c.Dim }

// Shape is what backends are told.
func (c Recurrence) Shape() kernel.DeltaShape {
	return kernel.DeltaShape{KHeads: c.KHeads, VHeads: c.VHeads, Dim: c.Dim, ConvKernel: c.Taps, Tiled: c.Tiled, Eps: 1e-6}
}

// Step is of all spans, one behind the other, the first of slot 0.
func (c Recurrence) Step() *kernel.Step {
	step := &kernel.Step{}
	for i, s := range c.Spans {
		s.Row, s.State = step.Rows, int32(i)
		step.Spans = append(step.Spans, s)
		step.Rows += s.Len
	}
	return step
}

// Input is weights, and what the step's rows have.
func (c Recurrence) Input(random *rand.Rand) map[string][]float32 {
	normals := func(n int, scale float64) []float32 { return Normals(random, n, scale) }
	rows, width := c.Step().Rows, c.VHeads*c.Dim
	in := map[string][]float32{
		"conv": normals(c.channels()*c.Taps, 0.5), "a": normals(c.VHeads, 1), "bias": normals(c.VHeads, 1), "norm": normals(c.Dim, 1),
		"qkv": normals(rows*c.channels(), 1), "z": normals(rows*width, 1), "beta": normals(rows*c.VHeads, 1),
		"alpha": normals(rows*c.VHeads, 4),
	}
	for i, a := range in["a"] {
		in["a"][i] = float32(-math.Abs(float64(a)))
	}
	copy(in["alpha"], []float32{-12, 25, -0.1}) // softplus next to 0, where it is the value itself, and between
	return in
}

// Layer is a recurrence on a backend, with a cache of two such layers.
type Layer struct {
	Recurrence
	Cache kernel.Cache
	b     kernel.Backend
	in    map[string][]float32
}

// On makes the layer of an Input. Its user closes the cache.
func (c Recurrence) On(t testing.TB, b kernel.Backend, in map[string][]float32) *Layer {
	t.Helper()
	cache, err := b.NewCache(kernel.CacheConfig{PageTokens: 16, LinearLayers: 2, StateSlots: 6, ConvDim: c.channels(), ConvKernel: c.Taps,
		VHeads: c.VHeads, StateDim: c.Dim, States: c.States})
	if err != nil {
		t.Fatal(err)
	}
	return &Layer{c, cache, b, in}
}

// Run computes a step, whose rows are the input's from one on.
func (l *Layer) Run(layer, from int, step *kernel.Step) []float32 {
	b, n, width := l.b, step.Rows, l.VHeads*l.Dim
	rows := func(name string, wide int) kernel.Buffer { return Upload(b, l.in[name][from*wide:(from+n)*wide]) }
	weights := kernel.DeltaWeights{Conv: Upload(b, l.in["conv"]), A: Upload(b, l.in["a"]), DtBias: Upload(b, l.in["bias"]),
		Norm: Upload(b, l.in["norm"])}
	out := b.NewBuffer(n * width)
	b.DeltaNet(l.Cache, layer, out, rows("qkv", l.channels()), rows("z", width), rows("beta", l.VHeads), rows("alpha", l.VHeads),
		weights, l.Shape(), step)
	return Download(b, out)
}
