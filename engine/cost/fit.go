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
	// learnShare is the most that learning takes of the time that steps are predicted to take.
	// Its work is counted in multiplications of multiplySeconds each, and those of the pace are
	// paceWork. What steps leave over is kept up to reserveSeconds, which is also what a new
	// model may take at once. In debt only the pace is learned.
	learnShare, multiplySeconds, paceWork, reserveSeconds = 0.01, 1e-9, 200, 1e-4
)

// fit holds the terms of the model and the steps that they are fitted to.
type fit struct {
	terms   vector         // seconds for one of each feature
	free    [features]bool // those that are not held at zero
	bounded vector         // terms to predict by: see bound
	strata  [len(knots)]stratum
	// The normal equations: the strata's sums by their weights.
	products [features]vector // the lower triangle
	sums     vector
	top      int     // the highest stratum that has steps
	steps    int     // learned from
	due      bool    // a solution is
	reserve  float64 // seconds that learning may still take, below zero a debt
}

// stratum is what was learned from steps of one range of rows. Each range fades by its own
// steps only: hours of decoding do not make it forget the cost of a prefill.
type stratum struct {
	products [features]vector // fading mean of x*x' / t^2, the lower triangle
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
	f.terms[0], f.reserve = secondsPerRow, reserveSeconds
	for i := range f.free {
		f.free[i] = true
	}
	for i := ramps; i < features; i++ {
		f.terms[i] = secondsPerRow
	}
	f.bounded = f.terms
}

// earn takes a step that is predicted to take so many seconds and says whether the fit may
// learn from it. Earlier steps have paid for that. If it paid itself, long steps would teach more
// often than short ones.
func (f *fit) earn(seconds float64) (may bool) {
	may = f.reserve >= 0
	f.reserve = min(reserveSeconds, f.reserve+learnShare*seconds)
	f.spend(paceWork)
	return may
}

// spend takes the time of so many multiplications from the reserve.
func (f *fit) spend(multiplications int) { f.reserve -= multiplySeconds * float64(multiplications) }

// learn takes a step of stratum i with the features x. It took t seconds, which is off times
// the prediction.
func (f *fit) learn(i int, x *vector, t, off float64) {
	f.steps++
	f.add(i, x, t)
	if f.steps%gatherEvery == 0 {
		f.gather()
	}
	f.due = f.due || f.steps < solveSteps || f.steps%solveEvery == 0 || off > expected || off < 1/expected
	if f.due && f.reserve >= 0 {
		f.due = false
		f.solve()
		f.bound()
	}
}

// bound makes the terms to predict by. The rows between two knots could have a step of their own.
// So with those below they are believed to take at most disturbed times as long as there. Else a
// largest size that ran only while the machine was disturbed could be believed so dear that it never
// runs again, and nothing would correct it: no larger size makes it stale. Of the terms of steps
// below aloneRows only the sum is known, so such a step counts as one of aloneRows.
func (f *fit) bound() {
	f.bounded = f.terms
	var took [len(knots)]float64 // by a step of so many rows
	sum := f.terms[0] + f.terms[logits]
	for k, low := range knots {
		took[k] = sum
		width := low // above the last knot
		if k+1 < len(knots) {
			width = knots[k+1] - low
		}
		row := &f.bounded[ramps+k]
		if low >= aloneRows {
			apart, _ := slices.BinarySearch(knots[:], max(width, aloneRows))
			*row = min(*row, disturbed*took[apart]/float64(width))
		}
		sum += *row * float64(width)
	}
	f.spend(8 * len(knots))
}

// seen is how many of the features, from the first on, can be other than zero in stratum i.
func seen(i int) int { return ramps + i + 1 }

// add takes a step into stratum i, and what that changes into the normal equations.
func (f *fit) add(i int, x *vector, t float64) {
	s, n := &f.strata[i], seen(i)
	f.top = max(f.top, i)
	s.steps++
	share, was := 1/float64(min(s.steps, memory)), s.weight
	s.last, s.weight = f.steps, 1
	for j := range n {
		own, all := s.products[j][:j+1], f.products[j][:j+1]
		scaled := x[j] / (t * t)
		for k, v := range x[:j+1] {
			next := own[k] + share*(scaled*v-own[k])
			all[k] += next - was*own[k]
			own[k] = next
		}
		next := s.sums[j] + share*(x[j]/t-s.sums[j])
		f.sums[j] += next - was*s.sums[j]
		s.sums[j] = next
	}
	f.spend(n * n)
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
		n := seen(i)
		for j := range n {
			f.sums[j] += s.weight * s.sums[j]
			for k, v := range s.products[j][:j+1] {
				f.products[j][k] += s.weight * v
			}
		}
		f.spend(n * n)
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
