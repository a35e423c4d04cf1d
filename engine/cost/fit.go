package cost

import (
	"math"
	"slices"
)

const (
	// memory is how many steps of one size the mean of that size remembers.
	memory = 32
	// staleSteps is the number of steps over which a size fades once both smaller and larger
	// sizes ran. A size that was slow once is avoided for it. Its neighbors then predict it
	// again, and so it is tried again.
	staleSteps = 2048
	// gatherEvery is after how many steps the strata get new weights.
	gatherEvery = 128
	// Each of the first solveSteps steps is followed by a solution. After that every
	// solveEvery-th is, and each step that was predicted worse than by the factor expected.
	solveSteps, solveEvery, expected = 256, 4, 1.1
	// rounds bounds one solution. Each round tries one set of terms that are not zero; the next
	// solution goes on from the last set.
	rounds = 8
	// rising is how much better predictions must become, relatively, for a term to leave zero.
	rising = 1e-3
	// These weigh assumptions against the measured steps, for what the steps do not tell.
	// smoothing: a row costs the same on both sides of a knot. straight: the same with more
	// weight where no step begins a stratum, which makes a line between known sizes. damping:
	// logits, context and pairs cost nothing. So the time of steps of one sequence is the price
	// of a step, which more sequences share. If that is wrong, the first step with more
	// sequences corrects it.
	smoothing, straight, damping = 1e-2, 1, 2e-2
)

// fit holds the terms of the model and the steps that they are fitted to.
type fit struct {
	terms  vector         // seconds for one of each feature
	free   [features]bool // those that are not held at zero
	strata [len(knots)]stratum
	// The normal equations: the strata's sums by their weights.
	products [features]vector
	sums     vector
	steps    int // learned from
}

// stratum is what was learned from steps of one range of rows. Each range fades by its own
// steps only: hours of decoding do not make it forget the cost of a prefill.
type stratum struct {
	products [features]vector // fading mean of x*x' / t^2
	sums     vector           // fading mean of x / t
	steps    int
	skipped  int     // in a row, as disturbed
	last     int     // the number of the latest step of it
	weight   float64 // in the normal equations
}

// stratumOf is the last knot that is at most rows.
func stratumOf(rows int) int {
	at, found := slices.BinarySearch(knots[:], rows)
	if found {
		return at
	}
	return at - 1
}

// begin starts from the first step: every row costs the same.
func (f *fit) begin(secondsPerRow float64) {
	f.terms[0] = secondsPerRow
	for i := range f.free {
		f.free[i] = true
	}
	for i := ramps; i < features; i++ {
		f.terms[i] = secondsPerRow
	}
}

// learn takes a step of stratum i with the features x. It took t seconds, which is off times
// the prediction.
func (f *fit) learn(i int, x *vector, t, off float64) {
	s := &f.strata[i]
	f.steps++
	f.count(i, -1)
	s.add(x[:seen(i)], t)
	s.last, s.weight = f.steps, 1
	f.count(i, 1)
	if f.steps%gatherEvery == 0 {
		f.gather()
	}
	if f.steps < solveSteps || f.steps%solveEvery == 0 || off > expected || off < 1/expected {
		f.solve()
	}
}

// seen is how many of the features, from the first on, can be other than zero in stratum i.
func seen(i int) int { return ramps + i + 1 }

// count adds stratum i to the normal equations, or takes it out of them.
func (f *fit) count(i int, sign float64) {
	s, n := &f.strata[i], seen(i)
	weight := sign * s.weight
	for j := range n {
		f.sums[j] += weight * s.sums[j]
		for k := range n {
			f.products[j][k] += weight * s.products[j][k]
		}
	}
}

// gather makes the normal equations anew. Rounding errors vanish, and old strata get the weight
// that they have now.
func (f *fit) gather() {
	f.products, f.sums = [features]vector{}, vector{}
	for i := range f.strata {
		s := &f.strata[i]
		if s.steps == 0 {
			continue
		}
		s.weight = math.Exp(-float64(max(0, f.around(i)-s.last)) / staleSteps)
		f.count(i, 1)
	}
}

// around is the number of the latest step by which both a smaller and a larger stratum than i
// had run; 0 if one of them never did.
func (f *fit) around(i int) int {
	below, above := 0, 0
	for j := range f.strata {
		if last := f.strata[j].last; j < i {
			below = max(below, last)
		} else if j > i {
			above = max(above, last)
		}
	}
	return min(below, above)
}

// between says whether both smaller and larger steps than those of stratum i are known.
func (f *fit) between(i int) bool { return f.around(i) > 0 }

// add takes a step.
func (s *stratum) add(x []float64, t float64) {
	s.steps++
	share := 1 / float64(min(s.steps, memory))
	for i := range x {
		row := s.products[i][:len(x)]
		for j := range row {
			row[j] += share * (x[i]*x[j]/(t*t) - row[j])
		}
		s.sums[i] += share * (x[i]/t - s.sums[i])
	}
}
