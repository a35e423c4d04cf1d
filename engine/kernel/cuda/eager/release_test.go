package eager

import (
	"runtime"
	"testing"

	"corenode/engine/kernel/cuda/interp"
)

// TestReleasedMemoryIsFreeAtOnce: work that was queued on it ends first, and nobody gives it back a second time.
func TestReleasedMemoryIsFreeAtOnce(t *testing.T) {
	r := newRig(t, interp.Config{})
	before, _, _ := r.Device.Memory()
	x, y := r.cuda.NewBuffer(1<<16), r.cuda.NewBuffer(1<<16)
	r.cuda.SiLUMul(y, x, x, 1, 1<<16)
	r.cuda.Release(x, y)
	if free, _, err := r.Device.Memory(); free != before || err != nil {
		t.Errorf("%d bytes are free, %d were before: %v", free, before, err)
	}
	x, y = nil, nil
	for range 3 {
		runtime.GC()
		r.cuda.NewBuffer(4)
	}
	if err := r.cuda.Failed(); err != nil {
		t.Error(err)
	}
}
