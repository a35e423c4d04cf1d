package kernels

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"corenode/bench/engine"
	"corenode/bench/report"
)

func TestValidateNamesEveryFlag(t *testing.T) {
	err := new(Options).List().Validate()
	for _, flag := range []string{"--model", "--threads", "--rounds", "--tokens", "--prompt", "--context", "--memory", "--min-share"} {
		if err == nil || !strings.Contains(err.Error(), flag+" ") {
			t.Errorf("no complaint about %s in %v", flag, err)
		}
	}
	o := Defaults()
	o.Model = "m.gguf"
	if err := o.List().Validate(); err != nil {
		t.Error(err)
	}
}

func TestBytesOfAStep(t *testing.T) {
	// 100 tokens in the cache and 8 steps: 104 in the middle, 3 bytes each, of 2 sequences.
	p := part{batch: 2, rows: 1, context: 100, steps: 8}
	if got := p.bytes(1000, 3); got != 1000+2*104*3 {
		t.Errorf("%d bytes, want %d", got, 1000+2*104*3)
	}
}

func TestRowLeavesOutDisturbedRounds(t *testing.T) {
	p := part{name: "decode", batch: 4, rows: 1, steps: 10}
	quiet, busy := measured{seconds: 2, memory: 10, foreign: 0.01}, measured{seconds: 40, memory: 5, foreign: 0.4}
	row := rowOf(p, []measured{quiet, busy}, 1e9, 0)
	if row.Rounds != 2 || row.Discarded != 1 || row.Disturbed {
		t.Errorf("%d of %d thrown out, disturbed %v", row.Discarded, row.Rounds, row.Disturbed)
	}
	// 10 steps of 4 tokens and 1 GB each in 2 s.
	if row.TokensPerS.Max != 20 || row.GBs.Median != 5 || math.Abs(row.Share.Median-0.5) > 1e-12 {
		t.Errorf("%v tokens/s, %v GB/s, share %v; want 20, 5, 0.5", row.TokensPerS, row.GBs, row.Share)
	}
	row = rowOf(p, []measured{busy}, 1e9, 0)
	if !row.Disturbed || row.TokensPerS.Median != 1 {
		t.Errorf("disturbed %v, %v tokens/s; want all rounds to count when all are", row.Disturbed, row.TokensPerS)
	}
}

// TestProseStays: the tokenizer's speeds are those of one text. Who changes it says in RESULTS.md from when on.
func TestProseStays(t *testing.T) {
	const want = "856c2b40be5565ad4b87d7fc9bd29e42358eebec74e1da20f10f5e4e3071359e"
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(prose))); got != want {
		t.Errorf("the text of the tokenizer's speed has the sum %s, want %s", got, want)
	}
}

func TestGateIsTheFirstRow(t *testing.T) {
	r := Report{Options: Options{MinShare: 0.85}, Weights: engine.Weights{BytesPerToken: 1e9}}
	parts := []part{{name: "a", batch: 1, rows: 1, steps: 10}, {name: "b", batch: 1, rows: 1, steps: 10}}
	r.fill(parts, [][]measured{{{seconds: 1, memory: 11}}, {{seconds: 100, memory: 11}}}, 0)
	if !r.Met() || r.Gates[0].Value < 0.9 {
		t.Errorf("gates %+v: the first row reads 10 of 11 GB/s", r.Gates)
	}
	r.Gates = nil
	r.Rows = nil
	r.fill(parts, [][]measured{{{seconds: 10, memory: 11}}, {{seconds: 1, memory: 11}}}, 0)
	if r.Met() {
		t.Errorf("gates %+v: the first row reads 1 of 11 GB/s", r.Gates)
	}
}

// TestRun measures the embedded model: what it says means nothing, that it is
// all there does.
func TestRun(t *testing.T) {
	o := Defaults()
	o.Model = filepath.Join("..", "..", "engine", "embedded", "core-1.1-mini.gguf")
	o.Rounds, o.Tokens, o.Prompt, o.Context, o.Memory = 1, 4, 64, 70, 10*time.Millisecond
	r, err := Run(context.Background(), o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != len(o.parts()) {
		t.Fatalf("%d rows for %d parts", len(r.Rows), len(o.parts()))
	}
	for _, row := range r.Rows {
		if row.TokensPerS.Median <= 0 || row.MemoryGBs.Median <= 0 || row.Share.Median <= 0 {
			t.Errorf("%s: %v tokens/s at %v GB/s: nothing was measured", row.Name, row.TokensPerS, row.MemoryGBs)
		}
	}
	if r.Around.SamplerUS <= 0 || r.Around.TokenizerMBs <= 0 {
		t.Errorf("around the pass: %+v", r.Around)
	}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if !strings.Contains(out.String(), row.Name) {
			t.Errorf("the print misses %q:\n%s", row.Name, out.String())
		}
	}
	path := filepath.Join(t.TempDir(), "kernels.json")
	if err := report.WriteJSON(path, r); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil || back.Schema != Schema || len(back.Rows) != len(r.Rows) {
		t.Errorf("JSON comes back as %+v, %v", back, err)
	}
}
