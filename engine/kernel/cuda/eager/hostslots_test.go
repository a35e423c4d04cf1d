package eager

import (
	"errors"
	"slices"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/interp"
)

// stateCache has two slots on the device, and two in host memory behind them.
var stateCache = kernel.CacheConfig{
	PageTokens: 16, LinearLayers: 1, StateSlots: 2, HostSlots: 2, ConvDim: 96, ConvKernel: 4, VHeads: 1, StateDim: 32,
}

func TestStatesComeBackFromTheHost(t *testing.T) {
	r := newRig(t, interp.Config{})
	kc, err := r.cuda.NewCache(stateCache)
	if err != nil {
		t.Fatal(err)
	}
	defer kc.Close()
	c := kc.(*cache)
	values := int(slotFloats(stateCache))
	want := [][]float32{r.Normals(values, 1), r.Normals(values, 1)}
	slot := func(i int32) *buffer { return &buffer{at: c.slot(i), n: values} }
	for i, v := range want {
		r.cuda.Upload(slot(int32(i)), 0, v)
		kc.CopyState(int32(2+i), int32(i)) // nobody waits: the slot is written to again by what is queued next
		kc.ResetState(int32(i))
	}
	kc.CopyState(0, 3)
	kc.CopyState(1, 2)
	for i, v := range want {
		if got := download(r.cuda, slot(int32(1-i))); !slices.Equal(got, v) {
			t.Errorf("state %d came back with other values", i)
		}
	}
	if c.bytes != 4*2*int64(values) {
		t.Errorf("the cache says that it takes %d bytes of the device, want those of two slots", c.bytes)
	}
	for name, wrong := range map[string]func(){
		"behind the last": func() { kc.CopyState(4, 0) }, "within the host": func() { kc.CopyState(2, 3) },
		"reset": func() { kc.ResetState(2) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: a slot was taken that nothing can be done on", name)
				}
			}()
			wrong()
		}()
	}
}

// noHostMemory is a device beside which there is little page-locked memory.
type noHostMemory struct{ cuda.Driver }

func (d noHostMemory) AllocHost(bytes int) ([]byte, error) {
	if bytes > stagingBytes {
		return nil, &cuda.Error{Code: cuda.OutOfMemory, Op: "alloc host", Msg: "too much"}
	}
	return d.Driver.AllocHost(bytes)
}

// TestACacheWithoutItsHostMemoryIsNone: what was taken of the device is given back, and the backend is well.
func TestACacheWithoutItsHostMemoryIsNone(t *testing.T) {
	r := newRig(t, interp.Config{})
	r.cuda.device = noHostMemory{r.Device}
	before, _, err := r.Device.Memory()
	if err != nil {
		t.Fatal(err)
	}
	cfg := stateCache
	cfg.HostSlots = 1 + stagingBytes/4/int(slotFloats(cfg))
	var e *cuda.Error
	if _, err := r.cuda.NewCache(cfg); !errors.As(err, &e) || e.Code != cuda.OutOfMemory {
		t.Fatalf("the cache is made with %v", err)
	}
	if after, _, err := r.Device.Memory(); err != nil || after != before || r.cuda.Failed() != nil {
		t.Errorf("%d bytes are free (%v), %d were before; the backend: %v", after, err, before, r.cuda.Failed())
	}
}
