package model

import (
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/interp"
)

// TestParityOfTheGPU runs the kernels of the GPU, as its interpreter does, against llama.cpp's F32 run
// with a float32 cache: the tolerance is that of the CPU's exact kernels.
func TestParityOfTheGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 6 s")
	}
	names := []string{"tiny-llama", "tiny-qwen35moe"} // each kind of layer; the others take as long
	if devicetest.OnGPU() {
		names = tinyModels
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			want := readRecording(t, name+"-f32.kv-f32")
			b, err := eager.New(devicetest.Open(t, interp.Config{Workers: 2}), eager.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := trace(t, loadOn(t, openParity(t, name+"-f16"), b), want, kernel.KVF32)
			checkClose(t, got, want, 0.01)
			t.Logf("largest difference %.2g", largestDifference(got.Positions, prompt(want)))
		})
	}
}
