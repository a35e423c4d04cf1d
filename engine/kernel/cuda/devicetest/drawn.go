package devicetest

import (
	"math"
	"slices"

	"corenode/engine/kernel"
	"corenode/engine/sample"
)

// Drawn is what row i must give, by package sample: its token, and what it would be if nothing held it.
func Drawn(in *kernel.Input, i int, tokens []int32, logits []float32) (token, free int32) {
	row := &in.Rows[i]
	state := sample.State{Draw: row.Draw, Mask: row.Hidden, Prompt: row.Prompt}
	for _, t := range row.Seen {
		state.Seen = append(state.Seen, sample.Seen(t))
	}
	own := tokens[row.Row]
	if _, sampled := kernel.SampledRow(in.Tokens[row.Row]); sampled {
		state.Seen = append(state.Seen, sample.Seen{ID: own, Times: 1})
	}
	span := in.Step.Spans[slices.IndexFunc(in.Step.Spans, func(s kernel.Span) bool { return int(row.Row) < s.Row+s.Len })]
	first := in.Rows[slices.IndexFunc(in.Rows, func(r kernel.Row) bool { return int(r.Row) >= span.Row })].Row
	for at := first + 1; at <= row.Row; at++ {
		state.Seen = append(state.Seen, sample.Seen{ID: tokens[at], Times: 1})
	}
	s := sample.Resume(sample.Params(row.Sampling), state)
	free = -1
	if row.Held && (row.Trigger < 0 || row.Trigger == own) {
		allowed := row.Allowed
		if row.Ending != nil {
			if free = s.Preview(logits); slices.Contains(row.Stops, free) {
				allowed = row.Ending
			}
		}
		for id := range logits {
			if id/64 >= len(allowed) || allowed[id/64]>>(id%64)&1 == 0 {
				logits[id] = float32(math.Inf(-1))
			}
		}
	}
	if row.Unfinished {
		sample.Hide(logits, row.Stops)
	}
	return s.Sample(logits), free
}
