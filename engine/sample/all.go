package sample

import (
	"math"
	"slices"
)

const (
	blockTokens = 1024 // tokens per partial sum of weights
	listMax     = 512  // tokens that are gathered in the hope that no more are likely
	sampleSize  = 1024 // about how many logits stand for all when many tokens are likely
	intervalMax = 4096 // tokens among which the end of top_p is looked for one by one
	// estimatesMax is how many bars follow the masses before the sample is halved.
	estimatesMax = 6
)

// sampleAll draws without TopK, or with a large one, in a few passes over the
// vocabulary and without sorting it.
func (s *Sampler) sampleAll(logits []float32) int32 {
	most := logits[Greedy(logits)]
	if !(most > minusInf) || math.IsInf(float64(most), 1) {
		return Greedy(logits) // nothing possible, or a certain token
	}
	f := s.softmax(most)
	return s.pick(logits, f, s.least(logits, f))
}

// least is the least likely token that the filters keep.
func (s *Sampler) least(logits []float32, f softmax) candidate {
	floor := f.floor()
	last := candidate{logit: floor, id: math.MaxInt32}
	few := s.p.TopK > 0 && s.p.TopK < len(logits)
	if few {
		each := softmax{f.most, 0} // every token weighs 1
		last = likelier(last, s.nucleus(logits, each, s.sumBlocks(logits, each, each.floor()), float64(s.p.TopK)))
	}
	if s.p.TopP < 1 {
		mass := s.sumBlocks(logits, f, floor)
		kept := mass
		if few {
			kept = s.sumKept(logits, f, last)
		}
		last = likelier(last, s.nucleus(logits, f, mass, float64(float64(s.p.TopP)*kept)))
	}
	if s.p.MinP > 0 {
		last = s.raise(last, f)
	}
	return last
}

func likelier(a, b candidate) candidate {
	if b.before(a) {
		return b
	}
	return a
}

// nucleus finds the token with which the weights of the most likely ones reach want;
// mass is the weight of all of them.
func (s *Sampler) nucleus(logits []float32, f softmax, mass, want float64) candidate {
	floor := f.floor()
	if mass <= want {
		return candidate{logit: floor, id: math.MaxInt32}
	}
	over := bound{next(float32(f.most)), 0}
	for _, depth := range []float64{4, 10, 25} { // usually a few tokens have it all
		low := max(floor, float32(f.most-depth/f.scale))
		if !s.gather(logits, low, plusInf, listMax) {
			break
		}
		sum := 0.0
		for i := range s.found {
			sum += f.weight(s.found[i].logit)
		}
		if sum >= want || low == floor {
			return cut(s.found, f, 0, want)
		}
		over = bound{low, sum}
	}
	under, over := s.narrow(logits, f, bound{floor, mass}, over, want)
	s.gather(logits, under.logit, previous(over.logit), len(logits))
	if len(s.found) == 0 { // rounding: no token is between the two sums
		return candidate{logit: under.logit, id: math.MaxInt32}
	}
	return cut(s.found, f, over.mass, want)
}

// bound is a logit and the mass of the tokens with this logit or a larger one.
type bound struct {
	logit float32
	mass  float64
}

// narrow brings two bounds together whose masses are at least, and less than
// want, until few tokens are between them or all of those have one logit. Each
// step costs a pass, so a sample of the logits says where to look.
func (s *Sampler) narrow(logits []float32, f softmax, under, over bound, want float64) (bound, bound) {
	sample := s.takeSample(logits, under.logit, over.logit)
	for step := 0; next(under.logit) < over.logit && under.mass-over.mass > intervalMax*f.weight(under.logit); step++ {
		share := (want - over.mass) / (under.mass - over.mass)
		sample = between(sample, under.logit, over.logit)
		logit := estimate(sample, f, under.logit, over.logit, share, step < estimatesMax)
		if at := (bound{logit, s.sumBlocks(logits, f, logit)}); at.mass >= want {
			under = at
		} else {
			over = at
		}
	}
	return under, over
}

// takeSample returns some of the logits between two bounds, largest first.
func (s *Sampler) takeSample(logits []float32, under, over float32) []float32 {
	s.sample = s.sample[:0]
	for i, stride := 0, len(logits)/sampleSize|1; i < len(logits); i += stride {
		if x := logits[i]; x > under && x < over {
			s.sample = append(s.sample, x)
		}
	}
	slices.Sort(s.sample)
	slices.Reverse(s.sample)
	return s.sample
}

// between cuts off what is not between two bounds.
func between(sample []float32, under, over float32) []float32 {
	for len(sample) > 0 && sample[0] >= over {
		sample = sample[1:]
	}
	for len(sample) > 0 && sample[len(sample)-1] <= under {
		sample = sample[:len(sample)-1]
	}
	return sample
}

// estimate is a logit between two bounds above which about that share of the mass
// between them lies, going by a sample of what is between. It aims beyond the
// target a little, seen from the nearer bound, so that the two close in from
// both sides. It may be told to halve the sample instead; without a sample it
// halves the distance.
func estimate(sample []float32, f softmax, under, over float32, share float64, byMass bool) float32 {
	n := len(sample)
	switch {
	case n == 0:
		middle := float32(float64(under)/2 + float64(over)/2)
		return min(max(middle, next(under)), previous(over))
	case !byMass:
		return sample[n/2]
	}
	margin := 1.5 / math.Sqrt(float64(n))
	if share > 0.5 {
		share -= margin
	} else {
		share += margin
	}
	var all, sum float64
	for _, x := range sample {
		all += f.weight(x)
	}
	for _, x := range sample {
		if sum += f.weight(x); sum >= float64(share*all) {
			return x
		}
	}
	return sample[n-1]
}

// cut is the candidate with which the sum of weights, starting at sum, in order
// of likelihood, reaches want: quickselect by weight, which sorts only the end.
func cut(found []candidate, f softmax, sum, want float64) candidate {
	for i := range found {
		found[i].weight = f.weight(found[i].logit)
	}
	for len(found) > 16 {
		_, after := partition(found)
		front := 0.0
		for _, c := range found[:after] {
			front += c.weight
		}
		if sum+front >= want {
			found = found[:after]
		} else {
			found, sum = found[after:], sum+front
		}
	}
	slices.SortFunc(found, byLikelihood)
	for _, c := range found {
		if sum += c.weight; sum >= want {
			return c
		}
	}
	return found[len(found)-1] // rounding left a little of want over
}

// raise applies min_p: no token below last, nor one less likely than MinP times
// the most likely.
func (s *Sampler) raise(last candidate, f softmax) candidate {
	bar := f.reach(float64(s.p.MinP))
	if bar > last.logit {
		return candidate{logit: bar, id: math.MaxInt32} // every id with this logit
	}
	return last
}

// pick draws among the tokens down to last: from a list if they are few, else
// by partial sums per block of tokens, which spare a second look at most of them.
func (s *Sampler) pick(logits []float32, f softmax, last candidate) int32 {
	if s.gather(logits, last.logit, plusInf, listMax) {
		return s.pickFew(f, last)
	}
	mass := s.sumKept(logits, f, last)
	target := float64(s.draw() * mass)
	for i, sum := range s.blocks {
		if target < sum {
			if id := walk(logits, i*blockTokens, f, last, target); id >= 0 {
				return id
			}
		}
		target -= sum
	}
	return Greedy(logits) // rounding left a little of the target over
}

// pickFew draws among the gathered tokens down to last, in order of ids.
func (s *Sampler) pickFew(f softmax, last candidate) int32 {
	var mass float64
	for i := range s.found {
		c := &s.found[i]
		c.weight = 0
		if !last.before(*c) {
			c.weight = f.weight(c.logit)
		}
		mass += c.weight
	}
	target, best := float64(s.draw()*mass), s.found[0]
	for _, c := range s.found {
		if target -= c.weight; target < 0 {
			return c.id
		}
		if c.before(best) {
			best = c
		}
	}
	return best.id // rounding left a little of the target over
}

// walk returns the token of one block at which the sum of the weights of kept
// tokens goes above target, or -1.
func walk(logits []float32, at int, f softmax, last candidate, target float64) (id int32) {
	sum := 0.0
	for i, x := range logits[at:min(at+blockTokens, len(logits))] {
		if x > last.logit || x == last.logit && int32(at+i) <= last.id {
			if sum += f.weight(x); sum > target {
				return int32(at + i)
			}
		}
	}
	return -1
}

// sumKept is sumBlocks for the tokens down to last.
func (s *Sampler) sumKept(logits []float32, f softmax, last candidate) (mass float64) {
	if last.id == math.MaxInt32 {
		return s.sumBlocks(logits, f, last.logit)
	}
	mass = s.sumBlocks(logits, f, next(last.logit))
	kept := logits[:last.id+1]
	for at := 0; ; at++ { // the tokens that are as likely as the last
		i := scan.firstIn(kept[at:], last.logit, last.logit)
		if i < 0 {
			return mass
		}
		at += i
		w := f.weight(last.logit)
		s.blocks[at/blockTokens] += w
		mass += w
	}
}

// sumBlocks sets s.blocks to the masses of the tokens from bar up in each block
// and returns their sum.
func (s *Sampler) sumBlocks(logits []float32, f softmax, bar float32) (mass float64) {
	s.blocks = s.blocks[:0]
	for at := 0; at < len(logits); at += blockTokens {
		sum := scan.weightSum(logits[at:min(at+blockTokens, len(logits))], f, bar)
		s.blocks = append(s.blocks, sum)
		mass += sum
	}
	return mass
}

// gather sets s.found to the tokens with a logit from low to high, by id. It
// reports false and stops when there are more than limit.
func (s *Sampler) gather(logits []float32, low, high float32, limit int) bool {
	s.found = s.found[:0]
	for at := 0; ; at++ {
		i := scan.firstIn(logits[at:], low, high)
		if i < 0 {
			return true
		}
		if len(s.found) == limit {
			return false
		}
		at += i
		s.found = append(s.found, candidate{logit: logits[at], id: int32(at)})
	}
}
