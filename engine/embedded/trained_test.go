package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/kernel/ref"
	"corenode/engine/model"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// recording is what the trainer's own model chose: train/evaluate.py writes it.
type recording struct {
	Made       string   `json:"made"`
	Q8Digest   string   `json:"q8_0_sha256"` // of the trainer's own Q8_0 export, where recorded
	Answers    []answer `json:"answers"`
	pageTokens int
}

// answer is one greedy continuation. Margin is the least lead of a chosen logit.
type answer struct {
	Prompt []int32 `json:"prompt"`
	Tokens []int32 `json:"tokens"`
	Margin float64 `json:"margin"`
}

func readRecording(t *testing.T, path string) recording {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("there is no recording " + path)
	}
	r := recording{pageTokens: 64}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil || len(r.Answers) < 50 {
		t.Fatalf("%s: %d answers (err %v), want 50", path, len(r.Answers), err)
	}
	return r
}

func load(t *testing.T, f *modelfile.File, b kernel.Backend) *model.Model {
	t.Helper()
	m, err := model.Load(f, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// trace runs tokens through a model with a float32 KV cache.
func (r recording) trace(t *testing.T, m *model.Model, b kernel.Backend, tokens []int32, greedy int) *model.Trace {
	t.Helper()
	pages := (len(tokens) + greedy + r.pageTokens - 1) / r.pageTokens
	cache, err := b.NewCache(m.CacheConfig(r.pageTokens, pages, 1, kernel.KVF32))
	if err != nil {
		t.Fatal(err)
	}
	got, err := model.RunTrace(m, cache, r.pageTokens, tokens, 1, greedy)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func backends(t *testing.T) map[string]kernel.Backend {
	t.Helper()
	all := map[string]kernel.Backend{"ref": ref.New()}
	for _, level := range cpu.Levels() {
		b, err := cpu.New(cpu.Options{Level: level})
		if err != nil {
			t.Fatal(err)
		}
		all[level] = b
	}
	return all
}

// TestTrainerTokens runs the F32 export of a small trained model: on every
// backend its greedy tokens are those of the trainer's own model, which
// computes in another language by other formulas (whole rows by chunks, tokens one
// by one). testdata/README.md says how both files were made.
func TestTrainerTokens(t *testing.T) {
	r := readRecording(t, "testdata/probe.json")
	f, err := modelfile.Open("testdata/probe-f32.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, b := range backends(t) {
		t.Run(name, func(t *testing.T) {
			m := load(t, f, b)
			for i, a := range r.Answers {
				got := r.trace(t, m, b, a.Prompt, len(a.Tokens)).GreedyTokens
				if !slices.Equal(got, a.Tokens) {
					t.Errorf("prompt %d: got %v, the trainer chose %v with a margin of %g", i, got, a.Tokens, a.Margin)
				}
			}
		})
	}
}

// TestExportQuantizes compares the exporter's Q8_0 file with the same model
// quantized here, byte for byte.
func TestExportQuantizes(t *testing.T) {
	r := readRecording(t, "testdata/probe.json")
	f, err := modelfile.Open("testdata/probe-f32.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := gguftest.Requantize(f, kernel.Q8_0)
	if err != nil {
		t.Fatal(err)
	}
	if digest := sha256.Sum256(data); hex.EncodeToString(digest[:]) != r.Q8Digest {
		t.Errorf("the file has digest %x, the exporter's %s", digest, r.Q8Digest)
	}
}

// agreementMin is the share of choices on which a shipped Q8_0 model must agree
// with its own float32 weights, every choice made after the same tokens.
const agreementMin = 0.99

// TestShippedAgrees compares the shipped models with the recordings of their trainer.
func TestShippedAgrees(t *testing.T) {
	for id := range stems {
		t.Run(id, func(t *testing.T) {
			r := readRecording(t, filepath.Join("testdata", id+".json"))
			f, err := modelfile.OpenBytes(id, Model(id))
			if err != nil {
				t.Fatal(err)
			}
			b, err := cpu.New(cpu.Options{})
			if err != nil {
				t.Fatal(err)
			}
			m := load(t, f, b)
			same, all := 0, 0
			for _, a := range r.Answers {
				given := slices.Concat(a.Prompt, a.Tokens[:len(a.Tokens)-1])
				got := r.trace(t, m, b, given, 0)
				for i, want := range a.Tokens {
					if got.Positions[len(a.Prompt)-1+i].Top[0].ID == want {
						same++
					}
				}
				all += len(a.Tokens)
			}
			share := float64(same) / float64(all)
			t.Logf("%d of %d choices agree: %.2f %%", same, all, 100*share)
			if share < agreementMin {
				t.Errorf("%.4f of the choices agree with the float32 model, want %g", share, agreementMin)
			}
		})
	}
}
