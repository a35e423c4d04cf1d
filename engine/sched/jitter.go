package sched

import "math"

const (
	// tailShare is the share of times that exceeds a tail. It is not the one in a
	// hundred of the promises, of which too few come to follow a machine that changes.
	tailShare = 0.05
	// tailPower takes the ratio that one time in twenty exceeds to what one in a
	// hundred does: 2.33 of a normal distribution's deviations instead of 1.64.
	tailPower = 2.33 / 1.64
	// tailRise is by how much, as a logarithm, the estimate of a tail rises with a
	// time beyond it, the first ones several times as much, and tailMax the most that
	// it is taken to be.
	tailRise, tailMax = 0.05, 4
	// tailKnown is how many times make an estimate, and how many steps the cost model
	// must have seen before what it did not expect is the machine's.
	tailKnown = 128
	// margin is how far below a promise is planned at least, however steady steps are,
	// and marginMax at most: from disturbances that are longer no plan protects, and
	// small steps waste the machine.
	margin, marginMax = 1 / 0.85, 1.5
)

// jitter is how much longer steps take than predicted, once in a hundred times.
// What is promised in gaps of a stream alone is about those of both.
type jitter struct {
	batched tail // of steps in which some decode among others, by what they take
	alone   tail // of steps of one that decodes alone, by what they take without drafts
}

// batchedMargin is by what factor steps with several sequences are planned shorter.
func (j *jitter) batchedMargin() float64 { return min(marginMax, max(margin, j.batched.of())) }

// aloneTail is for steps of one sequence; not known before some ran.
func (j *jitter) aloneTail() (ratio float64, known bool) {
	return j.alone.of(), j.alone.seen >= tailKnown
}

// tail follows the ratio of real to expected times that tailShare of them exceeds:
// a time moves it by a constant factor, up or down, so an outlier counts as one.
type tail struct {
	log  float64 // of the ratio, 0 at least
	seen int
}

// of is the ratio that one time in a hundred exceeds.
func (t *tail) of() float64 { return math.Exp(tailPower * t.log) }

// add takes a time. The estimate rises with a share of them as much as it falls
// with the others.
func (t *tail) add(real, expected float64) {
	if expected <= 0 {
		return
	}
	rise := tailRise * (1 + tailKnown/float64(tailKnown/4+t.seen))
	t.seen++
	if real > math.Exp(t.log)*expected {
		t.log = min(math.Log(tailMax), t.log+rise*(1-tailShare))
	} else {
		t.log = max(0, t.log-rise*tailShare)
	}
}
