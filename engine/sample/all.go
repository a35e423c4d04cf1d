package sample

import (
	"math"
	"slices"
)

const (
	blockTokens = 1024 // tokens per partial sum of weights
	binCount    = 2048
	// binSpan is how far below the largest logit, in units of the temperature,
	// the bins reach; everything lower falls into the last one. Less than
	// e^-60 of the weight is there.
	binSpan = 60
	// sampleStride is prime, so that no pattern in the vocabulary lines up with it.
	sampleStride = 61
)

// bin is a range of logits: how many tokens fall into it and their weight.
type bin struct {
	count  int
	weight float64
}

// sampleAll draws without TopK, in a few passes over the vocabulary and without
// sorting it. It returns -1 when no token is possible.
func (s *Sampler) sampleAll(logits []float32) int32 {
	most := logits[Greedy(logits)]
	if !(most > minusInf) || math.IsInf(float64(most), 1) {
		return Greedy(logits) // nothing possible, or a certain token
	}
	f := s.softmax(most)
	last := candidate{logit: minusInf} // the least likely token that is kept
	if s.p.TopP < 1 {
		last = s.nucleus(logits, f)
	}
	if s.p.MinP > 0 {
		last = s.raise(last, f)
	}
	return s.pick(logits, f, last)
}

// nucleus finds the least likely token that top_p keeps. Weights are summed into
// bins from the largest logit down; only the bin in which the sum reaches top_p
// is sorted, so bins need to be many where the tokens are, but need no exact bounds.
func (s *Sampler) nucleus(logits []float32, f softmax) candidate {
	span := min(f.most-lowish(logits, f.most), binSpan/f.scale)
	if span == 0 {
		span = 1
	}
	perBin := (binCount - 1) / span
	mass := s.fillBins(logits, f, perBin)
	want, sum, at := float64(s.p.TopP)*mass, 0.0, 0
	for at < binCount-1 && sum+s.bins[at].weight < want {
		sum += s.bins[at].weight
		at++
	}
	found := s.inBin(logits, f.most, perBin, at)
	slices.SortFunc(found, byLikelihood)
	for _, c := range found {
		if sum += f.weight(c.logit); sum >= want {
			return c
		}
	}
	if len(found) == 0 { // rounding: all the weight was before an empty bin
		return candidate{logit: minusInf}
	}
	return found[len(found)-1]
}

// lowish is about the smallest possible logit: the smallest of a sample.
func lowish(logits []float32, most float64) float64 {
	least := float32(most)
	for i := 0; i < len(logits); i += sampleStride {
		if x := logits[i]; x < least && x > minusInf {
			least = x
		}
	}
	return float64(least)
}

// binOf is the bin of a possible token.
func binOf(x float32, most, perBin float64) int {
	return int(min((most-float64(x))*perBin, binCount-1))
}

func (s *Sampler) fillBins(logits []float32, f softmax, perBin float64) (mass float64) {
	if s.bins == nil {
		s.bins = make([]bin, binCount)
	}
	clear(s.bins)
	for _, x := range logits {
		if x > minusInf {
			b, w := &s.bins[binOf(x, f.most, perBin)], f.weight(x)
			b.count++
			b.weight += w
		}
	}
	for _, b := range s.bins {
		mass += b.weight
	}
	return mass
}

// inBin gathers the tokens of one bin, by id.
func (s *Sampler) inBin(logits []float32, most, perBin float64, at int) []candidate {
	s.found = slices.Grow(s.found[:0], s.bins[at].count)
	for i, x := range logits {
		if x > minusInf && binOf(x, most, perBin) == at {
			s.found = append(s.found, candidate{logit: x, id: int32(i)})
		}
	}
	return s.found
}

// raise applies min_p: no token below last, nor one less likely than MinP times
// the most likely.
func (s *Sampler) raise(last candidate, f softmax) candidate {
	bar := float32(f.most + math.Log(float64(s.p.MinP))/f.scale)
	for f.weight(bar) < float64(s.p.MinP) { // rounded down: take the next larger value
		bar = math.Nextafter32(bar, float32(f.most))
	}
	if bar > last.logit {
		return candidate{logit: bar, id: math.MaxInt32} // every id with this logit
	}
	return last
}

// pick draws among the tokens down to last. Partial sums per block of tokens
// spare a second look at most of them.
func (s *Sampler) pick(logits []float32, f softmax, last candidate) int32 {
	var mass float64
	s.blocks = s.blocks[:0]
	for at := 0; at < len(logits); at += blockTokens {
		sum, _ := walk(logits, at, f, last, math.Inf(1))
		s.blocks = append(s.blocks, sum)
		mass += sum
	}
	target := s.draw() * mass
	for i, sum := range s.blocks {
		if target < sum {
			if _, id := walk(logits, i*blockTokens, f, last, target); id >= 0 {
				return id
			}
		}
		target -= sum
	}
	return Greedy(logits) // rounding left a little of the target over
}

// walk sums the weights of one block's kept tokens; it stops at the token that takes
// the sum above target and returns it, else -1.
func walk(logits []float32, at int, f softmax, last candidate, target float64) (sum float64, id int32) {
	for i, x := range logits[at:min(at+blockTokens, len(logits))] {
		if x > last.logit || x == last.logit && int32(at+i) <= last.id && x > minusInf {
			if sum += f.weight(x); sum > target {
				return sum, int32(at + i)
			}
		}
	}
	return sum, -1
}
