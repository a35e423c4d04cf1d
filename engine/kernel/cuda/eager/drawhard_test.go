package eager

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/interp"
)

// drawTogether draws for rows that are sequences of one token each, with so many blocks in a launch, and returns the tokens, those that
// nothing held, and what the kernel knew of each row in the end.
func (r *rig) drawTogether(rows []kernel.Row, logits [][]float32, blocks int) (out *kernel.Output, states [][]byte) {
	r.Helper()
	in, n, vocab := r.sequences(rows), len(rows), len(logits[0])
	table := r.Load(r.cuda, kernel.Source{Name: "table", Type: kernel.F32, Experts: 1, Rows: 8, Cols: 8, Data: make([]byte, 4*8*8)})
	r.cuda.EmbedSampled(r.cuda.NewBuffer(8*n), table, in.Tokens)
	r.cuda.draws.blocks = blocks
	defer func() { r.cuda.draws.blocks = 0 }()
	r.cuda.Draw(upload(r.cuda, slices.Concat(logits...)), vocab, in, 0, n)
	r.cuda.Submit(in)
	out = &kernel.Output{Tokens: make([]int32, n), Free: make([]int32, n)}
	r.cuda.Collect(out)
	for i := range rows {
		state := r.cuda.room(drawState)
		r.must(r.cuda.stream.CopyOut(state, r.cuda.draws.work.at+cuda.Pointer(int64(i)*DrawBytes(vocab))))
		r.cuda.Wait()
		states = append(states, slices.Clone(state))
	}
	return out, states
}

// sequences is a step of rows with a sequence each, whose own tokens are 1.
func (r *rig) sequences(rows []kernel.Row) *kernel.Input {
	in := &kernel.Input{Rows: rows}
	for i := range rows {
		rows[i].Row = int32(i)
		in.Tokens = append(in.Tokens, 1)
		in.Step.Spans = append(in.Step.Spans, kernel.Span{Row: i, Len: 1})
	}
	return in
}

// wantDraws compares rows of one vocabulary with package sample.
func (r *rig) wantDraws(what string, rows []kernel.Row, logits [][]float32, blocks int) {
	r.Helper()
	out, _ := r.drawTogether(rows, logits, blocks)
	in := r.sequences(rows)
	for i := range rows {
		token, free := devicetest.Drawn(in, i, in.Tokens, slices.Clone(logits[i]))
		if out.Tokens[i] != token || out.Free[i] != free {
			r.Errorf("%s, %d blocks, %+v: token %d, free %d, want %d and %d", what, blocks, rows[i].Sampling,
				out.Tokens[i], out.Free[i], token, free)
		}
	}
}

// sampled is a row that draws with some parameters.
func sampled(draw uint64, temperature, topP, minP float32, topK int) kernel.Row {
	return kernel.Row{Trigger: -1, Draw: draw, Sampling: kernel.Sampling{Temperature: temperature, TopP: topP, MinP: minP, TopK: topK,
		RepetitionPenalty: 1, Seed: 7}}
}

// hardVocab is three slices, of which the last is not whole.
const hardVocab = 2*drawSlice + 905

// hardLogits are hard for a draw whose sums are of slices.
func hardLogits(r *rig) map[string][]float32 {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	shaped := func(value func(i int) float32) []float32 {
		v := make([]float32, hardVocab)
		for i := range v {
			v[i] = value(i)
		}
		return v
	}
	normal, tiny := r.Normals(hardVocab, 1), r.Normals(hardVocab, 1e-4)
	return map[string][]float32{
		"random":             normal,
		"nearly flat":        tiny,
		"flat":               shaped(func(int) float32 { return -2.5 }),
		"flat but for some":  shaped(func(i int) float32 { return []float32{1, 3}[min(1, i%500/499)] }),
		"in the last slice":  shaped(func(i int) float32 { return normal[i] + 50*float32(i/(2*drawSlice)) }),
		"in the first slice": shaped(func(i int) float32 { return normal[i] - 50*float32(min(1, i/drawSlice)) }),
		"equal at the ends of slices": shaped(func(i int) float32 {
			if i%drawSlice < 3 || i%drawSlice > drawSlice-3 || i == hardVocab-1 {
				return 4
			}
			return normal[i]
		}),
		"zeros of both signs": shaped(func(i int) float32 { return []float32{0, float32(math.Copysign(0, -1)), -1}[i%3] }),
		"one is possible":     shaped(func(i int) float32 { return []float32{nan, -inf}[i%2] }),
		"none is possible":    shaped(func(i int) float32 { return []float32{nan, -inf}[i%2] }),
		"some are certain": shaped(func(i int) float32 {
			if i > drawSlice && i%700 == 0 {
				return inf
			}
			return normal[i]
		}),
		"extremes": shaped(func(i int) float32 { return normal[i] * []float32{1, 1e30, 1e-40, -1e35}[i%4] }),
		"mostly impossible": shaped(func(i int) float32 {
			if i%300 != 0 {
				return []float32{nan, -inf}[i%2]
			}
			return normal[i]
		}),
	}
}

// hardRows are of all ways to draw: each filter alone, and several with each other.
func hardRows() []kernel.Row {
	return []kernel.Row{
		sampled(0, 0, 1, 0, 0), sampled(1, 1, 1, 0, 0), sampled(2, 1, 0.95, 0, 0), sampled(3, 0.6, 0.95, 0, 20),
		sampled(4, 1, 0.999999, 0, 0), sampled(5, 1, 1, 0.3, 0), sampled(6, 1, 1, 0, 1024), sampled(7, 1, 1, 0, 1025),
		sampled(8, 1.7, 0.9, 0.05, 3000), sampled(9, 1, 0.01, 0, 3), sampled(10, 1e30, 0.999, 0, hardVocab-1),
		sampled(11, math.SmallestNonzeroFloat32, 0.9, 0, 2000),
	}
}

// TestHardDrawsAreThoseOfTheSampler: what is likely lies in one slice, or is equally likely in all, top_k keeps more than a list
// holds, or top_p nearly all.
func TestHardDrawsAreThoseOfTheSampler(t *testing.T) {
	r := newRig(t, interp.Config{})
	for what, logits := range hardLogits(r) {
		if what == "one is possible" {
			logits[hardVocab-2] = -3
		}
		rows := hardRows()
		r.wantDraws(what, rows, slices.Repeat([][]float32{logits}, len(rows)), 0)
	}
}

// TestHeldDrawsAreThoseOfTheSampler: a mask leaves one token, which is unlikely, or what would be drawn without it ends it, with so
// many phases that the last launch has to end some rows.
func TestHeldDrawsAreThoseOfTheSampler(t *testing.T) {
	r := newRig(t, interp.Config{})
	logits := r.Normals(hardVocab, 1)
	only := make([]uint64, hardVocab/64+1)
	only[hardVocab/64] |= 1 << (hardVocab % 64 / 2)
	for _, stops := range [][]int32{{5}, r.some(hardVocab, 0.5)} {
		rows := hardRows()
		for i := range rows {
			rows[i].Held, rows[i].Allowed, rows[i].Stops = true, only, stops
			rows[i].Unfinished = i%3 == 0
			if i%2 == 0 {
				rows[i].Allowed, rows[i].Ending = r.bits(hardVocab, 0.3), r.bits(hardVocab, 0.6)
			}
		}
		r.wantDraws("held", rows, slices.Repeat([][]float32{logits}, len(rows)), 0)
	}
}

// TestDrawsDoNotDependOnBlocks compares sums and cuts, too: alone and beside other rows, in launches of many blocks or few.
func TestDrawsDoNotDependOnBlocks(t *testing.T) {
	r := newRig(t, interp.Config{})
	logits, rows := r.Normals(hardVocab, 2), hardRows()
	want, states := r.drawTogether(rows, slices.Repeat([][]float32{logits}, len(rows)), 0)
	same := func(how string, i int, token int32, state []byte) {
		if token != want.Tokens[i] || !slices.Equal(state, states[i]) {
			t.Errorf("%s, %+v: token %d, %x, otherwise %d, %x", how, rows[i].Sampling, token, state, want.Tokens[i], states[i])
		}
	}
	for _, blocks := range []int{1, len(rows) * 3 / 2} { // each row in one, and in two of two slices and one
		got, other := r.drawTogether(rows, slices.Repeat([][]float32{logits}, len(rows)), blocks)
		for i := range rows {
			same(fmt.Sprintf("%d blocks", blocks), i, got.Tokens[i], other[i])
		}
	}
	for i := range rows {
		got, other := r.drawTogether(rows[i:i+1:i+1], [][]float32{logits}, 0)
		same("alone", i, got.Tokens[0], other[0])
	}
}

// checkManyTokens draws in all ways from several slices, and from a vocabulary in which a thread looks after more than one.
func checkManyTokens(r *rig) {
	for _, what := range []string{"random", "in the last slice", "equal at the ends of slices"} {
		rows := hardRows()
		r.wantDraws(what, rows, slices.Repeat([][]float32{hardLogits(r)[what]}, len(rows)), 0)
	}
	logits := make([]float32, 257*drawSlice+1)
	for i := range logits {
		logits[i] = float32(i % 7)
	}
	rows := []kernel.Row{sampled(1, 1, 1, 0, 0), sampled(2, 1, 1, 0.9, 0), sampled(3, 1, 1, 0.9, 0)}
	r.wantDraws("many tokens", rows, slices.Repeat([][]float32{logits}, len(rows)), 1)
}
