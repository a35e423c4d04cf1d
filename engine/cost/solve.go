package cost

import "math"

// solve finds the terms that fit best, none below zero, by active sets (Lawson and Hanson,
// Solving Least Squares Problems, chapter 23). It begins with the set of the last solution,
// because one step changes little. The rows above the largest step cost what its last ones do.
func (f *fit) solve() {
	n := seen(f.top)
	a := f.products
	for j := logits; j < ramps; j++ {
		a[j][j] *= 1 + damping
	}
	f.smooth(&a)
	for range rounds {
		target, frees, ok := solveFree(&a, &f.sums, f.free[:n])
		f.spend(n*n + frees*frees*(frees+9)/6)
		if !ok {
			break // nothing is known of some term yet
		}
		if stopped := f.moveTo(&target); stopped {
			continue
		}
		best, most := -1, rising
		for j, free := range f.free[:n] {
			if !free {
				if gain := (f.sums[j] - times(a[:n], j, &f.terms)) / math.Sqrt(a[j][j]); gain > most {
					best, most = j, gain
				}
			}
		}
		if best < 0 {
			break
		}
		f.free[best] = true
	}
	for j := n; j < features; j++ {
		f.terms[j], f.free[j] = f.terms[n-1], f.free[n-1]
	}
}

// moveTo moves the free terms towards their target until the first of them reaches zero. That
// one stays there and is no longer free.
func (f *fit) moveTo(target *vector) (stopped bool) {
	share, first := 1.0, -1
	n := seen(f.top)
	for j, free := range f.free[:n] {
		if free && target[j] < 0 {
			if s := f.terms[j] / (f.terms[j] - target[j]); s < share {
				share, first = s, j
			}
		}
	}
	for j, free := range f.free[:n] {
		if free {
			f.terms[j] = max(0, f.terms[j]+share*(target[j]-f.terms[j]))
		}
	}
	if first >= 0 {
		f.terms[first], f.free[first] = 0, false
	}
	return first >= 0
}

// times is row j of the symmetric matrix with the lower triangle a, times x.
func times(a []vector, j int, x *vector) float64 {
	sum := dot(a[j][:j+1], x)
	for k := j + 1; k < len(a); k++ {
		sum += a[k][j] * x[k]
	}
	return sum
}

// solveFree solves a*x = b for the n free terms of x, with the others zero, by a Cholesky
// factorization of the lower triangle a. It returns false where that is not positive definite.
func solveFree(a *[features]vector, b *vector, free []bool) (x vector, n int, ok bool) {
	var l [features]vector // rows of the factor, by the order of the free terms
	var at [features]int   // their places
	var y, column vector
	for j, is := range free {
		if is {
			at[n], y[n] = j, b[j]
			for k := range n + 1 {
				l[n][k] = a[j][at[k]]
			}
			n++
		}
	}
	for j := range n {
		if l[j][j] <= 1e-12*a[at[j]][at[j]] {
			return x, n, false
		}
		l[j][j] = math.Sqrt(l[j][j])
		y[j] /= l[j][j]
		for i := j + 1; i < n; i++ {
			below := l[i][j] / l[j][j]
			l[i][j], column[i] = below, below
			y[i] -= below * y[j]
			rest := l[i][j+1 : i+1]
			for k, v := range column[j+1 : i+1] {
				rest[k] -= below * v
			}
		}
	}
	for j := n - 1; j >= 0; j-- {
		y[j] /= l[j][j]
		x[at[j]] = y[j]
		for k, v := range l[j][:j] {
			y[k] -= v * y[j]
		}
	}
	return x, n, true
}

// smooth adds the assumption that a row costs the same on both sides of a knot. A violation
// counts by the narrower side, or by all rows where the stratum above is unknown, relative to
// the time of a step there.
func (f *fit) smooth(a *[features]vector) {
	took := f.terms[0] + f.terms[logits] + f.terms[context] + f.terms[pairs]
	for k := 1; k <= f.top; k++ {
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
		a[j][i] -= w // below the diagonal
	}
}
