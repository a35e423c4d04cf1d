package model

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"corenode/engine/kernel/ref"
)

// TestYarnFrequencies compares with what another implementation computed. The file says
// how it was recorded.
func TestYarnFrequencies(t *testing.T) {
	text, err := os.ReadFile("testdata/yarn.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Cases []struct {
			Base, Factor float64
			Dim, Context uint32
			BetaFast     float64   `json:"beta_fast"`
			BetaSlow     float64   `json:"beta_slow"`
			InvFreq      []float64 `json:"inv_freq"`
			Gain         float64   `json:"attention_factor"`
		}
	}
	if err := json.Unmarshal(text, &recorded); err != nil || len(recorded.Cases) == 0 {
		t.Fatalf("%d cases: %v", len(recorded.Cases), err)
	}
	for i, c := range recorded.Cases {
		e := newEdit(t, "tiny-llama-f16")
		e.set("attention.key_length", max(c.Dim, 64))
		e.set("attention.value_length", max(c.Dim, 64))
		e.set("rope.dimension_count", c.Dim)
		e.set("rope.freq_base", float32(c.Base))
		e.set("rope.scaling.type", "yarn")
		e.set("rope.scaling.factor", float32(c.Factor))
		e.set("rope.scaling.original_context_length", c.Context)
		if c.BetaFast > 0 {
			e.set("rope.scaling.yarn_beta_fast", float32(c.BetaFast))
			e.set("rope.scaling.yarn_beta_slow", float32(c.BetaSlow))
		}
		cfg, err := ReadConfig(e.open(t))
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		if math.Abs(cfg.RopeGain-c.Gain) > 1e-12 || len(cfg.InvFreq) != len(c.InvFreq) {
			t.Errorf("case %d: gain %v and %d frequencies, want %v and %d", i, cfg.RopeGain, len(cfg.InvFreq), c.Gain, len(c.InvFreq))
			continue
		}
		for pair, want := range c.InvFreq {
			if got := cfg.InvFreq[pair]; math.Abs(got-want) > 1e-12*want {
				t.Errorf("case %d: frequency %d is %g, want %g", i, pair, got, want)
			}
		}
	}
}

// TestYarnChangesTheModel: a file with YaRN computes other logits than one without, and
// one whose factor is 1 the same.
func TestYarnChangesTheModel(t *testing.T) {
	tokens := someTokens(&Model{cfg: Config{Vocab: 512}}, 10, 4)
	logits := func(factor float32) []float32 {
		e := newEdit(t, "tiny-llama-f16")
		if factor > 0 {
			e.set("rope.scaling.type", "yarn")
			e.set("rope.scaling.factor", factor)
			e.set("rope.scaling.original_context_length", uint32(64))
		}
		all := promptLogits(t, loadOn(t, e.open(t), ref.New()), tokens)
		return all[len(all)-1]
	}
	plain, same, scaled := logits(0), logits(1), logits(4)
	moved := 0.0
	for i := range plain {
		if plain[i] != same[i] {
			t.Fatalf("logit %d is %g with a factor of 1 and %g without YaRN", i, same[i], plain[i])
		}
		moved = max(moved, math.Abs(float64(scaled[i]-plain[i])))
	}
	if moved < 1e-3 {
		t.Errorf("a factor of 4 moves logits by %g at the most", moved)
	}
}
