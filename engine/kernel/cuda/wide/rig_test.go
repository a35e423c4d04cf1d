package wide

import (
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/interp"
)

// tensor is how far from the reference a result of matrix units may be, as a relative Frobenius error.
const tensor = 5e-3

var upload, download, distance = devicetest.Upload, devicetest.Download, devicetest.Distance

// rig is a backend of this package on an interpreted device, and the reference.
type rig struct {
	*devicetest.Rig
	cuda *Backend
}

func newRig(t *testing.T, c interp.Config) *rig {
	t.Helper()
	r, b := devicetest.NewRig(t, c, func(d cuda.Driver) (*Backend, error) { return New(d, eager.Options{}) })
	b.shapes.GroupBlocks = 2 // each takes several tiles
	return &rig{r, b}
}

// with is the rig of a subtest.
func (r *rig) with(t *testing.T) *rig { return &rig{r.With(t), r.cuda} }
