package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/fused"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/model"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// onDeviceOf opens the device of a test with the kernels that ship.
func onDeviceOf(t testing.TB) func() (kernel.Backend, error) {
	return func() (kernel.Backend, error) {
		return fused.New(devicetest.Open(t, interp.Config{Workers: 2}), eager.Options{})
	}
}

// TestADeviceAnswersAsTheHostDraws runs requests of several kinds at once on the GPU's kernels: once with
// steps that the host draws from, and once with the device's program. The answers are the same.
func TestADeviceAnswersAsTheHostDraws(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 5 s, and ten times as long under the race detector")
	}
	f, err := modelfile.Open("model/testdata/parity/tiny-llama-f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := options(CUDA)
	o.Data, o.Draft = gguftest.FirstLayers(f, 1), true
	o.OpenDevice = onDeviceOf(t)
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	bodies := []string{
		`{"model": "m", "max_tokens": 6, "temperature": 0, "messages": [{"role": "user", "content": "a"}]}`,
		`{"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "bcbcbcbc"}]}`,
		`{"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "d"}], "output_config": {"format": {"type": "json_schema",
			"schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}}}}`,
	}
	answers := func(host bool) (all []string) {
		s, err := e.NewStepper()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if !s.device {
			t.Fatal("the model has no program of a device")
		}
		if host {
			s.program.Close()
			s.program, s.device = &hostProgram{engine: e}, false
		}
		var got []*answer
		for i, body := range bodies {
			r := ask(t, e, body)
			r.Sampling.Seed, r.Sampling.FrequencyPenalty = uint64(i), 0.3
			_, a := submit(t, s, "acct", r)
			got = append(got, a)
		}
		runAll(t, s)
		for _, a := range got {
			checkStream(t, a.events)
			text := fmt.Sprintf("%+v %s: ", a.result.Usage, a.result.Stop)
			for _, ev := range a.events {
				text += ev.Text
			}
			all = append(all, text)
		}
		return all
	}
	want := answers(true)
	if got := answers(false); !slices.Equal(got, want) {
		t.Errorf("the device answers %q, the host %q", got, want)
	}
	if b, ok := e.backend.(mayFail); !ok || b.Failed() != nil {
		t.Errorf("the backend is %T, and failed", e.backend)
	}
}

// losable is a device that can be lost while nobody uses it.
type losable struct {
	cuda.Driver
	lost atomic.Bool
}

func (d *losable) Alloc(bytes int64) (cuda.Pointer, error) {
	if d.lost.Load() {
		return 0, &cuda.Error{Code: cuda.Fault, Op: "alloc", Msg: "lost", Sticky: true}
	}
	return d.Driver.Alloc(bytes)
}

// TestADeviceLostBetweenStepLoopsIsOpenedAnew: the step loop that finds it lost does not begin, and the
// next one has a new device, while others ask about the engine.
func TestADeviceLostBetweenStepLoopsIsOpenedAnew(t *testing.T) {
	f, err := modelfile.Open("model/testdata/parity/tiny-llama-f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var opened []*losable
	o := options(CUDA)
	o.Data = gguftest.FirstLayers(f, 1)
	o.OpenDevice = func() (kernel.Backend, error) {
		opened = append(opened, &losable{Driver: devicetest.Open(t, interp.Config{Workers: 2})})
		return fused.New(opened[len(opened)-1], eager.Options{})
	}
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if err := e.PackError(); err != nil || e.Describe() == "" {
					t.Error(err, e.Describe())
					return
				}
				time.Sleep(50 * time.Microsecond)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	opened[0].lost.Store(true)
	var fault *cuda.Error
	if _, err := e.NewStepper(); !errors.As(err, &fault) || !fault.Sticky {
		t.Fatalf("on a lost device: %v", err)
	}
	s, err := e.NewStepper()
	if err != nil || len(opened) != 2 {
		t.Fatalf("after it: %v, opened %d times, want twice", err, len(opened))
	}
	s.Close()
}

// TestSnapshotsThatLieOnTheHostComeBack asks three prompts in turn with room for one snapshot on the device. Those
// that moved to the host are begun from there, and the answers stay the same. The processor computes: package eager's
// tests have the copies of a GPU.
func TestSnapshotsThatLieOnTheHostComeBack(t *testing.T) {
	o := options(CPU)
	o.Batch.SequencesMax = 1
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.memory.states, e.memory.snapshots, e.memory.host = 2, 1, 2
	s, err := e.NewStepper()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := map[string]string{}
	for round := range 2 {
		for _, letter := range []string{"a", "b", "c"} {
			body := fmt.Sprintf(`{"model": "m", "max_tokens": 4, "temperature": 0, "messages": [{"role": "user", "content": %q}]}`,
				strings.Repeat(letter+" ", 300))
			_, a := submit(t, s, "acct", ask(t, e, body))
			runAll(t, s)
			checkStream(t, a.events)
			text := ""
			for _, ev := range a.events {
				text += ev.Text
			}
			if round == 0 {
				first[letter] = text
			} else if text != first[letter] || a.result.Usage.CacheRead == 0 {
				t.Errorf("prompt %s again: %q with %+v, want %q from the cache", letter, text, a.result.Usage, first[letter])
			}
		}
	}
	if p := s.pool.Stats(); p.OnHost != 2 || p.SnapshotsMoved < 2 {
		t.Errorf("%+v: want two snapshots on the host, and two that moved there", p)
	}
}

// TestSnapshotsGetTheHostsMemoryBehindTheDevices: what the device has no room for, up to what is of any use.
func TestSnapshotsGetTheHostsMemoryBehindTheDevices(t *testing.T) {
	o := options(CUDA)
	o.Path = "model/testdata/parity/tiny-qwen35moe-f16.gguf"
	o.OpenDevice = onDeviceOf(t)
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m := e.forwarder.(*model.Model)
	state, most := m.BytesPerState(kernel.StateF32), (1+snapshotsPerSequence)*o.Batch.SequencesMax
	if small := m.BytesPerState(kernel.StateBF16); small >= state*3/4 || small <= state/2 { // inputs of convolutions stay as they are
		t.Errorf("a state takes %d bytes as bfloat16, %d as float32", small, state)
	}
	for _, c := range []struct {
		device, host int64 // states' worth
		want         [2]int
	}{{4, 0, [2]int{4, 0}}, {4, 3, [2]int{4, 3}}, {4, 1 << 20, [2]int{4, most - 4}}, {1 << 20, 7, [2]int{most, 0}}} {
		o.Cache.Bytes, o.Cache.StateBytes, o.Cache.HostBytes = 8<<20, c.device*state, c.host*state
		got, err := sizeMemory(o, m, 256)
		if err != nil || got.states != c.want[0] || got.host != c.want[1] {
			t.Errorf("%d states on the device and %d on the host: %d and %d (%v), want %v", c.device, c.host, got.states, got.host, err, c.want)
		}
	}
	page := m.BytesPerPage(o.Cache.PageTokens, o.Cache.KV)
	for want, c := range map[string][2]int64{ // bytes for pages and for states
		"no page of": {page - 1, 2 * state}, "raise kv.memory_bytes, or lower kv.state_memory_bytes": {0, 2 * state},
		"fewer than two states of": {page, 2*state - 1}, "raise kv.state_memory_bytes, or lower kv.memory_bytes": {page, 0},
	} {
		o.Cache.Bytes, o.Cache.StateBytes = c[0], c[1]
		if _, err := sizeMemory(o, m, 256); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d and %d bytes: error %v, want one with %q", c[0], c[1], err, want)
		}
	}
}
