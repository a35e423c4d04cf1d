package sample

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// BenchmarkSample draws from the vocabularies of two families of models: peaked
// logits are those of a model that knows what comes next, flat ones of a model
// with random weights. The history is of 8,000 tokens.
func BenchmarkSample(b *testing.B) {
	for _, n := range []int{151936, 248320} {
		flat := noise(n, 3, 1)
		peaked := slices.Clone(flat)
		for i := range 60 {
			peaked[i*2003] = 24 - 0.3*float32(i)
		}
		for name, logits := range map[string][]float32{"peaked": peaked, "flat": flat} {
			for _, p := range benchParams {
				b.Run(fmt.Sprintf("%d/%s/%s", n, name, p.name), func(b *testing.B) { benchmarkSample(b, p.Params, logits) })
			}
		}
	}
}

// BenchmarkWeights is one pass over a vocabulary, per scanner: nearly all of the
// time of a draw without top_k.
func BenchmarkWeights(b *testing.B) {
	logits := noise(151936, 3, 1)
	f := softmax{13, 1}
	for _, s := range scanners {
		b.Run(s.name, func(b *testing.B) {
			b.SetBytes(int64(4 * len(logits)))
			for b.Loop() {
				s.weightSum(logits, f, f.floor())
			}
		})
	}
}

func benchmarkSample(b *testing.B, p Params, logits []float32) {
	s, work, g := New(p, nil, nil), slices.Clone(logits), rand.New(rand.NewPCG(1, 1))
	for range 8000 {
		s.Accept(int32(g.ExpFloat64()*2000) % int32(len(logits)))
	}
	for b.Loop() {
		s.accepted++
		s.Sample(work)
		for _, t := range s.seen { // undo the penalties
			work[t.ID] = logits[t.ID]
		}
	}
}
