package sched

import (
	"math"
	"slices"
	"time"
)

// load is what the duration of a step depends on.
type load struct {
	rows    int // tokens computed
	logits  int // rows whose logits are computed: the output head
	context int // positions whose keys and values are read, once per item
	pairs   int // rows times the positions that each attends to
}

// with adds an item of n rows that begins at position start.
func (l load) with(start, n, logits int) load {
	return load{l.rows + n, l.logits + logits, l.context + start + n, l.pairs + n*start + n*(n+1)/2}
}

// loadOf is what a step with these items computes.
func loadOf(items []Item) (l load) {
	for i := range items {
		logits := 0
		if items[i].Logits {
			logits = 1 + len(items[i].Draft)
		}
		l = l.with(items[i].Start, items[i].Len, logits)
	}
	return l
}

// knots are the numbers of rows at which the cost of a further row may change:
// a few rows wait for the weights, many for the arithmetic.
var knots = [...]int{1, 4, 16, 64, 256, 1024}

// The features of a load, in order: one for each step, the rows between two
// knots and above the last one, and the other three numbers of a load.
const (
	ramps    = 1
	others   = ramps + len(knots)
	features = others + 3
)

type vector [features]float64

func featuresOf(l load) (x vector) {
	x[0] = 1
	for k, low := range knots {
		width := l.rows - low
		if k+1 < len(knots) {
			width = min(width, knots[k+1]-low)
		}
		x[ramps+k] = float64(max(0, width))
	}
	x[others], x[others+1], x[others+2] = float64(l.logits), float64(l.context), float64(l.pairs)
	return x
}

func dot(a, b *vector) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

const (
	// ratiosMax is how many of the latest steps say how fast the machine is now:
	// fewer than half of them may be disturbed.
	ratiosMax = 7
	// disturbed is how much longer than expected a step may take and still be
	// learned from, and disturbedMax how many in a row of one size are not.
	disturbed, disturbedMax = 2, 4
	// memory is over how many steps of one size the weight of a step fades.
	memory = 32
	// longPaceSeconds is over how much time of steps the weight of one fades in the
	// long pace, and longPaceSpike how many times longer than the median ratio says
	// it is taken to have been at most: a process that was stopped is no slow machine.
	longPaceSeconds, longPaceSpike = 10, 4
	// sweeps is the most that the solver goes over the terms after a step. It starts
	// from the last solution, and stops when a sweep moves predictions by less
	// than settled, relative to what they are.
	sweeps, settled = 16, 1e-3
	// What is assumed where the measured steps do not tell, with its weight against
	// them: that a row costs what one in a step of another size does, and that
	// logits, context and pairs cost nothing, so that what steps of one sequence
	// take is the price of a step, which more sequences share. If that is wrong
	// the first step with more of them tells.
	smoothing, damping = 1e-2, 2e-2
)

// costModel predicts how long a step takes. It is a sum of terms that are
// linear in the features of a load, none negative, fitted to the measured steps
// by least squares of the relative error, times how fast the machine is now: the
// median of the latest steps against their fit. So one disturbed step changes
// nothing, a busy neighbour is seen within a few, and what is learned of the
// model's shape stays.
type costModel struct {
	terms  vector // seconds for one of each feature
	strata [len(knots)]stratum
	ratios [ratiosMax]float64 // measured / fitted: a ring
	steps  int                // measured in all, disturbed ones included
	most   int                // rows of the largest
	pace   float64            // the median of the ratios, 1 while there are fewer than four
	// Fading sums over the last seconds: what steps took and their features. So the
	// terms, however they change, are scaled to give the time that was measured.
	longTook     float64 // seconds
	longFeatures vector
}

// stratum is what was learned from steps of one range of rows. Each range fades
// by its own steps only: hours of decoding do not make it forget what a prefill costs.
type stratum struct {
	products [features]vector // fading mean of x*x' / t^2
	sums     vector           // fading mean of x / t
	steps    int
	skipped  int // in a row, as disturbed
}

// known says whether anything was measured.
func (c *costModel) known() bool { return c.steps > 0 }

// knowsAlone says whether steps of single sequences that decode were measured,
// and enough of them that one disturbed one does not matter.
func (c *costModel) knowsAlone() bool { return c.strata[0].steps >= 3 }

// predict is how long a step will take, 0 before anything was measured.
func (c *costModel) predict(l load) time.Duration {
	if l.rows == 0 || !c.known() {
		return 0
	}
	x := featuresOf(l)
	return time.Duration(dot(&c.terms, &x) * c.pace * float64(time.Second))
}

// predictLong is how long a step will take on the average of many: the mean of
// seconds, where predict says what the very next one takes.
func (c *costModel) predictLong(l load) time.Duration {
	if l.rows == 0 || !c.known() {
		return 0
	}
	x, pace := featuresOf(l), c.pace
	if fitted := dot(&c.terms, &c.longFeatures); fitted > 0 {
		pace = c.longTook / fitted
	}
	return time.Duration(dot(&c.terms, &x) * pace * float64(time.Second))
}

// observe learns from a step.
func (c *costModel) observe(l load, took time.Duration) {
	if l.rows == 0 || took <= 0 {
		return
	}
	t, x := took.Seconds(), featuresOf(l)
	if !c.known() { // the first guess: every row costs the same
		for i := range others {
			c.terms[i] = t / float64(l.rows)
		}
	}
	s := &c.strata[stratumOf(l.rows)]
	fitted := max(dot(&c.terms, &x), 1e-9)
	ratio := t / fitted
	odd := ratio > disturbed*c.pace && s.steps >= disturbedMax && s.skipped < disturbedMax
	c.keepPace(ratio)
	c.keepLongPace(&x, min(t, longPaceSpike*c.pace*fitted))
	if odd {
		s.skipped++
		return
	}
	s.skipped = 0
	c.most = max(c.most, l.rows)
	s.add(&x, t)
	c.fit()
}

// stratumOf is the last knot that is not above rows.
func stratumOf(rows int) int {
	at, found := slices.BinarySearch(knots[:], rows)
	if found {
		return at
	}
	return at - 1
}

// trusted is the most rows a step may have so that its prediction is not a guess.
func (c *costModel) trusted() int { return max(Align, 4*c.most) }

// keepPace takes a step's ratio of measured to fitted into account.
func (c *costModel) keepPace(ratio float64) {
	c.ratios[c.steps%ratiosMax] = ratio
	c.steps++
	c.pace = 1
	if n := min(c.steps, ratiosMax); n > ratiosMax/2 {
		sorted := c.ratios
		slices.Sort(sorted[:n])
		c.pace = sorted[n/2]
	}
}

// keepLongPace adds a step of so many seconds to the long pace.
func (c *costModel) keepLongPace(x *vector, took float64) {
	fade := math.Exp(-took / longPaceSeconds)
	c.longTook = c.longTook*fade + took
	for i := range x {
		c.longFeatures[i] = c.longFeatures[i]*fade + x[i]
	}
}

func (s *stratum) add(x *vector, t float64) {
	s.steps++
	share := 1 / float64(min(s.steps, memory))
	for i := range x {
		for j := range x {
			s.products[i][j] += share * (x[i]*x[j]/(t*t) - s.products[i][j])
		}
		s.sums[i] += share * (x[i]/t - s.sums[i])
	}
}

// fit solves for the terms by coordinate descent, none below zero.
func (c *costModel) fit() {
	var a [features]vector
	var b vector
	for i := range c.strata {
		if c.strata[i].steps == 0 {
			continue
		}
		for j := range a {
			for k := range a[j] {
				a[j][k] += c.strata[i].products[j][k]
			}
			b[j] += c.strata[i].sums[j]
		}
	}
	for j := others; j < features; j++ {
		a[j][j] *= 1 + damping
	}
	c.smooth(&a)
	for range sweeps {
		moved := 0.0
		for j := range c.terms {
			if a[j][j] > 0 {
				term := max(0, c.terms[j]+(b[j]-dot(&a[j], &c.terms))/a[j][j])
				moved += (term - c.terms[j]) * (term - c.terms[j]) * a[j][j]
				c.terms[j] = term
			}
		}
		if moved < settled*settled {
			return
		}
	}
}

// smooth adds the assumption that a row costs the same on both sides of a knot,
// relative to what a step of that size takes.
func (c *costModel) smooth(a *[features]vector) {
	for k := 1; k < len(knots); k++ {
		at := featuresOf(load{rows: knots[k]})
		took := max(dot(&c.terms, &at), 1e-9)
		w := smoothing * float64(knots[k]*knots[k]) / (took * took)
		i, j := ramps+k-1, ramps+k
		a[i][i] += w
		a[j][j] += w
		a[i][j] -= w
		a[j][i] -= w
	}
}
