package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"corenode/bench/proc"
	"corenode/bench/report"
	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/model"
	"corenode/engine/modelfile"
)

// tensor is one of a size, as Q8_0 where it has that type's and else as F32; it has no data.
func tensor(name string, bytes int, shape ...int) *modelfile.Tensor {
	t := &modelfile.Tensor{Name: name, Shape: shape, Type: kernel.Q8_0}
	if t.Elements()/32*34 != bytes {
		t.Type = kernel.F32
	}
	return t
}

func TestWeightsOf(t *testing.T) {
	// Q8_0 is 34 bytes per 32 values: a matrix of 64 by 32 values is 2,176 bytes.
	block := []*modelfile.Tensor{
		tensor("blk.0.attn_norm.weight", 128, 32), tensor("blk.0.attn_q.weight", 2176, 32, 64),
		tensor("blk.1.attn_q.weight", 2176, 32, 64), tensor("output_norm.weight", 128, 32),
	}
	embedding := tensor("token_embd.weight", 3400, 32, 100) // 34 bytes a row
	cases := []struct {
		name        string
		config      model.Config
		tensors     []*modelfile.Tensor
		token, file int64
	}{
		{"tied: the table is the head", model.Config{Layers: 2}, []*modelfile.Tensor{embedding}, 2*2176 + 3400, 2*2176 + 2*128 + 3400},
		{"untied: one row of the table", model.Config{Layers: 2},
			[]*modelfile.Tensor{embedding, tensor("output.weight", 3400, 32, 100)}, 2*2176 + 34 + 3400, 2*2176 + 2*128 + 2*3400},
		{"2 of 8 experts, the router whole", model.Config{Layers: 2, Experts: 8, ExpertsUsed: 2},
			[]*modelfile.Tensor{tensor("blk.0.ffn_up_exps.weight", 8*2176, 32, 64, 8), tensor("blk.0.ffn_gate_inp.weight", 1024, 32, 8)},
			2*2176 + 2*2176 + 1024, 2*2176 + 2*128 + 8*2176 + 1024},
		{"the shared expert whole", model.Config{Layers: 2, Experts: 8, ExpertsUsed: 2},
			[]*modelfile.Tensor{tensor("blk.0.ffn_up_shexp.weight", 2176, 32, 64)}, 3 * 2176, 3*2176 + 2*128},
		{"blocks behind the last layer are not computed", model.Config{Layers: 1}, nil, 2176, 2*2176 + 2*128},
		{"taps and columns are no matrices", model.Config{Layers: 2},
			[]*modelfile.Tensor{tensor("blk.0.ssm_conv1d.weight", 512, 4, 32), tensor("blk.0.ssm_a", 32, 1, 8)}, 2 * 2176, 2*2176 + 2*128 + 544},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := weightsOf(c.config, append(block[:len(block):len(block)], c.tensors...))
			if got.BytesPerToken != c.token || got.FileBytes != c.file {
				t.Errorf("%d bytes per token and %d in all, want %d and %d", got.BytesPerToken, got.FileBytes, c.token, c.file)
			}
		})
	}
}

func TestTypeIsThatOfMostValues(t *testing.T) {
	small := tensor("a.weight", 2176, 32, 64)
	small.Type = kernel.Q8_0
	large := tensor("b.weight", 1152, 32, 64)
	large.Type = kernel.Q4_0
	vector := tensor("norm.weight", 1<<20, 1<<18)
	for _, all := range [][]*modelfile.Tensor{{small, large, large, vector}, {large, small, large}} {
		if got := weightsOf(model.Config{}, all).Type; got != "Q4_0" {
			t.Errorf("type %q, want the one of two matrices of three", got)
		}
	}
}

func TestReadWeightsNeedsAModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, []byte("GGUF?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if w, err := ReadWeights(path); err == nil {
		t.Errorf("weights %+v of a broken file", w)
	}
}

// near compares what floating point cannot make equal.
func near(a report.Spread, min, median, max float64) bool {
	return math.Abs(a.Min-min)+math.Abs(a.Median-median)+math.Abs(a.Max-max) < 1e-9
}

// example has three rounds; in the second one others disturbed decode and batch.
func example() []Round {
	return []Round{
		{TokensPerS: 30, MemoryGBs: 20, Sequence: 0.04, Concurrent: 0.01, Turn1: 2, Turn2: 0.1, Input: 50, Cached: 1900},
		{TokensPerS: 1, MemoryGBs: 20, Sequence: 0.04, Concurrent: 0.04, Turn1: 2, Turn2: 0.5, Input: 70, Cached: 1880,
			Foreign: [parts]float64{0.06, 0.9, 0.05}},
		{TokensPerS: 35, MemoryGBs: 20, Sequence: 0.05, Concurrent: 0.02, Turn1: 4, Turn2: 0.4, Input: 50, Cached: 1900,
			Foreign: [parts]float64{0.05, 0, 0}},
	}
}

func TestSummarize(t *testing.T) {
	r := Summarize(Weights{BytesPerToken: 4e8}, Start{Ready: 4}, Start{Ready: 1}, example(), Defaults())
	for name, ok := range map[string]bool{
		"start":            r.Starts.Ratio == 0.25,
		"decode rounds":    r.Decode.Rounds == report.Rounds{Run: 3, Discarded: 1, Disturbed: false, Foreign: 0.05},
		"decode tokens/s":  near(r.Decode.TokensPerS, 30, 32.5, 35),
		"decode GB/s":      near(r.Decode.GBs, 12, 13, 14),
		"decode share":     near(r.Decode.Share, 0.6, 0.65, 0.7),
		"batch rounds":     r.Batch.Rounds == report.Rounds{Run: 3, Discarded: 1, Disturbed: false, Foreign: 0},
		"batch sequence":   near(r.Batch.Sequence, 20, 22.5, 25),
		"batch concurrent": near(r.Batch.Concurrent, 50, 75, 100),
		"batch ratio":      near(r.Batch.Ratio, 0.25, 0.325, 0.4),
		"turns rounds":     r.Turns.Rounds == report.Rounds{Run: 3, Discarded: 0, Disturbed: false, Foreign: 0.05},
		"turns ms":         near(r.Turns.Turn2, 100, 400, 500) && near(r.Turns.Turn1, 2000, 2000, 4000),
		"turns ratio":      near(r.Turns.Ratio, 0.05, 0.1, 0.25),
		"turns cached":     r.Turns.Cached == 1880 && r.Turns.Input == 70,
		"gates":            len(r.Gates) == 3 && r.Met(),
	} {
		if !ok {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestDisturbedRoundsCountWhenThereAreNoOthers(t *testing.T) {
	r := Summarize(Weights{BytesPerToken: 4e8}, Start{}, Start{}, example()[1:2], Defaults())
	if want := (report.Rounds{Run: 1, Discarded: 1, Disturbed: true, Foreign: 0.06}); r.Decode.Rounds != want ||
		r.Decode.TokensPerS.Median != 1 {
		t.Errorf("%+v, want %+v", r.Decode, want)
	}
	if r.Turns.Rounds.Disturbed || !strings.Contains(r.Decode.Rounds.String(), "DISTURBED") {
		t.Errorf("turns %v, decode %v", r.Turns.Rounds, r.Decode.Rounds)
	}
}

func TestGates(t *testing.T) {
	cases := []struct {
		share, batch, turns float64
		want                [3]bool
	}{
		{0.6, 0.499, 0.199, [3]bool{true, true, true}},
		{0.599, 0.5, 0.2, [3]bool{false, false, false}},
		{0, 0, 0, [3]bool{false, false, false}}, // not measured
		{0.9, 0.7, 0.1, [3]bool{true, false, true}},
	}
	for _, c := range cases {
		var r Report
		r.Decode.Share.Median, r.Batch.Ratio.Median, r.Turns.Ratio.Median = c.share, c.batch, c.turns
		r.Gates = gates(r, Defaults())
		for i, g := range r.Gates {
			if g.Met != c.want[i] {
				t.Errorf("%+v: %+v", c, g)
			}
		}
		if r.Met() != (c.want == [3]bool{true, true, true}) {
			t.Errorf("%+v: met %v", c, r.Met())
		}
	}
}

func TestReportIsPrintedAndWritten(t *testing.T) {
	r := Summarize(Weights{Arch: "qwen3", BytesPerToken: 4e8, FileBytes: 5e8}, Start{Ready: 4}, Start{Ready: 1}, example(), Defaults())
	var out bytes.Buffer
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one token reads 400 MB", "0.650 (0.600-0.700) of it", "8 streams at once", ">= 0.600", "1880 prompt tokens from the cache"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	path := filepath.Join(t.TempDir(), "r.json")
	if err := report.WriteJSON(path, r); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Schema string `json:"schema"`
		Decode struct {
			Share struct{ Median float64 } `json:"share"`
		} `json:"decode"`
	}
	if err := json.Unmarshal(b, &got); err != nil || got.Schema != Schema || math.Abs(got.Decode.Share.Median-0.65) > 1e-9 {
		t.Errorf("%+v, error %v", got, err)
	}
}

func TestValidateNamesEveryFlag(t *testing.T) {
	good := Defaults()
	good.Model = "m.gguf"
	if err := good.List().Validate(); err != nil {
		t.Error(err)
	}
	bad := Options{MinShare: math.NaN(), Memory: time.Hour}
	err := bad.List().Validate()
	for _, flag := range []string{"model", "threads", "rounds", "tokens", "streams", "stream-tokens", "conversation", "memory", "start-timeout", "min-share", "max-batch-ratio", "max-turn-ratio"} {
		if err == nil || !strings.Contains(err.Error(), "--"+flag+" ") {
			t.Errorf("--%s is not in %v", flag, err)
		}
	}
}

const embedded = "../../engine/embedded/core-1.1-mini.gguf"

func TestReadWeightsOfAModel(t *testing.T) {
	w, err := ReadWeights(embedded)
	if err != nil || w.BytesPerToken <= w.FileBytes/4 || w.BytesPerToken > w.FileBytes {
		t.Errorf("%+v, error %v", w, err)
	}
}

func TestRunThatFailsLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o := Defaults()
	o.Model, o.Node = embedded, filepath.Join(t.TempDir(), "no-node")
	if _, err := Run(t.Context(), o, func(string, ...any) {}); err == nil {
		t.Error("a run without a node succeeded")
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

// A model that ends its answers early makes streams of prompts.
func TestStreamsThatEndEarlyAreNoMeasurement(t *testing.T) {
	output := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		fmt.Fprintf(w, "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"word\"}}\n\n"+
			"data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":%d}}\n\ndata: {\"type\":\"message_stop\"}\n\n", output)
	}))
	defer server.Close()
	m := &run{o: Defaults()}
	if err := m.options(server.URL, "k"); err != nil {
		t.Fatal(err)
	}
	for _, atOnce := range []int{m.o.Streams, 1} {
		output = m.o.StreamTokens
		if perToken, err := m.perToken(t.Context(), 0, atOnce); err != nil || perToken <= 0 {
			t.Errorf("at once %v: %v s a token, %v", atOnce, perToken, err)
		}
		output = 3
		if _, err := m.perToken(t.Context(), 0, atOnce); err == nil || !strings.Contains(err.Error(), "3 of 32 tokens") {
			t.Errorf("at once %v: error %v", atOnce, err)
		}
	}
}

// TestDecodeIsBetweenTwoReadings: one stream, and the mean of what memory delivered before and after it.
func TestDecodeIsBetweenTwoReadings(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 512 MiB")
	}
	if _, err := proc.ReadClocks(); err != nil {
		t.Skip(err) // no /proc
	}
	streams := 0
	m := &run{o: Defaults(), node: &proc.Node{}}
	m.o.Memory = 10 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		streams++
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"word\"}}\n\n")
		w.(http.Flusher).Flush()
		time.Sleep(10 * time.Millisecond) // a stream that takes no time has no speed
		fmt.Fprintf(w, "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":%d}}\n\n"+
			"data: {\"type\":\"message_stop\"}\n\n", m.o.Tokens)
	}))
	defer server.Close()
	if err := m.options(server.URL, "k"); err != nil {
		t.Fatal(err)
	}
	var r Round
	if err := m.decode(t.Context(), 0, &r); err != nil {
		t.Fatal(err)
	}
	if streams != 1 || r.TokensPerS <= 0 || r.MemoryGBs < 1e-3 || r.MemoryGBs > 1e5 {
		t.Errorf("%d streams: %+v", streams, r)
	}
}

func TestMemoryIsRead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 512 MiB")
	}
	// The bounds are those of no machine: between a floppy disk and a thousand processors.
	if got, err := cpu.ReadBandwidth(1, 0); err != nil || got < 1e-3 || got > 1e5 {
		t.Errorf("%v GB/s, error %v", got, err)
	}
	if _, err := cpu.ReadBandwidth(-1, 0); err == nil {
		t.Error("measured with -1 threads")
	}
}
