package model

import (
	"math"
	"slices"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/kernel/cuda/wide"
	"corenode/engine/kernel/ref"
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

// TestPromptsOnMatrixUnits compares 64 positions of a text that are computed at once on the GPU's matrix units with
// the CPU's: the mean difference of logits is at most 0.02, the largest 0.1, and the likeliest token is the same
// wherever the CPU's lead exceeds 0.1.
func TestPromptsOnMatrixUnits(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 8 s")
	}
	names := []string{"tiny-qwen35moe"} // has each kind of layer but a dense one
	if devicetest.OnGPU() {
		names = tinyModels
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			f := openParity(t, name+"-f16")
			b, err := wide.New(devicetest.Open(t, interp.Config{Workers: 2}), eager.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := cpu.New(cpu.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			var logits [2][][]float32
			for i, b := range []kernel.Backend{b, c} {
				m := loadOn(t, f, b)
				s := newSequence(t, m, newCache(t, m, 16, sequencePages(16), 1, kernel.KVF16), 0, 16)
				logits[i] = s.feed(t, someTokens(m, 64, 1))
			}
			checkPositions(t, logits[0], logits[1])
		})
	}
}

// checkPositions compares logits with those of the CPU.
func checkPositions(t *testing.T, got, want [][]float32) {
	t.Helper()
	var far float64
	for i, row := range want {
		best, second := 0, -1
		for j, v := range row {
			far = max(far, math.Abs(float64(v)-float64(got[i][j])))
			switch {
			case v > row[best]:
				best, second = j, best
			case j != best && (second < 0 || v > row[second]):
				second = j
			}
		}
		if lead := row[best] - row[second]; lead > 0.1 && slices.Max(got[i]) != got[i][best] {
			t.Errorf("position %d: token %d leads by %g on the CPU, and not here", i, best, lead)
		}
	}
	mean := meanDistance(t, got, want)
	if !(mean <= 0.02 && far <= 0.1) {
		t.Errorf("logits differ by %g in the mean and by %g at most", mean, far)
	}
	t.Logf("logits differ by %.2g in the mean and by %.2g at most", mean, far)
}

// TestLatentAttentionOnTheGPU compares the first tokens of a model with latent attention with the reference.
func TestLatentAttentionOnTheGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 2 s")
	}
	r := folderRecordings(t)["deepseek_v2"]
	b, err := wide.New(devicetest.Open(t, interp.Config{Workers: 2}), eager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var logits [2][][]float32
	for i, b := range []kernel.Backend{b, ref.New()} {
		m := loadOn(t, openFolder(t, r.Config, r.stored(), 1), b)
		s := newSequence(t, m, newCache(t, m, 16, sequencePages(16), 1, kernel.KVF32), 0, 16)
		for _, part := range [][]int32{r.Prompt[:8], r.Prompt[8:9], r.Prompt[9:11]} {
			logits[i] = append(logits[i], s.feed(t, part)...)
		}
	}
	if d := worst(logits[0], logits[1]); !(d <= 1e-4) {
		t.Errorf("a logit differs by %g, want at most 0.0001", d)
	}
}
