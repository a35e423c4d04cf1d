// Package cost predicts how long a step of the engine takes, from those that ran.
// Both who plans steps asks it: how many rows of a prompt fit beside the sequences
// that decode, and how many drafted tokens pay.
//
// A prediction is a sum of terms that are linear in the features of a Load, none
// negative, fitted to the measured steps by least squares of the relative error,
// times how fast the machine is now: the median of the latest steps against their
// fit. So one disturbed step changes nothing, a busy neighbour is seen within a
// few, and what is learned of the model's shape stays.
//
// It is pure: no clock, no randomness. A Model is not safe for concurrent use.
package cost

import (
	"math"
	"slices"
	"time"
)

const (
	// ratiosMax is how many of the latest steps say how fast the machine is now:
	// fewer than half of them may be disturbed.
	ratiosMax = 7
	// disturbed is how much longer than expected a step may take and still be
	// learned from, and disturbedMax how many in a row of one size are not. The first
	// steps of a size between known ones, which say how long they should take, count
	// as at most that much longer for each: surprise.
	disturbed, disturbedMax = 2, 4
	surprise                = (disturbed - 1.) / disturbedMax
	// longPaceSeconds is over how much time of steps the weight of one fades in the
	// long pace, and longPaceSpike how many times longer than the median ratio says
	// it is taken to have been at most: a process that was stopped is no slow machine.
	longPaceSeconds, longPaceSpike = 10, 4
	// aloneRows is up to how many rows a step is much like one of a single sequence
	// that decodes, and aloneSteps how many of those make one disturbed one harmless.
	aloneRows, aloneSteps = 8, 6
	// trustedMin is how many rows a step may always have to be predicted.
	trustedMin = 64
)

// Model predicts how long a step takes. Its zero value knows nothing.
type Model struct {
	fit     fit
	ratios  [ratiosMax]float64 // measured / fitted: a ring
	steps   int                // measured in all, disturbed ones included
	rowsMax int                // rows of the largest
	pace    float64            // the median of the ratios, 1 while there are fewer than four
	// Fading sums over the last seconds: what steps took and their features. So the
	// terms, however they change, are scaled to give the time that was measured.
	longTook     float64 // seconds
	longFeatures vector
}

// Known says whether anything was measured.
func (m *Model) Known() bool { return m.steps > 0 }

// Steps is how many were measured.
func (m *Model) Steps() int { return m.steps }

// KnowsAlone says whether steps of single sequences that decode were measured,
// and enough of them that one disturbed one does not matter.
func (m *Model) KnowsAlone() bool {
	n := 0
	for i := 0; knots[i] <= aloneRows; i++ {
		n += m.fit.strata[i].steps
	}
	return n >= aloneSteps
}

// Trusted is the most rows a step may have so that its prediction is not a guess.
func (m *Model) Trusted() int { return max(trustedMin, 4*m.rowsMax) }

// Predict is how long the next step takes, 0 before anything was measured.
func (m *Model) Predict(l Load) time.Duration {
	if l.Rows == 0 || !m.Known() {
		return 0
	}
	x := featuresOf(l)
	return time.Duration(dot(m.fit.terms[:], &x) * m.pace * float64(time.Second))
}

// PredictLong is how long a step takes on the average of many: the mean of
// seconds, where Predict says what the very next one takes.
func (m *Model) PredictLong(l Load) time.Duration {
	if l.Rows == 0 || !m.Known() {
		return 0
	}
	x, pace := featuresOf(l), m.pace
	if fitted := dot(m.fit.terms[:], &m.longFeatures); fitted > 0 {
		pace = m.longTook / fitted
	}
	return time.Duration(dot(m.fit.terms[:], &x) * pace * float64(time.Second))
}

// Observe learns from a step.
func (m *Model) Observe(l Load, took time.Duration) {
	if l.Rows == 0 || took <= 0 {
		return
	}
	t, x := took.Seconds(), featuresOf(l)
	if !m.Known() {
		m.pace = 1
		m.fit.begin(t / float64(l.Rows))
	}
	at := stratumOf(l.Rows)
	s := &m.fit.strata[at]
	fitted := max(dot(m.fit.terms[:], &x), 1e-9)
	ratio := t / fitted
	odd := ratio > disturbed*m.pace && s.steps >= disturbedMax && s.skipped < disturbedMax
	off := ratio / m.pace
	m.keepPace(ratio)
	m.keepLongPace(&x, min(t, longPaceSpike*m.pace*fitted))
	if odd {
		s.skipped++
		return
	}
	s.skipped = 0
	if s.steps < disturbedMax && m.fit.between(at) {
		t = min(t, (1+float64(s.steps+1)*surprise)*m.pace*fitted)
	}
	m.rowsMax = max(m.rowsMax, l.Rows)
	m.fit.learn(at, &x, t, off)
}

// keepPace takes a step's ratio of measured to fitted into account.
func (m *Model) keepPace(ratio float64) {
	m.ratios[m.steps%ratiosMax] = ratio
	m.steps++
	m.pace = 1
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
