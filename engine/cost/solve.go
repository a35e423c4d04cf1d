package cost

import "math"

// solve finds the terms that fit best, none below zero, by active sets (Lawson and Hanson,
// Solving Least Squares Problems, chapter 23). It begins with the set of the last solution,
// because one step changes little.
func (f *fit) solve() {
	a := f.products
	for j := logits; j < ramps; j++ {
		a[j][j] *= 1 + damping
	}
	f.smooth(&a)
	for range rounds {
		target, ok := solveFree(&a, &f.sums, &f.free)
		if !ok {
			return // nothing is known of some term yet
		}
		if stopped := f.moveTo(&target); stopped {
			continue
		}
		best, most := -1, rising
		for j, free := range f.free {
			if gain := (f.sums[j] - dot(a[j][:], &f.terms)) / math.Sqrt(a[j][j]); !free && gain > most {
				best, most = j, gain
			}
		}
		if best < 0 {
			return
		}
		f.free[best] = true
	}
}

// moveTo moves the free terms towards their target until the first of them reaches zero. That
// one stays there and is no longer free.
func (f *fit) moveTo(target *vector) (stopped bool) {
	share, first := 1.0, -1
	for j, free := range f.free {
		if free && target[j] < 0 {
			if s := f.terms[j] / (f.terms[j] - target[j]); s < share {
				share, first = s, j
			}
		}
	}
	for j, free := range f.free {
		if free {
			f.terms[j] = max(0, f.terms[j]+share*(target[j]-f.terms[j]))
		}
	}
	if first >= 0 {
		f.terms[first], f.free[first] = 0, false
	}
	return first >= 0
}

// solveFree solves a*x = b for the free terms of x, with the others zero, by a Cholesky
// factorization. It returns false where a is not positive definite.
func solveFree(a *[features]vector, b *vector, free *[features]bool) (x vector, ok bool) {
	var l [features]vector // rows of the factor, by the order of the free terms
	var at [features]int   // their places
	n := 0
	for j, is := range free {
		if !is {
			continue
		}
		at[n] = j
		for k := range n + 1 {
			sum := a[j][at[k]]
			for i, v := range l[n][:k] {
				sum -= v * l[k][i]
			}
			if k < n {
				l[n][k] = sum / l[k][k]
			} else if sum > 1e-12*a[j][j] {
				l[n][n] = math.Sqrt(sum)
			} else {
				return x, false
			}
		}
		n++
	}
	var y vector
	for j := range n {
		y[j] = (b[at[j]] - dot(l[j][:j], &y)) / l[j][j]
	}
	for j := n - 1; j >= 0; j-- {
		sum := y[j]
		for k := j + 1; k < n; k++ {
			sum -= l[k][j] * x[at[k]]
		}
		x[at[j]] = sum / l[j][j]
	}
	return x, true
}

// smooth adds the assumption that a row costs the same on both sides of a knot. A violation
// counts by the narrower side, or by all rows where the stratum above is unknown, relative to
// the time of a step there.
func (f *fit) smooth(a *[features]vector) {
	took := f.terms[0] + f.terms[logits] + f.terms[context] + f.terms[pairs]
	for k := 1; k < len(knots); k++ {
		below, all := float64(knots[k]-knots[k-1]), float64(knots[k])
		took += f.terms[ramps+k-1] * below
		width := below
		if k+1 < len(knots) {
			width = min(width, float64(knots[k+1]-knots[k]))
		}
		w := (smoothing*width*width + straight*(1-f.strata[k].weight)*all*all) / max(took*took, 1e-18)
		i, j := ramps+k-1, ramps+k
		a[i][i] += w
		a[j][j] += w
		a[i][j] -= w
		a[j][i] -= w
	}
}
