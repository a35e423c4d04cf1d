package sched

import "math"

const (
	// tailShare is the share of times above a tail, one in twenty. The promises are about one
	// in a hundred, but those are too few to follow a machine that changes.
	tailShare = 0.05
	// tailPower turns the ratio that one time in twenty exceeds into the one that one in a
	// hundred exceeds. For a normal distribution these are 1.64 and 2.33 standard deviations.
	tailPower = 2.33 / 1.64
	// tailRise is how much the logarithm of a tail rises with a time above it. The first times
	// move it several times as much. tailMax bounds the tail.
	tailRise, tailMax = 0.05, 4
	// tailKnown is how many times make an estimate. It is also how many steps the cost model
	// must have seen before an error of it counts as the machine's.
	tailKnown = 128
	// Plans stay below a promise by a factor of at least margin, however steady steps are, and
	// at most marginMax. No plan protects from longer disturbances, and small steps waste the
	// machine.
	margin, marginMax = 1 / 0.85, 1.5
)

// jitter is how much longer than predicted one step in a hundred takes. GapStretchMax compares
// the gaps of a sequence among others with those of a sequence alone, so both are followed.
type jitter struct {
	batched tail // of steps in which some decode among others, by what they take
	alone   tail // of steps of one that decodes alone, by what they take without drafts
}

// batchedMargin is the factor by which steps of several sequences are planned shorter.
func (j *jitter) batchedMargin() float64 { return min(marginMax, max(margin, j.batched.of())) }

// aloneTail is the tail of steps of a single sequence. It is not known before enough of them
// ran.
func (j *jitter) aloneTail() (ratio float64, known bool) {
	return j.alone.of(), j.alone.seen >= tailKnown
}

// tail follows the ratio of measured to expected time that a share of tailShare exceeds. Each
// time moves the estimate up or down by a constant factor, so an outlier counts as one time.
type tail struct {
	log  float64 // of the ratio, 0 at least
	seen int
}

// of is the ratio that one time in a hundred exceeds.
func (t *tail) of() float64 { return math.Exp(tailPower * t.log) }

// add takes one time. The estimate is stable when a share of tailShare lies above it.
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
