// Package cost predicts how long a step of the engine takes, from the steps before it. The
// scheduler asks how many rows of a prompt fit beside the sequences that decode, and how many
// drafted tokens pay.
//
// A prediction is a sum of terms, each linear in one feature of a Load and none negative. The
// terms are fitted to the measured steps by least squares of the relative error. Their sum is
// multiplied by the pace of the machine, which is the median of measured / fitted over the
// latest steps. So one disturbed step changes nothing, a busy neighbor shows after a few steps,
// and what is learned of the model's shape stays. A term of further rows counts at most as
// twice a step of those rows alone, so no size is avoided for ever for what a neighbor did.
//
// It is pure: no clock, no randomness. A Model is not safe for concurrent use.
package cost

import (
	"math"
	"slices"
	"time"
)

const (
	// ratiosMax is how many of the latest steps give the pace. Fewer than half of them may be
	// disturbed.
	ratiosMax = 7
	// A step that takes disturbed times longer than expected teaches nothing, but at most
	// disturbedMax such steps in a row of one size. The first steps of a size between known
	// sizes are expected to fit in. Each of them counts as at most that much longer: surprise.
	disturbed, disturbedMax = 2, 4
	surprise                = (disturbed - 1.) / disturbedMax
	// longPaceSeconds is the time over which a step fades from the long pace. longPaceSpike
	// bounds one step, as a multiple of what the pace predicts: a stopped process is no slow
	// machine.
	longPaceSeconds, longPaceSpike = 10, 4
	// Steps of up to aloneRows rows are much like a step of a single sequence that decodes.
	// aloneSteps of them make one disturbed step harmless.
	aloneRows, aloneSteps = 8, 6
	// trustedMin is how many rows a predicted step may always have.
	trustedMin = 64
)

// Model predicts how long a step takes. Its zero value knows nothing.
type Model struct {
	fit     fit
	ratios  [ratiosMax]float64 // measured / fitted: a ring
	steps   int                // measured in all, disturbed ones included
	rowsMax int                // rows of the largest
	pace    float64            // the median of the ratios, 1 while there are fewer than four
	// The sums over the last seconds: the time of the steps and their features. They scale the
	// terms, whatever those are, to the measured time.
	longTook     float64 // seconds
	longFeatures vector
}

// Known says whether anything was measured.
func (m *Model) Known() bool { return m.steps > 0 }

// Steps is how many steps were measured.
func (m *Model) Steps() int { return m.steps }

// KnowsAlone says whether enough steps of single sequences that decode were measured to make
// one disturbed step harmless.
func (m *Model) KnowsAlone() bool {
	n := 0
	for i := 0; knots[i] <= aloneRows; i++ {
		n += m.fit.strata[i].steps
	}
	return n >= aloneSteps
}

// Trusted is the most rows for which a prediction can be trusted.
func (m *Model) Trusted() int { return max(trustedMin, 4*m.rowsMax) }

// Predict is how long the next step takes, 0 before anything was measured.
func (m *Model) Predict(l Load) time.Duration {
	if l.Rows == 0 {
		return 0
	}
	x, n := featuresOf(l)
	return time.Duration(dot(m.fit.bounded[:n], &x) * m.pace * float64(time.Second))
}

// PredictLong is how long such a step takes on average over seconds, where Predict is about the
// very next one.
func (m *Model) PredictLong(l Load) time.Duration {
	if l.Rows == 0 {
		return 0
	}
	x, n := featuresOf(l)
	pace := m.pace
	if fitted := dot(m.fit.terms[:], &m.longFeatures); fitted > 0 {
		pace = m.longTook / fitted
	}
	return time.Duration(dot(m.fit.bounded[:n], &x) * pace * float64(time.Second))
}

// Observe learns from a step.
func (m *Model) Observe(l Load, took time.Duration) {
	if l.Rows == 0 || took <= 0 {
		return
	}
	t := took.Seconds()
	x, n := featuresOf(l)
	if !m.Known() {
		m.pace = 1
		m.fit.begin(t / float64(l.Rows))
	}
	at := stratumOf(l.Rows)
	s := &m.fit.strata[at]
	fitted := max(dot(m.fit.terms[:n], &x), 1e-9)
	ratio := t / fitted
	odd := ratio > disturbed*m.pace && s.steps >= disturbedMax && s.skipped < disturbedMax
	off := ratio / m.pace
	m.keepPace(ratio)
	m.keepLongPace(&x, min(t, longPaceSpike*m.pace*fitted))
	if odd {
		s.skipped++
		return
	}
	if !m.fit.earn(m.pace * fitted) {
		return
	}
	s.skipped = 0
	if s.steps < disturbedMax && m.fit.between(at) {
		t = min(t, (1+float64(s.steps+1)*surprise)*m.pace*fitted)
	}
	m.rowsMax = max(m.rowsMax, l.Rows)
	m.fit.learn(at, &x, t, off)
}

// keepPace takes a step's ratio of measured to fitted time into the pace.
func (m *Model) keepPace(ratio float64) {
	m.ratios[m.steps%ratiosMax] = ratio
	m.steps++
	if n := min(m.steps, ratiosMax); n > ratiosMax/2 {
		sorted := m.ratios
		slices.Sort(sorted[:n])
		m.pace = sorted[n/2]
	}
}

// keepLongPace adds a step of so many seconds to the long pace.
func (m *Model) keepLongPace(x *vector, took float64) {
	fade := math.Exp(-took / longPaceSeconds)
	m.longTook = m.longTook*fade + took
	for i := range x {
		m.longFeatures[i] = m.longFeatures[i]*fade + x[i]
	}
}
