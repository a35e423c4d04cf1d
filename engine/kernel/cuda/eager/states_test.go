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

// threeSpans are of eight rows; one saves states.
var threeSpans = []kernel.Span{{Len: 5, Saves: []int32{3, 4}}, {Len: 1, Pos: 7}, {Len: 2}}

// delta runs the step of a layer with threeSpans, then another step from what was saved.
func delta(r *rig, c devicetest.Recurrence, b kernel.Backend, in map[string][]float32) []float32 {
	v := c.On(r, b, in)
	defer v.Cache.Close()
	all := v.Run(1, 0, c.Step())
	v.Cache.CopyState(5, 4) // as it stood after two rows
	v.Cache.ResetState(1)
	for _, slot := range []int32{0, 1, 3, 5} {
		all = append(all, v.Run(1, 0, &kernel.Step{Rows: 2, Spans: []kernel.Span{{Len: 2, Pos: 9, State: slot}}})...)
	}
	return append(all, v.Run(0, 0, &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, State: 2}}})...)
}

func checkRecurrence(r *rig) {
	for _, states := range []kernel.StateType{kernel.StateF32, kernel.StateBF16} {
		limit := exact
		if states == kernel.StateBF16 {
			limit = brains
		}
		for _, c := range []devicetest.Recurrence{
			{KHeads: 1, VHeads: 2, Dim: 64, Taps: 4, Tiled: true}, {KHeads: 2, VHeads: 4, Dim: 32, Taps: 2},
			{KHeads: 1, VHeads: 1, Dim: 128, Taps: 4, Tiled: true},
		} {
			c.States, c.Spans = states, threeSpans
			in := c.Input(r.Random)
			r.Agree(fmt.Sprintf("%+v", c), limit, func(b kernel.Backend) []float32 { return delta(r, c, b, in) })
		}
	}
}

// kept is the memory of a layer's state, of values of so many bytes.
func kept(r *rig, c *devicetest.Layer, layer, slot, each int) []byte {
	b := r.cuda
	at := b.States(c.Cache, layer, c.Shape()) + b.Places(c.Cache).Slot(slot)
	return devicetest.Read(r, b.device, b.stream, at, each*c.VHeads*c.Dim*c.Dim)
}

// TestStatesAreRoundedWhenTheyAreStored: a step from no state computes the same whatever states are stored as.
func TestStatesAreRoundedWhenTheyAreStored(t *testing.T) {
	r := newRig(t, interp.Config{})
	c := devicetest.Recurrence{KHeads: 2, VHeads: 4, Dim: 32, Taps: 4, Spans: threeSpans}
	in := c.Input(r.Random)
	exactly := c.On(r, r.cuda, in)
	c.States = kernel.StateBF16
	rounded := c.On(r, r.cuda, in)
	same(t, "a step from no state", rounded.Run(1, 0, c.Step()), exactly.Run(1, 0, c.Step()))
	for _, slot := range []int{0, 1, 2, 3, 4} {
		devicetest.WantRounded(t, kept(r, rounded, 1, slot, 2), kept(r, exactly, 1, slot, 4))
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
	c := devicetest.Recurrence{KHeads: 1, VHeads: 2, Dim: 64, Taps: 4, Tiled: true, Spans: []kernel.Span{{Len: steps}}}
	in := c.Input(r.Random)
	copy(in["a"], []float32{-1, -0.5})
	copy(in["bias"], []float32{-12, -4})
	for i := range in["alpha"] {
		in["alpha"][i] /= 4
	}
	want := c.On(r, r.Ref, in)
	c.States = kernel.StateBF16
	got := c.On(r, r.cuda, in)
	var results [2][]float32
	for i := range steps {
		step := &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pos: i}}}
		results[0], results[1] = append(results[0], got.Run(1, i, step)...), append(results[1], want.Run(1, i, step)...)
	}
	states := ref.States(want.Cache, 1, 0)
	for head := range c.VHeads {
		size := c.Dim * c.Dim
		far := distance(brainValues(kept(r, got, 1, 0, 2))[head*size:][:size], states[head*size:][:size])
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
