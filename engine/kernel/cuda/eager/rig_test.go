package eager

import (
	"math"
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/interp"
)

// exact and halves are how far from the reference a result may be, as a relative Frobenius
// error: sums in float32, and weights that were rounded to float16 on the way.
const (
	exact  = 1e-5
	halves = 5e-3
)

var upload, download, distance = devicetest.Upload, devicetest.Download, devicetest.Distance

// rig is a backend of this package on an interpreted device, and the reference.
type rig struct {
	*devicetest.Rig
	cuda *Backend
}

func newRig(t *testing.T, c interp.Config) *rig {
	t.Helper()
	r, b := devicetest.NewRig(t, c, func(d cuda.Driver) (*Backend, error) { return New(d, Options{}) })
	return &rig{r, b}
}

// with is the rig of a subtest.
func (r *rig) with(t *testing.T) *rig { return &rig{r.With(t), r.cuda} }

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %g, and %g otherwise", what, i, got[i], want[i])
		}
	}
}
