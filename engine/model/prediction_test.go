package model

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/kernel/ref"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// predicting are the models that the reference was recorded for.
var predicting = []string{"tiny-qwen35", "tiny-qwen35moe"}

// openPredicting is the F16 file of a model with a prediction block.
func openPredicting(t testing.TB, name string, change func(map[string]*modelfile.Tensor)) *modelfile.File {
	t.Helper()
	f, err := modelfile.OpenBytes(name, gguftest.WithPrediction(openParity(t, name+"-f16"), change))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func loadPredicting(t testing.TB, f *modelfile.File, b kernel.Backend) *Model {
	t.Helper()
	m, err := LoadPredicting(f, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	if !m.Predicts() {
		t.Fatal("the model has no prediction layer")
	}
	return m
}

// prediction is what testdata/prediction/reference.py recorded.
type prediction struct {
	Prompt []int32 `json:"prompt"`
	Next   []struct {
		LSE float64      `json:"lse"`
		Top [][2]float64 `json:"top"`
	} `json:"next"`
	Chain []struct {
		Token int32     `json:"token"`
		All   []float32 `json:"all"`
	} `json:"chain"`
}

func readPrediction(t testing.TB, name string) prediction {
	t.Helper()
	b, err := os.ReadFile("testdata/prediction/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var p prediction
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Prompt) < 10 || len(p.Next) != len(p.Prompt)-1 || len(p.Chain) < 3 {
		t.Fatalf("%s: the recording is not whole", name)
	}
	return p
}

// remember feeds tokens in pieces and remembers each; the last one's next token is
// last. It leaves the last piece remembered.
func (s *sequence) remember(t testing.TB, tokens []int32, last int32, pieces ...int) {
	t.Helper()
	next := append(append([]int32{}, tokens[1:]...), last)
	for at, i := 0, 0; at < len(tokens); i++ {
		n := min(pieces[min(i, len(pieces)-1)], len(tokens)-at)
		step := &kernel.Step{Rows: n, Spans: []kernel.Span{s.span(0, n)}}
		if err := s.m.Forward(step, tokens[at:at+n], s.cache, nil, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.m.Remember(step, next[at:at+n], s.cache); err != nil {
			t.Fatal(err)
		}
		at += n
	}
}

// predict goes on from one row at a position.
func (s *sequence) predict(t testing.TB, row int, pos int, tokens ...int32) []float32 {
	t.Helper()
	out := rows(s.m, 1)
	step := &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pos: pos, Pages: s.pages, State: s.slot}}}
	if err := s.m.Predict(step, []int32{int32(row)}, tokens, s.cache, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestPredictionAgainstReference: every position of the prompt, in pieces of every
// kind, and a chain of predictions, on the Go reference and on every level.
func TestPredictionAgainstReference(t *testing.T) {
	for _, name := range predicting {
		want := readPrediction(t, name)
		f := openPredicting(t, name, nil)
		n := len(want.Prompt)
		for _, k := range exactMakers(t) {
			t.Run(name+"/"+k.name, func(t *testing.T) {
				m := loadPredicting(t, f, k.make(t, 2))
				stride := 1 // each prefix ends with another next token
				if k.name == "portable" || k.name == "ref" {
					stride = 7 // slow
				}
				for _, pieces := range [][]int{{n}, {1}, {5, 1, 1, 16}} {
					s := newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF32), 3, 16)
					for at := 1; at < n; at += stride {
						s.pos = 0
						s.cache.ResetState(s.slot)
						s.remember(t, want.Prompt[:at], want.Prompt[at], pieces...)
						got := distribute(s.predict(t, lastRow(at, pieces), at-1), 8)
						d := math.Abs(got.LSE - want.Next[at-1].LSE)
						for i, c := range want.Next[at-1].Top {
							d = max(d, math.Abs(got.Top[i].Logit-c[1]))
						}
						if !(d < 0.01) {
							t.Fatalf("pieces %v: logits after token %d differ by %g", pieces, at, d)
						}
					}
					s.chain(t, want)
				}
			})
		}
	}
}

// lastRow is the row of position at-1 in its piece.
func lastRow(at int, pieces []int) int {
	begin := 0
	for i := 0; ; i++ {
		n := pieces[min(i, len(pieces)-1)]
		if begin+n >= at {
			return at - 1 - begin
		}
		begin += n
	}
}

// chain goes on from the prediction for the recording's last row.
func (s *sequence) chain(t *testing.T, want prediction) {
	t.Helper()
	n := len(want.Prompt)
	s.pos = 0
	s.cache.ResetState(s.slot)
	s.remember(t, want.Prompt[:n-1], want.Prompt[n-1], n)
	logits := s.predict(t, n-2, n-2)
	for i, c := range want.Chain {
		for id, x := range c.All {
			if d := math.Abs(float64(x - logits[id])); !(d < 0.01) {
				t.Fatalf("depth %d: logit %d is %g, want %g", i, id, logits[id], x)
			}
		}
		if i+1 < len(want.Chain) {
			logits = s.predict(t, 0, n-1+i, c.Token)
		}
	}
}

// TestPredictionChangesNoLogits: with the layer in use the model's own logits keep
// every bit.
func TestPredictionChangesNoLogits(t *testing.T) {
	for _, name := range predicting {
		f := openPredicting(t, name, nil)
		for _, k := range makers(t) {
			plain, with := loadOn(t, f, k.make(t, 2)), loadPredicting(t, f, k.make(t, 2))
			if plain.Predicts() {
				t.Fatal("Load loads the prediction layer")
			}
			tokens := someTokens(plain, headRowsMax+8, 5)
			a := newSequence(t, plain, newCache(t, plain, 16, sequencePages(16), sequencesMax, kernel.KVF16), 0, 16)
			b := newSequence(t, with, newCache(t, with, 16, sequencePages(16), sequencesMax, kernel.KVF16), 0, 16)
			for _, n := range []int{headRowsMax + 2, 1, 3, 1} {
				part := tokens[a.pos : a.pos+n]
				want := a.feed(t, part)
				got := rows(with, n)
				step := &kernel.Step{Rows: n, Spans: []kernel.Span{b.span(0, n)}}
				if err := with.Forward(step, part, b.cache, rowsFrom(0, n), got); err != nil {
					t.Fatal(err)
				}
				sameBits(t, name+" on "+k.name, got, want)
				next := tokens[b.pos-n+1:][:n]
				if err := with.Remember(step, next, b.cache); err != nil {
					t.Fatal(err)
				}
				b.predict(t, n-1, b.pos-1)
				b.predict(t, 0, b.pos, 7)
			}
		}
	}
}

// TestPredictionsOfABatch: sequences side by side, some of whose rows were not
// kept, predict to the bit what each predicts alone.
func TestPredictionsOfABatch(t *testing.T) {
	for _, name := range predicting {
		f := openPredicting(t, name, nil)
		for _, k := range makers(t)[1:] {
			m := loadPredicting(t, f, k.make(t, 2))
			other := loadPredicting(t, f, k.make(t, 1))
			cache := newCache(t, m, 64, sequencePages(64), sequencesMax, kernel.KVF16)
			step, after := &kernel.Step{}, &kernel.Step{}
			var tokens, next, from []int32
			for i := range 4 {
				s := newSequence(t, m, cache, i, 64)
				own := someTokens(m, 9+i, uint64(i))
				step.Spans = append(step.Spans, s.span(len(tokens), 11+i)) // two rows more than it keeps
				after.Spans = append(after.Spans, kernel.Span{Row: i, Len: 1, Pos: 8 + i, Pages: s.pages})
				from = append(from, int32(len(tokens)+8+i))
				tokens = append(append(tokens, own...), 3, 4)
				next = append(append(append(next, own[1:]...), int32(i)), 4, 5)
			}
			step.Rows, after.Rows = len(tokens), 4
			if err := m.Forward(step, tokens, cache, nil, nil); err != nil {
				t.Fatal(err)
			}
			if err := m.Remember(step, next, cache); err != nil {
				t.Fatal(err)
			}
			got := rows(m, 4)
			if err := m.Predict(after, from, nil, cache, got); err != nil {
				t.Fatal(err)
			}
			for i := range got {
				sameBits(t, name+" on "+k.name, got[i:i+1], [][]float32{other.predictAlone(t, i, 0)})
			}
			for d, keep := range [][]int{{0, 1, 3}, {1, 2}} { // rows of the pass before
				var spans []kernel.Span
				var tokens, rowsOf []int32
				for n, r := range keep {
					sp := after.Spans[r]
					sp.Row, sp.Pos = n, sp.Pos+1
					spans = append(spans, sp)
					rowsOf = append(rowsOf, int32(r))
					tokens = append(tokens, int32(20*(sp.Pos-9-d)+d))
				}
				after.Rows, after.Spans = len(spans), spans
				got := rows(m, len(spans))
				if err := m.Predict(after, rowsOf, tokens, cache, got); err != nil {
					t.Fatal(err)
				}
				for n, sp := range spans {
					sameBits(t, name+" on "+k.name, got[n:n+1], [][]float32{other.predictAlone(t, sp.Pos-9-d, d+1)})
				}
			}
		}
	}
}

// predictAlone is what sequence i of TestPredictionsOfABatch predicts without the others.
func (m *Model) predictAlone(t testing.TB, i, depth int) []float32 {
	s := newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF16), i, 16)
	s.remember(t, someTokens(m, 9+i, uint64(i)), int32(i), 64)
	logits := s.predict(t, 8+i, 8+i)
	for d := range depth {
		logits = s.predict(t, 0, 9+i+d, int32(20*i+d))
	}
	return logits
}

// TestPredictionBlocks: what a file may leave out of the block, or have of its own.
func TestPredictionBlocks(t *testing.T) {
	f := openParity(t, "tiny-qwen35-f16")
	norm, _ := f.Tensor("output_norm.weight")
	embed, _ := f.Tensor("token_embd.weight")
	head, _ := f.Tensor("output.weight")
	at := func(change func(map[string]*modelfile.Tensor)) []float32 {
		m := loadPredicting(t, openPredicting(t, "tiny-qwen35", change), ref.New())
		s := newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF32), 0, 16)
		s.remember(t, []int32{4, 5, 6}, 7, 3)
		return s.predict(t, 2, 2)
	}
	plain := at(nil)
	for name, change := range map[string]func(map[string]*modelfile.Tensor){
		"an embedding of its own": func(x map[string]*modelfile.Tensor) {
			x["nextn.embed_tokens.weight"] = embed
		},
		"a head of its own": func(x map[string]*modelfile.Tensor) { x["nextn.shared_head_head.weight"] = head },
	} {
		sameBits(t, name, [][]float32{at(change)}, [][]float32{plain})
	}
	without := at(func(x map[string]*modelfile.Tensor) { delete(x, "nextn.shared_head_norm.weight") })
	same := at(func(x map[string]*modelfile.Tensor) {
		values, _ := norm.Floats()
		gguftest.Set(x["nextn.shared_head_norm.weight"], kernel.F32, values)
	})
	sameBits(t, "the model's norm", [][]float32{without}, [][]float32{same})
	if d := meanDistance(t, [][]float32{without}, [][]float32{plain}); d < 1e-3 {
		t.Errorf("the norm before the head changes nothing: %g", d)
	}
	half := at(func(x map[string]*modelfile.Tensor) {
		values, _ := x["nextn.eh_proj.weight"].Floats()
		gguftest.Set(x["nextn.eh_proj.weight"], kernel.F32, values)
	})
	if d := meanDistance(t, [][]float32{half}, [][]float32{plain}); d > 1e-4 {
		t.Errorf("eh_proj as float32 differs by %g", d)
	}
	for what, change := range map[string]func(map[string]*modelfile.Tensor){
		"blk.4.attn_k.weight is missing":      func(x map[string]*modelfile.Tensor) { delete(x, "attn_k.weight") },
		"blk.4.nextn.enorm.weight is missing": func(x map[string]*modelfile.Tensor) { delete(x, "nextn.enorm.weight") },
		"blk.4.nextn.eh_proj.weight: shape":   func(x map[string]*modelfile.Tensor) { x["nextn.eh_proj.weight"].Shape = []int{256, 512} },
	} {
		f := openPredicting(t, "tiny-qwen35", change)
		if _, err := LoadPredicting(f, ref.New()); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want %q", err, what)
		}
		if _, err := Check(f); !errors.Is(err, ErrPrediction) || !strings.Contains(err.Error(), what) {
			t.Errorf("Check says %v, want %q", err, what)
		}
	}
	mentioned := openPredicting(t, "tiny-qwen35", func(x map[string]*modelfile.Tensor) { clear(x) })
	if m, err := LoadPredicting(mentioned, ref.New()); err != nil || m.Predicts() {
		t.Errorf("a file that only mentions the block: %v", err)
	}
}

// TestColumnsOfEveryType: a matrix cut between columns is the products of its
// halves, also where the cut lies within a block.
func TestColumnsOfEveryType(t *testing.T) {
	for _, c := range []struct {
		typ  kernel.Type
		cols int
	}{{kernel.F32, 7}, {kernel.F16, 32}, {kernel.Q8_0, 64}, {kernel.Q4_0, 48}, {kernel.Q4_K, 256}, {kernel.Q6_K, 128}} {
		const n = 3
		x := &modelfile.Tensor{Name: "w", Shape: []int{2 * c.cols, n}}
		gguftest.Set(x, c.typ, gguftest.Hashed("w", 2*c.cols*n, 1))
		f, err := modelfile.OpenBytes("w", gguftest.Bytes([]gguftest.KV{{Key: "general.architecture", Value: "llama"}}, []*modelfile.Tensor{x}))
		if err != nil {
			t.Fatal(err)
		}
		b := ref.New()
		ts := &tensors{f: f, b: b, used: map[string]bool{}}
		left, right := ts.columns("w", n, c.cols)
		whole := ts.matrix("w", n, 2*c.cols)
		if len(ts.errs) > 0 {
			t.Fatal(ts.errs)
		}
		v := gguftest.Hashed("v", 2*c.cols, 1)
		product := func(w kernel.Weight, v []float32) []float32 {
			in, out, got := b.NewBuffer(len(v)), b.NewBuffer(n), make([]float32, n)
			b.Upload(in, 0, v)
			b.MatMul([]kernel.Buffer{out}, in, 1, []kernel.Weight{w})
			b.Download(got, out, 0)
			return got
		}
		l, r, w := product(left, v[:c.cols]), product(right, v[c.cols:]), product(whole, v)
		for i := range w {
			if d := math.Abs(float64(l[i] + r[i] - w[i])); !(d < 1e-4) {
				t.Errorf("type %d, cut at %d: row %d is %g + %g, want %g", c.typ, c.cols, i, l[i], r[i], w[i])
			}
		}
		b.Close()
	}
}

// TestColumnsAreNotKept: the halves were made for Load, and a backend is told not to keep them.
func TestColumnsAreNotKept(t *testing.T) {
	b := loads{ref.New(), map[string]kernel.Source{}}
	loadPredicting(t, openPredicting(t, "tiny-qwen35", nil), b)
	for _, half := range []string{"[0]", "[1]"} {
		src, ok := b.sources["blk.4.nextn.eh_proj.weight"+half]
		if !ok || !src.Copied || src.Read != nil {
			t.Errorf("half %s is loaded %v, as a copy %v, to be read %v", half, ok, src.Copied, src.Read != nil)
		}
	}
}

// TestPredictionRefuses: what does not fit is an error before anything runs.
func TestPredictionRefuses(t *testing.T) {
	m := loadPredicting(t, openPredicting(t, "tiny-qwen35", nil), ref.New())
	cache := newCache(t, m, 16, 1, 1, kernel.KVF32)
	cache.ResetState(0)
	step := &kernel.Step{Rows: 2, Spans: []kernel.Span{{Len: 2, Pages: []int32{0}}}}
	one := &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pos: 1, Pages: []int32{0}}}}
	out := rows(m, 1)
	refuse := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	refuse("a prediction of nothing", m.Predict(one, []int32{0}, nil, cache, out))
	refuse("nothing to remember", m.Remember(step, []int32{1, 2}, cache))
	if err := m.Forward(step, []int32{1, 2}, cache, nil, nil); err != nil {
		t.Fatal(err)
	}
	refuse("another step", m.Remember(one, []int32{2}, cache))
	refuse("too few tokens", m.Remember(step, []int32{2}, cache))
	refuse("no token", m.Remember(step, []int32{2, 512}, cache))
	refuse("before Remember", m.Predict(one, []int32{1}, nil, cache, out))
	if err := m.Remember(step, []int32{2, 3}, cache); err != nil {
		t.Fatal(err)
	}
	refuse("remembered twice", m.Remember(step, []int32{2, 3}, cache))
	refuse("no such row", m.Predict(one, []int32{2}, nil, cache, out))
	refuse("tokens too early", m.Predict(one, []int32{1}, []int32{3}, cache, out))
	refuse("two rows of a sequence", m.Predict(step, []int32{0, 1}, nil, cache, rows(m, 2)))
	refuse("narrow logits", m.Predict(one, []int32{1}, nil, cache, [][]float32{out[0][:5]}))
	if err := m.Predict(one, []int32{1}, nil, cache, out); err != nil {
		t.Fatal(err)
	}
	refuse("no tokens", m.Predict(one, []int32{0}, nil, cache, out))
	refuse("no token", m.Predict(one, []int32{0}, []int32{-1}, cache, out))
	refuse("no such row", m.Predict(one, []int32{1}, []int32{3}, cache, out))
	plain := loadOn(t, openParity(t, "tiny-qwen35-f16"), ref.New())
	refuse("no layer", plain.Remember(step, []int32{1, 2}, cache))
	refuse("no layer", plain.Predict(one, []int32{0}, nil, cache, out))
}

// TestPredictionMemory: a page has room for one layer more, and what a page takes
// is what the cache then uses; states stay as they are.
func TestPredictionMemory(t *testing.T) {
	for _, k := range makers(t)[1:2] {
		f := openPredicting(t, "tiny-qwen35", nil)
		plain, with := loadOn(t, f, k.make(t, 1)), loadPredicting(t, f, k.make(t, 1))
		full := int64(plain.Config().FullLayers())
		if a, b := plain.BytesPerPage(16, kernel.KVF16), with.BytesPerPage(16, kernel.KVF16); b*full != a*(full+1) {
			t.Errorf("a page takes %d bytes, %d without the layer, of %d layers", b, a, full)
		}
		if plain.BytesPerState(kernel.StateF32) != with.BytesPerState(kernel.StateF32) {
			t.Error("the layer changes the size of a state")
		}
		s := newSequence(t, with, newCache(t, with, 16, sequencePages(16), sequencesMax, kernel.KVF16), 0, 16)
		before := s.cache.BytesUsed()
		s.remember(t, someTokens(with, 40, 1), 1, 40)
		if used, want := s.cache.BytesUsed()-before, 3*with.BytesPerPage(16, kernel.KVF16); used != want {
			t.Errorf("40 tokens take %d bytes, want %d", used, want)
		}
	}
}

// TestPackedWeightsServeWithAndWithoutPrediction: two models of one file, of which one alone drafts with its layer, find the same
// packed weights at each start, in either order.
func TestPackedWeightsServeWithAndWithoutPrediction(t *testing.T) {
	f, dir := openPredicting(t, predicting[0], nil), t.TempDir()
	for round := range 3 {
		for i, load := range []func(*modelfile.File, kernel.Backend) (*Model, error){Load, LoadPredicting} {
			b := newCPU(t, cpu.Options{Threads: 1, CacheDir: dir, CacheKey: "k"})
			if kept := b.(keeper).Kept(); kept != (round+i > 0) {
				t.Errorf("round %d, model %d: packed weights are there: %v", round, i, kept)
			}
			m, err := load(f, b)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.SealError(); err != nil {
				t.Error(err)
			}
			m.Close()
		}
	}
}
