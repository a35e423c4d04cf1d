package sample

import (
	"math"
	"slices"
)

// candidate is a token that may be drawn.
type candidate struct {
	logit  float32
	id     int32
	weight float64
}

// before is the order of likelihood: larger logit, then lower id.
func (c candidate) before(d candidate) bool {
	return c.logit > d.logit || c.logit == d.logit && c.id < d.id
}

func byLikelihood(a, b candidate) int {
	switch {
	case a.before(b):
		return -1
	case b.before(a):
		return 1
	}
	return 0
}

// fewMax is up to how many candidates are sorted. A vocabulary takes longer to
// sort than to draw from.
const fewMax = 1024

// sampleFew draws with a TopK of at most fewMax: the k best are found in one pass, all else works on
// them. It returns -1 when no token is possible.
func (s *Sampler) sampleFew(logits []float32, k int) int32 {
	best := s.topK(logits, k)
	if len(best) == 0 {
		return -1
	}
	slices.SortFunc(best, byLikelihood)
	if math.IsInf(float64(best[0].logit), 1) {
		return best[0].id
	}
	f := s.softmax(best[0].logit)
	var mass float64
	for i := range best {
		best[i].weight = f.weight(best[i].logit)
		mass += best[i].weight
	}
	best, mass = s.cutFew(best, mass)
	target := float64(s.draw() * mass)
	for _, c := range best {
		if target -= c.weight; target < 0 {
			return c.id
		}
	}
	return best[0].id // rounding left a little of the target over
}

// cutFew applies top_p and min_p to candidates in order of likelihood.
func (s *Sampler) cutFew(best []candidate, mass float64) ([]candidate, float64) {
	want, kept, n := float64(s.p.TopP)*mass, 0.0, 0
	for n < len(best) && (n == 0 || best[n].weight >= float64(s.p.MinP)) && (kept < want || s.p.TopP == 1) {
		kept += best[n].weight
		n++
	}
	return best[:n], kept
}

// topK returns the k most likely tokens in no order, fewer if fewer are
// possible. Candidates gather in a buffer of twice the size; when it is full,
// its worse half goes, and only better tokens than the k-th enter from then on.
// A later token with an equal logit has a higher id, so "better" is "larger".
func (s *Sampler) topK(logits []float32, k int) []candidate {
	room := 2*k + 64
	if cap(s.found) < room {
		s.found = make([]candidate, 0, room)
	}
	found, bar := s.found[:0], minusInf
	for at := 0; bar < plusInf; at++ {
		i := scan.firstIn(logits[at:], next(bar), plusInf)
		if i < 0 {
			break
		}
		at += i
		found = append(found, candidate{logit: logits[at], id: int32(at)})
		if len(found) == room {
			selectBest(found, k)
			found = found[:k]
			bar = worst(found)
		}
	}
	if len(found) > k {
		selectBest(found, k)
		found = found[:k]
	}
	return found
}

// worst is the smallest logit.
func worst(found []candidate) float32 {
	w := found[0].logit
	for _, c := range found {
		w = min(w, c.logit)
	}
	return w
}

// selectBest moves the k most likely of c, which are some and not all, to the front: quickselect
// around a pivot from the middle of three, linear on average.
func selectBest(c []candidate, k int) {
	for {
		front, after := partition(c)
		switch { // what is between the two parts is in place
		case k < front:
			c = c[:front]
		case k > after:
			c, k = c[after:], k-after
		default:
			return
		}
	}
}

// partition puts the front of c before a pivot from the middle of three, and
// what is after it behind: no candidate of c[:front] comes after one of
// c[front:], nor one of c[after:] before one of c[:after]. Of two or more
// candidates neither c[:after] nor c[after:] is all.
func partition(c []candidate) (front, after int) {
	pivot := middle(c[0], c[len(c)/2], c[len(c)-1])
	i, j := 0, len(c)-1
	for i <= j {
		for c[i].before(pivot) {
			i++
		}
		for pivot.before(c[j]) {
			j--
		}
		if i <= j {
			c[i], c[j] = c[j], c[i]
			i, j = i+1, j-1
		}
	}
	return j + 1, i
}

func middle(a, b, c candidate) candidate {
	if b.before(a) {
		a, b = b, a
	}
	if c.before(b) {
		b = c
		if b.before(a) {
			b = a
		}
	}
	return b
}
