package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// Models with a prediction layer: of random weights, which is hardly ever right,
// and an apt one, which mostly is.
var predictive = []string{"random/tiny-qwen35-f16", "apt/tiny-qwen35-f16", "apt/tiny-qwen35moe-f16"}

var predictiveFiles sync.Map // by kind and name

// predicting is a model file with a prediction layer of a kind.
func predicting(kind, name string) []byte {
	if data, ok := predictiveFiles.Load(kind + name); ok {
		return data.([]byte)
	}
	f, err := modelfile.Open(filepath.Join("model", "testdata", "parity", name+".gguf"))
	if err != nil {
		panic(err)
	}
	defer f.Close()
	var data []byte
	if kind == "apt" {
		data = gguftest.WithAptPrediction(f, 0.002)
	} else {
		data = gguftest.WithPrediction(f, nil)
	}
	predictiveFiles.Store(kind+name, data)
	return data
}

// alonePredicting takes the looking up from what was submitted, so that the
// layer's are the only drafts.
func (g *stage) alonePredicting() {
	for _, r := range g.s.order {
		r.drafter = nil
	}
}

// TestPredictionSavesSteps: answers with a layer that is mostly right are the same
// to the last bit, greedy and sampled, in far fewer steps.
func TestPredictionSavesSteps(t *testing.T) {
	for _, model := range predictive[1:] {
		t.Run(model, func(t *testing.T) {
			plain, layered := newStage(t, setup{model: model}), newStage(t, setup{model: model, draft: true})
			steps := func(g *stage, r *Request) (finished, int) {
				end := g.submit("a", r)
				g.alonePredicting()
				n := 0
				for g.s.Step(time.Now()) {
					n++
				}
				return end(), n
			}
			all, with := 0, 0
			for i := range samplers {
				r := plain.speech(2*i + 1)
				r.Parse.Thinking = false
				want, n := steps(plain, r)
				got, m := steps(layered, r)
				(&differences{}).compare(t, fmt.Sprint("answer ", i), got, want, 0)
				if !slices.Equal(got.run.seq.Tokens, want.run.seq.Tokens) || got.result.Usage != want.result.Usage {
					t.Errorf("answer %d: other tokens or another bill", i)
				}
				all, with = all+n, with+m
			}
			d := layered.s.layerDrafts
			t.Logf("%d steps without, %d with; %d tokens predicted, %d right; %d positions checked", all, with, d.Drafted, d.Accepted, layered.sh.foretold)
			if with > all*3/4 || d.Accepted < d.Drafted/6 || layered.sh.foretold == 0 || layered.s.lookupDrafts.Drafted > 0 {
				t.Errorf("%d steps instead of %d, %+v", with, all, d)
			}
		})
	}
}
