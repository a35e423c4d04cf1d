package engine

import (
	"fmt"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/fused"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/model"
)

// TestWhatADeviceHasLeftIsDivided: what the config leaves open gets a part of what is left beside what it says, no more
// than is of use, so that nothing is idle where others have a use for it, whatever their order. A quarter of a part is for
// states, and all of it where pages are said.
func TestWhatADeviceHasLeftIsDivided(t *testing.T) {
	plain := func(pages int64) claim { return claim{pages: pages, pagesMax: 2000} }
	hybrid := func(pages, states int64) claim { return claim{pages, states, 2000, 2000} }
	small := claim{pagesMax: 100}
	for _, c := range []struct {
		claims []claim
		want   [][2]int64
	}{
		{[]claim{plain(0)}, [][2]int64{{900, 0}}},
		{[]claim{plain(300)}, [][2]int64{{300, 0}}},
		{[]claim{hybrid(0, 0)}, [][2]int64{{675, 225}}},
		{[]claim{hybrid(0, 400)}, [][2]int64{{500, 400}}},
		{[]claim{hybrid(300, 0)}, [][2]int64{{300, 600}}},
		{[]claim{hybrid(300, 400)}, [][2]int64{{300, 400}}},
		{[]claim{hybrid(0, 1000)}, [][2]int64{{0, 1000}}},
		{[]claim{{pagesMax: 2000, statesMax: 50}}, [][2]int64{{850, 50}}},
		{[]claim{{pagesMax: 100, statesMax: 2000}}, [][2]int64{{100, 800}}},
		{[]claim{plain(0), plain(0), plain(0)}, [][2]int64{{300, 0}, {300, 0}, {300, 0}}},
		{[]claim{plain(0), plain(500)}, [][2]int64{{400, 0}, {500, 0}}},
		{[]claim{small, plain(0), plain(0)}, [][2]int64{{100, 0}, {400, 0}, {400, 0}}},
		{[]claim{plain(0), small}, [][2]int64{{800, 0}, {100, 0}}},
		{[]claim{plain(0), small, plain(0)}, [][2]int64{{400, 0}, {100, 0}, {400, 0}}},
		{[]claim{hybrid(100, 0), plain(0)}, [][2]int64{{100, 400}, {400, 0}}},
		{[]claim{plain(0), {pages: 100, pagesMax: 2000, statesMax: 50}}, [][2]int64{{750, 0}, {100, 50}}},
	} {
		got := append([]claim{}, c.claims...)
		divide(900, got)
		for i, want := range c.want {
			if got[i].pages != want[0] || got[i].states != want[1] {
				t.Errorf("of %+v, number %d gets %d and %d, want %v", c.claims, i, got[i].pages, got[i].states, want)
			}
		}
	}
}

// shared is a device that several models have opened.
type shared struct {
	cuda.Driver
	sizes map[int64]bool // of what was taken before anyone asked what is left
	asked bool
	lacks int64 // what it has no memory for
}

func (d *shared) Alloc(bytes int64) (cuda.Pointer, error) {
	if bytes == d.lacks {
		return 0, &cuda.Error{Code: cuda.OutOfMemory, Op: "alloc", Msg: "too much"}
	}
	if !d.asked {
		d.sizes[bytes] = true
	}
	return d.Driver.Alloc(bytes)
}

func (d *shared) Memory() (free, total int64, err error) {
	d.asked = true
	return d.Driver.Memory()
}

func (*shared) Close() error { return nil } // others are on it

// of is the options of a model on it.
func (d *shared) of(id string) Options {
	o := options(CUDA)
	o.ID, o.Path, o.Data, o.ContextLength = id, "model/testdata/parity/tiny-qwen3-f16.gguf", nil, 0
	o.Cache.Bytes, o.Cache.StateBytes, o.Batch.SequencesMax = 0, 0, 64
	o.OpenDevice = func() (kernel.Backend, error) { return fused.New(d, eager.Options{}) }
	return o
}

func onSharedDevice(t *testing.T, bytes int64) *shared {
	d := devicetest.Open(t, interp.Config{Workers: 2, Memory: bytes})
	t.Cleanup(func() { d.Close() })
	return &shared{Driver: d, sizes: map[int64]bool{}}
}

// TestModelsShareADevice: each of them gets the memory of its step loop, an equal part, without a word in the config.
func TestModelsShareADevice(t *testing.T) {
	if devicetest.OnGPU() {
		t.Skip("a GPU is so large that the parts are not seen")
	}
	d := onSharedDevice(t, 48<<20)
	var all []*Engine
	for _, id := range []string{"a", "b", "c"} {
		e, err := Load(d.of(id))
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		all = append(all, e)
	}
	if err := Divide(all...); err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		s, err := e.NewStepper()
		if err != nil {
			t.Fatalf("the step loop of %s: %v", e.info.ID, err)
		}
		defer s.Close()
		most, _ := useful(e.options, e.fileContext)
		if got, first := e.memory.pages, all[0].memory.pages; got < first-1 || got > first+1 || got < 16 || int64(got) >= most {
			t.Errorf("model %s has %d pages, the first one %d, of use are %d", e.info.ID, got, first, most)
		}
	}
}

// TestMoreThanADeviceHasIsRefusedByName: the error has the keys, and the models that they are of. What is kept free of the
// device is not theirs to take.
func TestMoreThanADeviceHasIsRefusedByName(t *testing.T) {
	d := onSharedDevice(t, 48<<20)
	var all []*Engine
	for _, id := range []string{"a", "b"} {
		o := d.of(id)
		if id == "b" {
			o.Info.ContextLength, o.Batch.SequencesMax = 1<<20, 1000 // more than that is of no use, and would not count
		}
		e, err := Load(o)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		all = append(all, e)
	}
	free, total, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	most := free - 2*(total/deviceShare)
	for bytes, refused := range map[int64]bool{1 << 40: true, most + 1: true, most: false} {
		all[1].options.Cache.Bytes = bytes
		err := Divide(all...)
		if err == nil { // with all that there is for b, a cannot have a page
			t.Fatalf("%d bytes of %d pass", bytes, most)
		}
		if got := strings.Contains(err.Error(), "kv.memory_bytes and kv.state_memory_bytes of b come to"); got != refused {
			t.Errorf("%d bytes of %d: the error is %v", bytes, most, err)
		}
	}
}

// TestWhatStepsTakeIsThereBeforeTheRestIsDivided: nothing of it has to be found later, when pages have all that is left.
func TestWhatStepsTakeIsThereBeforeTheRestIsDivided(t *testing.T) {
	d := onSharedDevice(t, 48<<20)
	e, err := Open(d.of("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c := e.forwarder.(*model.Model).Config()
	if rows, logits := 4*512*int64(c.Hidden), 4*64*int64(c.Vocab); !d.sizes[rows] || !d.sizes[logits] {
		t.Errorf("what was taken has the sizes %v, want %d and %d among them", d.sizes, rows, logits)
	}
}

// TestADeviceWithoutMemoryNamesTheKeys: for the buffers of steps, and for pages.
func TestADeviceWithoutMemoryNamesTheKeys(t *testing.T) {
	d := onSharedDevice(t, 48<<20)
	e, err := Open(d.of("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	d.lacks = int64(e.memory.pages) * e.memory.pageBytes
	_, err = e.NewStepper()
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("kv memory of %d bytes", d.lacks)) ||
		!strings.Contains(err.Error(), "; lower kv.memory_bytes") {
		t.Errorf("without memory for pages: %v", err)
	}
	d.lacks = 4 * 512 * int64(e.forwarder.(*model.Model).Config().Hidden)
	_, err = Load(d.of("b"))
	if err == nil || !strings.Contains(err.Error(), "model b: buffers of a step of 512 tokens: cuda alloc") ||
		!strings.Contains(err.Error(), "lower batch.step_tokens_max") {
		t.Errorf("without memory for steps: %v", err)
	}
}
