package engine

import (
	"errors"
	"fmt"
	"strings"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/kernel/cuda"
	"corenode/engine/model"
	"corenode/engine/modelfile"
)

// openBackend opens what computes, without weights.
func (e *Engine) openBackend(o Options) (kernel.Backend, error) {
	if o.Kind != CUDA {
		if o.Cache.States != kernel.StateF32 {
			return nil, fmt.Errorf("states of type %v are for a GPU, want %v", o.Cache.States, kernel.StateF32)
		}
		return cpu.New(e.cpuOptions(o))
	}
	if o.OpenDevice != nil {
		return o.OpenDevice()
	}
	return firstDevice()
}

func (e *Engine) cpuOptions(o Options) cpu.Options {
	return cpu.Options{Threads: o.Threads, CacheDir: o.PackDir, CacheKey: e.file.Digest(), CacheBytes: packBytes(e.file)}
}

// packBytes is how much disk the repacked weights of a file take, about: some small tensors that are not repacked count too, but
// no vectors, nor a table that is only embedded. A shared expert's gate is a matrix of one row.
func packBytes(f *modelfile.File) (n int64) {
	_, untied := f.Tensor("output.weight")
	for _, x := range f.Tensors() {
		vector := len(x.Shape) == 1 && !strings.HasSuffix(x.Name, ".ffn_gate_inp_shexp.weight")
		if vector || untied && x.Name == "token_embd.weight" {
			continue
		}
		src := kernel.Source{Name: x.Name, Type: x.Halves().Type, Experts: 1, Rows: 1, Cols: x.Shape[0]}
		for i, size := range x.Shape[1:] {
			if i == 0 {
				src.Rows = size
			} else {
				src.Experts *= size
			}
		}
		n += cpu.PackedBytes(src)
	}
	return n
}

// loadWeights opens the backend and brings the model to it.
func (e *Engine) loadWeights(o Options) (err error) {
	backend, err := e.openBackend(o)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			backend.Close()
		}
	}()
	defer cuda.Catch(&err) // what a device says while weights go there
	load := model.Load
	if o.Draft {
		load = model.LoadPredicting
	}
	m, err := load(e.file, backend)
	if err != nil {
		return err
	}
	if o.Kind == CUDA { // before what is left is divided; of the host's memory steps take what they need
		if err := reserve(m, o.Batch.StepTokensMax); err != nil {
			return err
		}
	}
	e.backend, e.forwarder = backend, m
	return nil
}

// reserve takes what the largest step does of a device.
func reserve(m *model.Model, rows int) (err error) {
	defer func() {
		if lacksMemory(err) {
			err = fmt.Errorf("buffers of a step of %d tokens: %w; lower batch.step_tokens_max, or take a model away", rows, err)
		}
	}()
	defer cuda.Catch(&err)
	m.Reserve(rows)
	return nil
}

// lacksMemory says whether an error is of a device without memory for what it was asked for.
func lacksMemory(err error) bool {
	var e *cuda.Error
	return errors.As(err, &e) && e.Code == cuda.OutOfMemory
}

// mayFail is a backend that a failed operation leaves unusable.
type mayFail interface{ Failed() error }

// revive makes a failed backend anew and loads the weights again. Nothing of it may be in use: a
// new step loop calls it before it takes memory.
func (e *Engine) revive() error {
	b, ok := e.backend.(mayFail)
	if !ok || b.Failed() == nil {
		return nil
	}
	e.forwarder.Close() // and with it the backend and all that was on the device
	return e.loadWeights(e.options)
}
