package model

import (
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/fused"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// counting is a backend that counts the steps it fused, and the matrices of each type that it was given.
type counting struct {
	*fused.Backend
	steps  int
	loaded map[kernel.Type]int
}

// Load implements kernel.Backend.
func (c *counting) Load(src kernel.Source) (kernel.Weight, error) {
	c.loaded[src.Type]++
	return c.Backend.Load(src)
}

// Fuse implements kernel.Fuser.
func (c *counting) Fuse(n *kernel.Network) (kernel.Fused, error) {
	f, err := c.Backend.Fuse(n)
	if f == nil || err != nil {
		return nil, err
	}
	return &countingSteps{f, c}, nil
}

type countingSteps struct {
	kernel.Fused
	of *counting
}

// Step implements kernel.Fused.
func (c *countingSteps) Step(in *kernel.Input) bool {
	fused := c.Fused.Step(in)
	if fused {
		c.of.steps++
	}
	return fused
}

// ofType is a model with as many of its matrices in a type as have rows of whole blocks.
func ofType(t *testing.T, name string, typ kernel.Type) *modelfile.File {
	t.Helper()
	f := openParity(t, name)
	if typ == kernel.F8E4M3 { // no file of GGUF has it
		changed := 0
		for _, x := range f.Tensors() {
			if x.Type != kernel.F16 || x.Shape[0]%128 != 0 {
				continue
			}
			values, err := x.Floats()
			if err != nil {
				t.Fatal(err)
			}
			gguftest.Set(x, typ, values)
			changed++
		}
		t.Logf("%d of %d tensors are of eight bits", changed, len(f.Tensors()))
		return f
	}
	data, err := gguftest.Requantize(f, typ)
	if err != nil {
		t.Fatal(err)
	}
	if f, err = modelfile.OpenBytes(name, data); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestQuantizedModelsAreFused: a model whose matrices stay codes on the device decodes by fused steps, within the gate of
// the CPU's exact kernels.
func TestQuantizedModelsAreFused(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 6 s")
	}
	for name, typ := range map[string]kernel.Type{"Q8_0": kernel.Q8_0, "Q4_K": kernel.Q4_K, "FP8": kernel.F8E4M3} {
		t.Run(name, func(t *testing.T) {
			b, err := fused.New(devicetest.Open(t, interp.Config{Workers: 2}), eager.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c := &counting{Backend: b, loaded: map[kernel.Type]int{}}
			f, tokens := ofType(t, "tiny-qwen35moe-f16", typ), readRecording(t, "tiny-llama-f32.kv-f32").Prompt
			got := decoded(t, loadOn(t, f, c), tokens, stepsOfGate, kernel.StateF32)
			if c.steps < stepsOfGate || c.loaded[typ] < 10 {
				t.Errorf("%d steps of %d were fused, %d matrices are of the type", c.steps, stepsOfGate, c.loaded[typ])
			}
			compare(t, got, decoded(t, loadOn(t, f, newCPU(t, cpu.Options{Exact: true})), tokens, stepsOfGate, kernel.StateF32))
		})
	}
}
