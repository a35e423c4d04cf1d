package model

import (
	"math"
	"os"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/fused"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
	"corenode/engine/sample"
)

// The gate of a whole model against the CPU: the mean and the largest difference of logits, and the margin
// beyond which the likeliest token must be the same.
const (
	gateMean   = 0.02
	gateMax    = 0.1
	gateMargin = 0.1

	stepsOfGate     = 3
	stepsOfLongGate = 64
	longGate        = "CORENODE_LONG" // asks for all positions: minutes
)

// TestFusedModelsStayWithinTheGate computes prompts operation by operation and what follows with fused steps, of one
// sequence and of three at once, whose tokens are given, and compares every row of logits with the CPU's.
func TestFusedModelsStayWithinTheGate(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 6 s")
	}
	mixture, err := modelfile.OpenBytes("mixture", gguftest.Mixture(openParity(t, "tiny-qwen3-f16")))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*modelfile.File{
		"llama": openParity(t, "tiny-llama-f16"), "qwen35": openParity(t, "tiny-qwen35-f16"),
		"qwen35moe": openParity(t, "tiny-qwen35moe-f16"), "qwen35moe with states of bf16": openParity(t, "tiny-qwen35moe-f16"),
		"qwen3moe": mixture,
	} {
		t.Run(name, func(t *testing.T) {
			b, err := fused.New(devicetest.Open(t, interp.Config{Workers: 2}), eager.Options{})
			if err != nil {
				t.Fatal(err)
			}
			tokens, steps := readRecording(t, "tiny-llama-f32.kv-f32").Prompt, stepsOfGate
			if os.Getenv(longGate) != "" {
				steps = stepsOfLongGate
			}
			states := kernel.StateF32
			if strings.HasSuffix(name, "bf16") {
				states = kernel.StateBF16
			}
			got := decoded(t, loadOn(t, f, b), tokens, steps, states)
			want := decoded(t, loadOn(t, f, newCPU(t, cpu.Options{})), tokens, steps, kernel.StateF32)
			compare(t, got, want)
		})
	}
}

// compare wants logits within the gate.
func compare(t *testing.T, got, want [][]float32) {
	t.Helper()
	var sum, most float64
	for i, row := range want {
		best, second, own := 0, -1, 0
		for id, x := range row {
			far := math.Abs(float64(got[i][id]) - float64(x))
			sum, most = sum+far, max(most, far)
			if !(far <= gateMax) {
				t.Fatalf("row %d: logit %d is %g, want %g", i, id, got[i][id], x)
			}
			if x > row[best] {
				best, second = id, best
			} else if id != best && (second < 0 || x > row[second]) {
				second = id
			}
			if got[i][id] > got[i][own] {
				own = id
			}
		}
		if float64(row[best]-row[second]) > gateMargin && own != best {
			t.Errorf("row %d: token %d is likeliest, want %d", i, own, best)
		}
	}
	mean := sum / float64(len(want)*len(want[0]))
	t.Logf("%d rows: mean difference %.2g, largest %.2g", len(want), mean, most)
	if !(mean <= gateMean && most <= gateMax) {
		t.Errorf("mean difference %g, largest %g", mean, most)
	}
}

// decoded are the logits of steps behind prompts of different lengths: of the first sequence alone, then of three.
func decoded(t *testing.T, m *Model, tokens []int32, steps int, states kernel.StateType) (all [][]float32) {
	t.Helper()
	config := m.CacheConfig(16, 32, 4, kernel.KVF16)
	config.States = states
	cache, err := m.b.NewCache(config)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	var spans []kernel.Span
	for i := range 3 {
		table := make([]int32, 10)
		for j := range table {
			table[j] = int32(3*j + i)
		}
		spans = append(spans, kernel.Span{Pages: table, State: int32(i)})
	}
	step := func(in *kernel.Input) {
		in.Cache = cache
		all = append(all, logitsOfStep(t, m, p, in)...)
	}
	for i := range spans {
		s := &spans[i]
		s.Len, s.Prompt = i+1, true
		step(&kernel.Input{Step: kernel.Step{Rows: s.Len, Spans: []kernel.Span{*s}}, Tokens: tokens[:s.Len],
			Rows: []kernel.Row{{Row: int32(s.Len) - 1, Logits: true}}})
		s.Pos, s.Len, s.Prompt = s.Len, 1, false
	}
	for n := range steps {
		in := &kernel.Input{}
		for i := range spans {
			if i > 0 && n < steps/3 {
				break
			}
			s := &spans[i]
			s.Row = i
			in.Step.Spans = append(in.Step.Spans, *s)
			in.Step.Rows++
			in.Tokens = append(in.Tokens, tokens[(7*n+5*i)%len(tokens)])
			in.Rows = append(in.Rows, kernel.Row{Row: int32(i), Logits: true})
			s.Pos++
		}
		step(in)
	}
	if p != nil {
		p.Close()
	}
	return all
}

// logitsOfStep are the logits of a step's rows, by the model's program or, where it has none, by its operations.
func logitsOfStep(t *testing.T, m *Model, p kernel.Program, in *kernel.Input) [][]float32 {
	t.Helper()
	n := len(in.Rows)
	rows, at := make([][]float32, n), make([]int32, n)
	for i := range rows {
		rows[i], at[i] = make([]float32, m.cfg.Vocab), in.Rows[i].Row
	}
	var err error
	if p == nil {
		err = m.Forward(&in.Step, in.Tokens, in.Cache, at, rows)
	} else if err = p.Launch(in); err == nil {
		err = p.Collect(&kernel.Output{Tokens: make([]int32, n), Free: make([]int32, n), Logits: rows})
	}
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// fewPredicting is a model of two layers, one of each kind, and a prediction.
func fewPredicting(t *testing.T) *modelfile.File {
	t.Helper()
	few, err := modelfile.OpenBytes("few", gguftest.LastLayers(openParity(t, "tiny-qwen35moe-f16"), 2))
	if err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.OpenBytes("predicting", gguftest.WithPrediction(few, nil))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFusedPredictionsAreThoseOfTheCPU predicts behind a prompt, which is computed operation by operation, behind a fused
// step, and behind that prediction.
func TestFusedPredictionsAreThoseOfTheCPU(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 3 s")
	}
	f := fewPredicting(t)
	b, err := fused.New(devicetest.Open(t, interp.Config{Workers: 2}), eager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	device, host := loadPredicting(t, f, b), loadPredicting(t, f, newCPU(t, cpu.Options{}))
	program, err := device.Program()
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	p, ok := program.(*predictor)
	if !ok {
		t.Fatalf("the program is %T", program)
	}
	caches := [2]kernel.Cache{newCache(t, device, 16, 4, 1, kernel.KVF16), newCache(t, host, 16, 4, 1, kernel.KVF16)}
	tokens, pages, hidden := someTokens(device, 12, 3), []int32{2, 0, 1}, []int32{1, 4}
	step := func(from, n int, fused bool) {
		s := kernel.Step{Rows: n, Spans: []kernel.Span{{Len: n, Pos: from, Pages: pages, Prompt: !fused}}}
		part, next := tokens[from:from+n], tokens[from+1:from+n+1]
		in := &kernel.Input{Step: s, Tokens: part, Rows: []kernel.Row{{Row: int32(n - 1), Trigger: -1}}, Cache: caches[0]}
		if err := p.Launch(in); err != nil {
			t.Fatal(err)
		}
		if err := p.Collect(&kernel.Output{Tokens: make([]int32, 1), Free: make([]int32, 1)}); err != nil {
			t.Fatal(err)
		}
		if p.whole != fused {
			t.Errorf("%d rows: fused %v, want %v", n, p.whole, fused)
		}
		if err := host.Forward(&s, part, caches[1], nil, nil); err != nil {
			t.Fatal(err)
		}
		for i, remember := range []func(*kernel.Step, []int32, kernel.Cache) error{p.Remember, host.Remember} {
			if err := remember(&s, next, caches[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	draft := func(row int32, pos int, tokens []int32) {
		t.Helper()
		s := &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pos: pos, Pages: pages}}}
		got, logits := make([]kernel.Drafted, 1), rows(host, 1)
		if err := p.Draft(s, []int32{row}, tokens, caches[0], hidden, got); err != nil {
			t.Fatal(err)
		}
		if err := host.Predict(s, []int32{row}, tokens, caches[1], logits); err != nil {
			t.Fatal(err)
		}
		token, probability := sample.Likeliest(logits[0], hidden)
		if got[0].Token != token || math.Abs(float64(got[0].Probability)-probability) > 0.02*probability {
			t.Errorf("position %d: %+v, want %d with %g", pos, got[0], token, probability)
		}
	}
	step(0, 5, false)
	draft(4, 4, nil)
	draft(0, 5, []int32{7})
	step(5, 1, true)
	draft(0, 5, nil)
	draft(0, 6, []int32{9})
	step(6, 3, true) // two of its rows are a draft's
	draft(1, 7, nil)
}
