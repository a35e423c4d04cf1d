package eager

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/kernel/ref"
)

// brains is how far from the reference a result may be where both round states to bfloat16: a value in the middle
// between two may become either. It was 6e-7 at most.
const brains = 1e-4

// recurrenceCase is a DeltaNet layer.
type recurrenceCase struct {
	kHeads, vHeads, d, taps int
	tiled                   bool
	states                  kernel.StateType
}

// recurrence is such a layer on a backend, with a cache of two.
type recurrence struct {
	recurrenceCase
	b     kernel.Backend
	cache kernel.Cache
	in    map[string][]float32
}

func (c recurrenceCase) on(r *rig, b kernel.Backend, in map[string][]float32) *recurrence {
	cache, err := b.NewCache(kernel.CacheConfig{PageTokens: 16, LinearLayers: 2, StateSlots: 6, ConvDim: c.channels(), ConvKernel: c.taps,
		VHeads: c.vHeads, StateDim: c.d, States: c.states})
	if err != nil {
		r.Fatal(err)
	}
	return &recurrence{c, b, cache, in}
}

func (c recurrenceCase) channels() int { return (2*c.kHeads + c.vHeads) * c.d }

func (c recurrenceCase) shape() kernel.DeltaShape {
	return kernel.DeltaShape{KHeads: c.kHeads, VHeads: c.vHeads, Dim: c.d, ConvKernel: c.taps, Tiled: c.tiled, Eps: 1e-6}
}

// run computes a step, whose rows are the input's from one on.
func (c *recurrence) run(layer, from int, step *kernel.Step) []float32 {
	b, n, width := c.b, step.Rows, c.vHeads*c.d
	rows := func(name string, wide int) kernel.Buffer { return upload(b, c.in[name][from*wide:(from+n)*wide]) }
	weights := kernel.DeltaWeights{Conv: upload(b, c.in["conv"]), A: upload(b, c.in["a"]), DtBias: upload(b, c.in["bias"]),
		Norm: upload(b, c.in["norm"])}
	out := b.NewBuffer(n * width)
	b.DeltaNet(c.cache, layer, out, rows("qkv", c.channels()), rows("z", width), rows("beta", c.vHeads), rows("alpha", c.vHeads),
		weights, c.shape(), step)
	return download(b, out)
}

// spans are three, one of which saves states.
func (recurrenceCase) spans() *kernel.Step {
	return &kernel.Step{Rows: 8, Spans: []kernel.Span{
		{Len: 5, State: 0, Saves: []int32{3, 4}}, {Row: 5, Len: 1, Pos: 7, State: 1}, {Row: 6, Len: 2, State: 2},
	}}
}

// delta runs a step of three spans, one of which saves states, then another step from what was saved.
func (c recurrenceCase) delta(r *rig, b kernel.Backend, in map[string][]float32) []float32 {
	v := c.on(r, b, in)
	defer v.cache.Close()
	all := v.run(1, 0, c.spans())
	v.cache.CopyState(5, 4) // as it stood after two rows
	v.cache.ResetState(1)
	for _, slot := range []int32{0, 1, 3, 5} {
		all = append(all, v.run(1, 0, &kernel.Step{Rows: 2, Spans: []kernel.Span{{Len: 2, Pos: 9, State: slot}}})...)
	}
	return append(all, v.run(0, 0, &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, State: 2}}})...)
}

func (c recurrenceCase) input(r *rig, rows int) map[string][]float32 {
	width := c.vHeads * c.d
	in := map[string][]float32{
		"conv": r.Normals(c.channels()*c.taps, 0.5), "a": r.Normals(c.vHeads, 1), "bias": r.Normals(c.vHeads, 1), "norm": r.Normals(c.d, 1),
		"qkv": r.Normals(rows*c.channels(), 1), "z": r.Normals(rows*width, 1), "beta": r.Normals(rows*c.vHeads, 1),
		"alpha": r.Normals(rows*c.vHeads, 4),
	}
	for i, a := range in["a"] {
		in["a"][i] = float32(-math.Abs(float64(a)))
	}
	copy(in["alpha"], []float32{-12, 25, -0.1}) // softplus next to 0, where it is the value itself, and between
	return in
}

func checkRecurrence(r *rig) {
	for _, states := range []kernel.StateType{kernel.StateF32, kernel.StateBF16} {
		limit := exact
		if states == kernel.StateBF16 {
			limit = brains
		}
		for _, c := range []recurrenceCase{{1, 2, 64, 4, true, states}, {2, 4, 32, 2, false, states}, {1, 1, 128, 4, true, states}} {
			in := c.input(r, 8)
			r.Agree(fmt.Sprintf("%+v", c), limit, func(b kernel.Backend) []float32 { return c.delta(r, b, in) })
		}
	}
}

// kept is the memory of a layer's state, of values of so many bytes.
func (c *recurrence) kept(r *rig, layer, slot, each int) []byte {
	b := r.cuda
	at := b.States(c.cache, layer, c.shape()) + b.Places(c.cache).Slot(slot)
	return devicetest.Read(r, b.device, b.stream, at, each*c.vHeads*c.d*c.d)
}

// TestStatesAreRoundedWhenTheyAreStored: a step from no state computes the same whatever states are stored as.
func TestStatesAreRoundedWhenTheyAreStored(t *testing.T) {
	r := newRig(t, interp.Config{})
	c := recurrenceCase{2, 4, 32, 4, false, kernel.StateF32}
	in := c.input(r, 8)
	exactly := c.on(r, r.cuda, in)
	c.states = kernel.StateBF16
	rounded := c.on(r, r.cuda, in)
	same(t, "a step from no state", rounded.run(1, 0, c.spans()), exactly.run(1, 0, c.spans()))
	for _, slot := range []int{0, 1, 2, 3, 4} {
		devicetest.WantRounded(t, rounded.kept(r, 1, slot, 2), exactly.kept(r, 1, slot, 4))
	}
}

// TestStatesThatTheDeviceHasNoRoomFor: a block keeps a state in its shared memory, which some devices have less of than Hopper.
// So the start fails, and not the first step.
func TestStatesThatTheDeviceHasNoRoomFor(t *testing.T) {
	b, err := New(interp.Open(interp.Config{Shared: 99 << 10}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for dim, fits := range map[int]bool{128: true, 160: false, 192: false} {
		c, err := b.NewCache(kernel.CacheConfig{PageTokens: 16, LinearLayers: 1, StateSlots: 1, ConvDim: 3 * dim, ConvKernel: 4,
			VHeads: 1, StateDim: dim})
		if (err == nil) != fits || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("states of %d", dim)) {
			t.Errorf("states of %d: %v", dim, err)
		}
		if err == nil {
			c.Close()
		}
	}
}

// What states as bfloat16 may be away from the reference's in float32 after many steps, and what was computed from them
// in all of the steps. They were 0.016 and 0.01.
const (
	stateFar  = 0.032
	resultFar = 0.02
)

// TestStatesStayNearForManySteps has a head that forgets little, where errors add up, and one that forgets.
func TestStatesStayNearForManySteps(t *testing.T) {
	r := newRig(t, interp.Config{})
	const steps = 512
	c := recurrenceCase{1, 2, 64, 4, true, kernel.StateF32}
	in := c.input(r, steps)
	copy(in["a"], []float32{-1, -0.5})
	copy(in["bias"], []float32{-12, -4})
	for i := range in["alpha"] {
		in["alpha"][i] /= 4
	}
	want := c.on(r, r.Ref, in)
	c.states = kernel.StateBF16
	got := c.on(r, r.cuda, in)
	var results [2][]float32
	for i := range steps {
		step := &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pos: i}}}
		results[0], results[1] = append(results[0], got.run(1, i, step)...), append(results[1], want.run(1, i, step)...)
	}
	states := ref.States(want.cache, 1, 0)
	for head := range c.vHeads {
		size := c.d * c.d
		far := distance(brainValues(got.kept(r, 1, 0, 2))[head*size:][:size], states[head*size:][:size])
		t.Logf("head %d: error of the state %.2g", head, far)
		if !(far <= stateFar) {
			t.Errorf("head %d: the state is %g away, at most %g", head, far, stateFar)
		}
	}
	far := distance(results[0], results[1])
	t.Logf("error of the results %.2g", far)
	if !(far <= resultFar) {
		t.Errorf("results are %g away, at most %g", far, resultFar)
	}
}

func brainValues(b []byte) []float32 {
	v := make([]float32, len(b)/2)
	for i := range v {
		v[i] = math.Float32frombits(uint32(b[2*i])<<16 | uint32(b[2*i+1])<<24)
	}
	return v
}
