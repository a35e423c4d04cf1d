package eager

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/sample"
)

// anyLogits are of one of several kinds that are hard for something.
func (r *rig) anyLogits(vocab int) []float32 {
	v := r.Normals(vocab, []float64{0.1, 1, 4, 30}[r.Random.IntN(4)])
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	switch r.Random.IntN(9) {
	case 0:
		for i := range v { // many are equal
			v[i] = float32(math.Round(float64(v[i])))
		}
	case 1:
		for i := range v {
			v[i] = []float32{nan, -inf, v[i]}[i%3]
		}
	case 2:
		v[r.Random.IntN(vocab)] = inf
	case 3:
		for i := range v {
			v[i] = []float32{nan, -inf}[i%2] // nothing is possible
		}
	case 4:
		for i := range v {
			v[i] = 2.5
		}
	}
	return v
}

// some returns about a share of the ids, rising.
func (r *rig) some(vocab int, share float64) (ids []int32) {
	for i := range vocab {
		if r.Random.Float64() < share {
			ids = append(ids, int32(i))
		}
	}
	return ids
}

func (r *rig) bits(vocab int, share float64) []uint64 {
	v := make([]uint64, vocab/64) // the last ids are behind them
	for _, id := range r.some(vocab/64*64, share) {
		v[id/64] |= 1 << (id % 64)
	}
	return v
}

// anyRow draws in some way.
func (r *rig) anyRow(row int32, vocab int) kernel.Row {
	pick := func(v ...float32) float32 { return v[r.Random.IntN(len(v))] }
	k := kernel.Row{Row: row, Trigger: -1, Draw: r.Random.Uint64N(1000), Stops: []int32{int32(r.Random.IntN(vocab)), 3}}
	k.Sampling = kernel.Sampling{
		Temperature: pick(0, 0.3, 1, 1, 1.7), TopP: pick(1, 1, 0.95, 0.5, 0), MinP: pick(0, 0, 0.05, 0.5, 1),
		TopK:            []int{0, 1, 5, 20, 200, 1100, 5000, 1<<32 + 1}[r.Random.IntN(8)], // the last one's lower half is 1
		PresencePenalty: pick(0, 0, 1.5), FrequencyPenalty: pick(0, 0.3),
		RepetitionPenalty: pick(0, 1, 1.3, 0.7), Seed: r.Random.Uint64(),
	}
	if k.Hidden = r.some(vocab, float64(pick(0, 0.1))); len(k.Hidden) > 0 && k.Hidden[0] > 0 {
		k.Hidden = append([]int32{0}, k.Hidden...)
	}
	k.Unfinished = r.Random.IntN(4) == 0
	k.Prompt = r.some(vocab, 0.05)
	if !sample.Params(k.Sampling).Repeats() {
		k.Prompt = nil
	}
	for _, id := range r.some(vocab, 0.02) {
		k.Seen = append(k.Seen, kernel.Seen{ID: id, Times: 1 + r.Random.Int32N(3), Prompted: slices.Contains(k.Prompt, id)})
	}
	if p := k.Sampling; p.PresencePenalty == 0 && p.FrequencyPenalty == 0 && !sample.Params(p).Repeats() {
		k.Seen = nil
	}
	switch r.Random.IntN(4) {
	case 0:
		k.Held, k.Allowed = true, r.bits(vocab, 0.1)
		if r.Random.IntN(2) == 0 {
			k.Ending = r.bits(vocab, 0.02)
			k.Stops = r.some(vocab, 0.5)
		}
	case 1:
		k.Held, k.Allowed, k.Trigger = true, r.bits(vocab, 0.1), int32(r.Random.IntN(3))
	}
	return k
}

// checkDraws launches steps in which sequences have drafts, tokens of the step before, and rows that the host draws.
func checkDraws(r *rig) {
	const sequences = 6
	var last []int32
	for step := range 24 {
		vocab := []int{300, 77, 1500, 4500}[step%4]
		r.cuda.draws.blocks = []int{0, 1, 8}[step%3] // a block for a slice, one for all of a row, one for two
		in := &kernel.Input{}
		var tokens []int32
		for range sequences {
			n := 1 + r.Random.IntN(3)
			span := kernel.Span{Row: len(tokens), Len: n}
			first := r.Random.IntN(n)
			for i := range n {
				own := int32(r.Random.IntN(5)) // often the same, and often the trigger
				in.Tokens = append(in.Tokens, own)
				if n == 1 && last != nil && r.Random.IntN(2) == 0 {
					from := r.Random.IntN(len(last))
					own, in.Tokens[len(in.Tokens)-1] = last[from], kernel.Sampled(from)
				}
				tokens = append(tokens, own)
				if i >= first {
					in.Rows = append(in.Rows, r.anyRow(int32(span.Row+i), vocab))
					in.Rows[len(in.Rows)-1].Logits = r.Random.IntN(6) == 0
				}
			}
			in.Step.Spans = append(in.Step.Spans, span)
		}
		last = r.step(in, tokens, vocab)
	}
	r.cuda.draws.blocks = 0
	checkLikeliest(r)
}

// checkLikeliest asks for the likeliest tokens of rows, and how likely they are; then for those of a step with fewer
// rows, whose others keep what they had.
func checkLikeliest(r *rig) {
	const n, live = 8, 5
	for _, vocab := range []int{300, 77, 1500} {
		hidden, before, got := r.some(vocab, 0.1), make([]kernel.Drafted, n), make([]kernel.Drafted, n)
		rows := r.manyLogits(n, vocab)
		r.cuda.Likeliest(upload(r.cuda, slices.Concat(rows...)), vocab, hidden, before)
		for i, row := range rows {
			r.likeliest(before[i], row, hidden)
		}
		rows = r.manyLogits(n, vocab)
		step := upload(r.cuda, []float32{math.Float32frombits(live)})
		r.cuda.Queue("likeliest", Shape{X: n, Threads: 256}, r.cuda.draws.likely.at, at(upload(r.cuda, slices.Concat(rows...)), n*vocab),
			r.cuda.Hidden(hidden), at(step, 1), vocab)
		r.cuda.TakeDrafted(r.cuda.draws.likely.at, got)
		for i, row := range rows[:live] {
			r.likeliest(got[i], row, hidden)
		}
		if !slices.Equal(got[live:], before[live:]) {
			r.Errorf("rows that the step does not have: %+v, had %+v", got[live:], before[live:])
		}
	}
}

func (r *rig) manyLogits(n, vocab int) (rows [][]float32) {
	for range n {
		rows = append(rows, r.anyLogits(vocab))
	}
	return rows
}

// likeliest compares what was found in a row of logits with package sample.
func (r *rig) likeliest(got kernel.Drafted, row []float32, hidden []int32) {
	r.Helper()
	token, probability := sample.Likeliest(slices.Clone(row), hidden)
	if !(math.Abs(float64(got.Probability)-probability) <= 1e-6) || probability > 0 && got.Token != token {
		r.Errorf("in a vocabulary of %d: %+v, want %d with %g", len(row), got, token, probability)
	}
}

// step draws for a step in two parts and returns the tokens.
func (r *rig) step(in *kernel.Input, tokens []int32, vocab int) []int32 {
	r.Helper()
	n := len(in.Rows)
	table := r.Load(r.cuda, r.Source(kernel.F32, 1, 4500, 8))
	r.cuda.EmbedSampled(r.cuda.NewBuffer(8*len(in.Tokens)), table, in.Tokens)
	rows := r.manyLogits(n, vocab)
	for first := 0; first < n; first += n / 2 {
		part := min(n/2, n-first)
		r.cuda.Draw(upload(r.cuda, slices.Concat(rows[first:first+part]...)), vocab, in, first, part)
	}
	r.cuda.Submit(in)
	out := &kernel.Output{Tokens: make([]int32, n), Free: make([]int32, n)}
	for range asks(in.Rows) {
		out.Logits = append(out.Logits, make([]float32, vocab))
	}
	r.cuda.Collect(out)
	asked := 0
	for i := range in.Rows {
		if in.Rows[i].Logits {
			same(r.T, fmt.Sprintf("logits of row %d", i), out.Logits[asked], rows[i])
			asked++
			out.Tokens[i] = 1 // what the host might draw
			continue
		}
		token, free := devicetest.Drawn(in, i, tokens, slices.Clone(rows[i]))
		if out.Tokens[i] != token || out.Free[i] != free {
			r.Errorf("row %d of a vocabulary of %d, %+v: token %d, free %d, want %d and %d", i, vocab, in.Rows[i].Sampling,
				out.Tokens[i], out.Free[i], token, free)
		}
	}
	r.must(r.keepDrawn(out.Tokens))
	return out.Tokens
}

// keepDrawn gives the device the tokens of rows that the host drew.
func (r *rig) keepDrawn(tokens []int32) error {
	return r.cuda.stream.CopyIn(r.cuda.draws.drawn, slices.Clone(bytesOf(tokens)))
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// TestDrawsAreThoseOfTheSampler compares on many more rows than the test of operations does.
func TestDrawsAreThoseOfTheSampler(t *testing.T) {
	r := newRig(t, interp.Config{})
	for range 3 {
		checkDraws(r)
	}
}
