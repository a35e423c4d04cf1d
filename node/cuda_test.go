package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/fused"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
	"corenode/node/config"
)

// tinyModels is where the models with random weights lie.
const tinyModels = "../engine/model/testdata/parity/"

// devices are the interpreted GPUs of a node, as its models opened them.
type devices struct {
	mu     sync.Mutex // guards opened
	opened map[string][]*interp.Device
}

// adjust gives every model a device of its own.
func (d *devices) adjust(o *engine.Options) {
	id := o.ID
	o.OpenDevice = func() (kernel.Backend, error) {
		device := interp.Open(interp.Config{Seed: 1, Workers: 2, Memory: 64 << 20})
		d.mu.Lock()
		d.opened[id] = append(d.opened[id], device)
		d.mu.Unlock()
		return fused.New(device, eager.Options{WaitMax: 100 * time.Millisecond}) // of sleeping: the interpreter works while it is asked
	}
}

func (d *devices) of(id string) []*interp.Device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.opened[id])
}

// startOnDevices runs a node whose models, by their ids, are files that interpreted GPUs compute.
func startOnDevices(t *testing.T, files map[string]string) (n *node, d *devices, base, key string) {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir = "127.0.0.1:0", filepath.Join(t.TempDir(), "data"), moduleCache
	like := cfg.Models["core-1.1-mini"]
	cfg.Models = map[string]config.Model{}
	for id, file := range files {
		m := like
		m.Engine, m.Path, m.Batch.SequencesMax = config.EngineCUDA, file, 2
		cfg.Models[id] = m
	}
	log, _, err := newLogger(cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	d = &devices{opened: map[string][]*interp.Device{}}
	if n, err = openWith(cfg, log, nil, standIns{adjust: d.adjust, slow: storeWait}); err != nil {
		t.Fatal(err)
	}
	n.begin()
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	_, key = customerOf(t, n, account.Account{Name: "someone", Unlimited: true}, 0)
	return n, d, "http://" + n.public.Addr().String(), key
}

// askDevice asks for two tokens and returns the answer's text.
func askDevice(t *testing.T, base, key, model string) (status int, answer string) {
	t.Helper()
	r, err := post(t.Context(), base, key, fmt.Sprintf(
		`{"model": %q, "max_tokens": 2, "temperature": 0, "stream": true, "messages": [{"role": "user", "content": "a"}]}`, model))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

func checkAnswered(t *testing.T, base, key, model string) {
	t.Helper()
	status, answer := askDevice(t, base, key, model)
	if status != 200 || !strings.Contains(answer, `"output_tokens":2`) || !strings.Contains(answer, "event: message_stop") {
		t.Errorf("model %s: status %d: %s", model, status, answer)
	}
}

// tiny changes a model file and writes it for this test.
func tiny(t *testing.T, name string, change func(f *modelfile.File) []byte) string {
	t.Helper()
	f, err := modelfile.Open(tinyModels + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, change(f), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestModelsOnAGPUAnswer runs the whole node, with the device interpreted.
func TestModelsOnAGPUAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 4 s, and ten times as long under the race detector")
	}
	n, d, base, key := startOnDevices(t, map[string]string{ // a llama is where the faults are
		"qwen35moe": tinyModels + "tiny-qwen35moe-f16.gguf",
		"qwen3moe":  tiny(t, "tiny-qwen3-f16.gguf", gguftest.Mixture),
	})
	for _, id := range n.catalog.ids() {
		checkAnswered(t, base, key, id)
		if opened := d.of(id); len(opened) != 1 || !opened[0].Ran("normed1") || !opened[0].Ran("draw") {
			t.Errorf("model %s opened %d devices, or its steps were not fused", id, len(opened))
		}
	}
	checkNothingLeft(t, n)
}

// sharedGPU is a device that the models of a node have opened.
type sharedGPU struct{ *interp.Device }

func (sharedGPU) Close() error { return nil } // others are on it

// TestModelsShareAGPU: each has what its step loop takes, though the config says nothing of memory.
func TestModelsShareAGPU(t *testing.T) {
	cfg := config.Default()
	like := cfg.Models["core-1.1-mini"]
	like.Engine, like.Path = config.EngineCUDA, tinyModels+"tiny-llama-f16.gguf"
	cfg.Models = map[string]config.Model{"a": like, "b": like}
	device := sharedGPU{interp.Open(interp.Config{Seed: 1, Memory: 48 << 20})}
	c, err := openModels(cfg, nil, nil, slog.New(slog.DiscardHandler), func(o *engine.Options) {
		o.OpenDevice = func() (kernel.Backend, error) { return fused.New(device, eager.Options{}) }
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, id := range c.ids() {
		s, err := c.engines[id].NewStepper()
		if err != nil {
			t.Fatalf("the step loop of %s: %v", id, err)
		}
		defer s.Close()
	}
}

// TestFaultsOfAGPUEndInErrorsAndAReload plants one fault in the device of each model. Each has one of its
// own, as the third failure would put a model down.
func TestFaultsOfAGPUEndInErrorsAndAReload(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 4 s, and ten times as long under the race detector")
	}
	file := tiny(t, "tiny-llama-f16.gguf", func(f *modelfile.File) []byte { return gguftest.FirstLayers(f, 1) })
	faults := map[string]interp.FaultKind{
		"allocation": interp.AllocFault, "launch": interp.LaunchFault, "lost": interp.StickyFault, "stuck": interp.EventFault,
	}
	files := map[string]string{}
	for id := range faults {
		files[id] = file
	}
	n, d, base, key := startOnDevices(t, files)
	for id, fault := range faults {
		d.of(id)[0].Inject(fault, 1)
		status, answer := askDevice(t, base, key, id)
		if !strings.Contains(answer, `"type":"error"`) || strings.Contains(answer, "message_stop") {
			t.Errorf("%s: status %d: %s", id, status, answer)
		}
		checkAnswered(t, base, key, id)
		if opened := d.of(id); len(opened) != 2 {
			t.Errorf("%s: %d devices were opened, want one and another one after the fault", id, len(opened))
		}
	}
	waitFor(t, "the settlements", func() bool { return n.tree.Inspect().Requests == 0 })
	checkNothingLeft(t, n)
	if v, err := n.store.Verify(); err != nil || len(v.Findings) > 0 {
		t.Errorf("the ledger: %v, %v", v.Findings, err)
	}
}
