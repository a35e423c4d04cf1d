package model

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/ref"
	"corenode/engine/modelfile"
)

// TestForwardRefuses: a step that does not fit is an error before anything runs.
func TestForwardRefuses(t *testing.T) {
	m := loadOn(t, openParity(t, "tiny-qwen3-f16"), ref.New())
	cache := newCache(t, m, 16, 1, 1, kernel.KVF32)
	span := func(row, n, pos int) kernel.Span { return kernel.Span{Row: row, Len: n, Pos: pos, Pages: []int32{0}} }
	cases := []struct {
		name   string
		step   kernel.Step
		tokens []int32
		rows   []int32
		width  int
		want   string
	}{
		{"no rows", kernel.Step{}, nil, nil, 512, "0 rows"},
		{"too many rows", kernel.Step{Rows: RowsMax + 1, Spans: []kernel.Span{span(0, RowsMax+1, 0)}}, make([]int32, RowsMax+1), nil, 512, "8193 rows"},
		{"too few tokens", kernel.Step{Rows: 2, Spans: []kernel.Span{span(0, 2, 0)}}, []int32{1}, nil, 512, "1 tokens"},
		{"gap", kernel.Step{Rows: 2, Spans: []kernel.Span{span(1, 1, 0)}}, []int32{1, 2}, nil, 512, "want row 0"},
		{"not covered", kernel.Step{Rows: 2, Spans: []kernel.Span{span(0, 1, 0)}}, []int32{1, 2}, nil, 512, "cover 1 of 2"},
		{"empty span", kernel.Step{Rows: 1, Spans: []kernel.Span{span(0, 0, 0), span(0, 1, 0)}}, []int32{1}, nil, 512, "length 0"},
		{"negative position", kernel.Step{Rows: 1, Spans: []kernel.Span{span(0, 1, -1)}}, []int32{1}, nil, 512, "position -1"},
		{"more saves than rows", kernel.Step{Rows: 1, Spans: []kernel.Span{saving(span(0, 1, 0), 1, 2)}}, []int32{1}, nil, 512, "2 states saved of 1 rows"},
		{"save over itself", kernel.Step{Rows: 2, Spans: []kernel.Span{saving(span(0, 2, 0), 1, 0)}}, []int32{1, 1}, nil, 512, "row 1 saved in slot 0"},
		{"two saves in one", kernel.Step{Rows: 2, Spans: []kernel.Span{saving(span(0, 2, 0), 3, 3)}}, []int32{1, 1}, nil, 512, "row 1 saved in slot 3"},
		{"negative save", kernel.Step{Rows: 1, Spans: []kernel.Span{saving(span(0, 1, 0), -1)}}, []int32{1}, nil, 512, "slot -1"},
		{"negative token", kernel.Step{Rows: 1, Spans: []kernel.Span{span(0, 1, 0)}}, []int32{-1}, nil, 512, "token 0 is -1"},
		{"token beyond", kernel.Step{Rows: 1, Spans: []kernel.Span{span(0, 1, 0)}}, []int32{512}, nil, 512, "want 0 to 511"},
		{"row of logits", kernel.Step{Rows: 1, Spans: []kernel.Span{span(0, 1, 0)}}, []int32{1}, []int32{1}, 512, "row 1 of 1"},
		{"width of logits", kernel.Step{Rows: 1, Spans: []kernel.Span{span(0, 1, 0)}}, []int32{1}, []int32{0}, 511, "511 values"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			logits := make([][]float32, len(c.rows))
			for i := range logits {
				logits[i] = make([]float32, c.width)
			}
			err := m.Forward(&c.step, c.tokens, cache, c.rows, logits)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if cache.BytesUsed() != 0 {
		t.Errorf("refused steps took %d bytes", cache.BytesUsed())
	}
}

// saving is the span with states saved after its first rows.
func saving(s kernel.Span, slots ...int32) kernel.Span {
	s.Saves = slots
	return s
}

// TestHeadPieces: more rows of logits than the head takes at a time, in a step larger
// than the first buffers, match the same rows one by one.
func TestHeadPieces(t *testing.T) {
	m := loadOn(t, openParity(t, "tiny-qwen35moe-f16"), ref.New())
	tokens := someTokens(m, headRowsMax+9, 3)
	want := newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF32), 0, 16).feed(t, tokens)
	for _, r := range []int32{0, headRowsMax - 1, headRowsMax, headRowsMax + 8} {
		s := newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF32), 0, 16)
		got := rows(m, 1)
		step := &kernel.Step{Rows: len(tokens), Spans: []kernel.Span{s.span(0, len(tokens))}}
		if err := m.Forward(step, tokens, s.cache, []int32{r}, got); err != nil {
			t.Fatal(err)
		}
		sameBits(t, "row alone", got, want[r:r+1])
	}
}

// TestDecodeStepAllocatesNothing but the handle of the caller's logits.
func TestDecodeStepAllocatesNothing(t *testing.T) {
	for _, name := range []string{"tiny-qwen3-f16", "tiny-qwen35moe-f16"} {
		for _, k := range makers(t)[1:] {
			m := loadOn(t, openParity(t, name), k.make(t, 2))
			cache, logits := newCache(t, m, 16, 1, 1, kernel.KVF16), rows(m, 1)
			if m.HasState() {
				cache.ResetState(0)
			}
			step := &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pages: []int32{0}}}}
			tokens, last := []int32{7}, []int32{0}
			decode := func() {
				if err := m.Forward(step, tokens, cache, last, logits); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 { // each thread takes its scratch when it first gets work
				decode()
			}
			if n := testing.AllocsPerRun(50, decode); n > 1 {
				t.Errorf("%s on %s: a step allocates %g times", name, k.name, n)
			}
		}
	}
}

// TestLogitsInOneBlock: rows that follow each other in memory, which a backend may
// write to directly, get what separate ones get.
func TestLogitsInOneBlock(t *testing.T) {
	const n = 5
	for _, k := range makers(t)[1:] {
		m := loadOn(t, openParity(t, "tiny-qwen3-f16"), k.make(t, 2))
		want := newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF16), 0, 16).feed(t, someTokens(m, n, 1))
		block, got := make([]float32, n*m.cfg.Vocab), make([][]float32, n)
		for i := range got {
			got[i] = block[i*m.cfg.Vocab : (i+1)*m.cfg.Vocab]
		}
		s := newSequence(t, m, newCache(t, m, 16, sequencePages(16), sequencesMax, kernel.KVF16), 0, 16)
		step := &kernel.Step{Rows: n, Spans: []kernel.Span{s.span(0, n)}}
		if err := m.Forward(step, someTokens(m, n, 1), s.cache, rowsFrom(0, n), got); err != nil {
			t.Fatal(err)
		}
		sameBits(t, k.name, got, want)
	}
}

func TestDistribute(t *testing.T) {
	d := distribute([]float32{1, 3, float32(math.Inf(-1)), 3, 2}, 3)
	var ids []int32
	for _, c := range d.Top {
		ids = append(ids, c.ID)
	}
	if !slices.Equal(ids, []int32{1, 3, 4}) {
		t.Errorf("top ids %v, want 1 3 4", ids)
	}
	lse := math.Log(2*math.Exp(3) + math.Exp(2) + math.Exp(1))
	if math.Abs(d.LSE-lse) > 1e-12 || math.Abs(d.Top[2].LogSoftmax-(2-lse)) > 1e-12 {
		t.Errorf("lse %g and log-softmax %g, want %g and %g", d.LSE, d.Top[2].LogSoftmax, lse, 2-lse)
	}
}

// TestLargest: they are the first of a stable sort, NaN last.
func TestLargest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	some := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, 1, 1, 2, -3}
	for range 300 {
		values := make([]float32, 1+rnd.IntN(40))
		for i := range values {
			values[i] = some[rnd.IntN(len(some))]
		}
		want := rowsFrom(0, len(values))
		slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(values[b], values[a]) }) // NaN is the least
		n := 1 + rnd.IntN(len(values)+3)
		if got := largest(values, n); !slices.Equal(got, want[:min(n, len(want))]) {
			t.Fatalf("the %d largest of %v are %v, want %v", n, values, got, want[:min(n, len(want))])
		}
	}
}

// TestTraceJSON: the form is that of the recordings.
func TestTraceJSON(t *testing.T) {
	m := loadOn(t, openParity(t, "tiny-qwen3-f16"), ref.New())
	tr, err := RunTrace(m, newCache(t, m, 32, 2, 1, kernel.KVF32), 32, []int32{1, 2}, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(tr)
	if err != nil {
		t.Fatal(err)
	}
	var back recording
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Positions) != 2 || len(back.Positions[0].Top) != 2 || len(back.Greedy) != 1 || back.GreedyTokens[0] != tr.GreedyTokens[0] ||
		back.Positions[1].LSE != tr.Positions[1].LSE || back.Greedy[0].Top[1] != tr.Greedy[0].Top[1] {
		t.Errorf("%s does not read back as %+v", b, tr)
	}
	if _, err := RunTrace(m, newCache(t, m, 32, 2, 1, kernel.KVF32), 32, nil, 2, 1); err == nil {
		t.Error("a trace of no tokens was made")
	}
}

// BenchmarkForward measures a model file on the fastest CPU level:
// decode of one and of eight sequences, and prefill of 512 tokens.
func BenchmarkForward(b *testing.B) {
	path := os.Getenv("CORENODE_BENCH_GGUF")
	if path == "" {
		b.Skip("CORENODE_BENCH_GGUF does not name a model file")
	}
	f, err := modelfile.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	m, err := Load(f, benchBackend(b))
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	b.Run("decode batch 1", func(b *testing.B) { benchSteps(b, m, 1, 1, 32) })
	b.Run("decode batch 8", func(b *testing.B) { benchSteps(b, m, 8, 1, 32) })
	b.Run("prefill 512", func(b *testing.B) { benchSteps(b, m, 1, 512, 1) })
}

// benchSteps times steps of n sequences by length tokens, from position 0 on; the last
// row of each sequence has logits.
func benchSteps(b *testing.B, m *Model, n, length, steps int) {
	const pageTokens, pages = 64, 8
	cache, err := m.b.NewCache(m.CacheConfig(pageTokens, n*pages, n, kernel.KVF16))
	if err != nil {
		b.Fatal(err)
	}
	logits := rows(m, n)
	for b.Loop() {
		for s := range steps {
			step := &kernel.Step{Rows: n * length}
			var last []int32
			for i := range n {
				if s == 0 && m.HasState() {
					cache.ResetState(int32(i))
				}
				step.Spans = append(step.Spans, kernel.Span{Row: i * length, Len: length, Pos: s * length,
					Pages: rowsFrom(i*pages, pages), State: int32(i)})
				last = append(last, int32((i+1)*length-1))
			}
			if err := m.Forward(step, someTokens(m, step.Rows, uint64(s)), cache, last, logits); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(steps*n*length)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}
