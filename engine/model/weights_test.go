package model

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"corenode/engine/kernel/cpu"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// realWeights is the published model: a test that needs it is skipped where it is not installed.
func realWeights(t *testing.T) *modelfile.File {
	t.Helper()
	if testing.Short() {
		t.Skip("reading 250 MB takes long")
	}
	data, err := gguftest.Published()
	if errors.Is(err, gguftest.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.OpenBytes("gemma3-270m", data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRealWeights: a model that was trained by others reads a text of ours as it does in another
// implementation, which computes with the same weights in float32: testdata/weights says how.
func TestRealWeights(t *testing.T) {
	f := realWeights(t)
	text, err := os.ReadFile("testdata/weights/gemma3-270m.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		IDs, Greedy []int32
		NLL         float64
		Tops        []struct {
			Position int
			LSE      float64
			Top      [][2]float64
		}
	}
	if err := json.Unmarshal(text, &want); err != nil || len(want.Tops) == 0 || len(want.Greedy) == 0 {
		t.Fatalf("%d positions: %v", len(want.Tops), err)
	}
	for name, c := range map[string]struct {
		exact        bool
		logits, mean float64 // most that a logit and the mean surprise may differ by
	}{"exact": {true, 1e-3, 1e-5}, "as served": {false, math.Inf(1), 0.02}} {
		t.Run(name, func(t *testing.T) {
			m := loadOn(t, f, newCPU(t, cpu.Options{Exact: c.exact}))
			r := folderRecording{Prompt: want.IDs, GreedyTokens: want.Greedy}
			for i := range want.IDs {
				r.Positions = append(r.Positions, i)
			}
			prompt, greedy := r.replay(t, m, []int{64})
			surprise := 0.0
			for i, id := range want.IDs[1:] {
				surprise += (logSumExp(prompt[i]) - float64(prompt[i][id])) / float64(len(want.IDs)-1)
			}
			worst := 0.0
			for _, p := range want.Tops {
				worst = max(worst, math.Abs(logSumExp(prompt[p.Position])-p.LSE))
				for _, x := range p.Top {
					worst = max(worst, math.Abs(float64(prompt[p.Position][int(x[0])])-x[1]))
				}
			}
			t.Logf("perplexity %.4f, recorded %.4f; a logit differs by %.2g at the most", math.Exp(surprise), math.Exp(want.NLL), worst)
			if !(math.Abs(surprise-want.NLL) <= c.mean) || !(worst <= c.logits) {
				t.Errorf("mean surprise %g, want %g; a logit differs by %g", surprise, want.NLL, worst)
			}
			for i, id := range want.Greedy {
				if row := greedy[i]; c.exact && row[id] != slices.Max(row) {
					t.Errorf("greedy token %d is not %d", i, id)
				}
			}
		})
	}
}

func logSumExp(row []float32) float64 {
	top, sum := float64(slices.Max(row)), 0.0
	for _, x := range row {
		sum += math.Exp(float64(x) - top)
	}
	return top + math.Log(sum)
}
