package sched

import "math"

const (
	// gapShare is the share of gaps that may be longer than what was promised.
	gapShare = 0.01
	// tailRise is by how much, as a logarithm, the estimate of a tail rises with a
	// time beyond it.
	tailRise = 0.05
	// tailLeast is what a tail is never taken to be less than, and where the
	// estimate begins; tailMost what it is never taken to be more than.
	tailLeast, tailMost = 1 / 0.85, 4
	// tailKnown is how many times make an estimate.
	tailKnown = 128
)

// jitter is how much longer steps take than predicted, once in a hundred times.
// The promises about gaps are about those, so what is planned stays as far below.
type jitter struct {
	among tail // of steps in which some decode among others, by what they take
	alone tail // of steps of one that decodes alone, by what they take without drafts
}

// amongTail is for steps in which several sequences take part.
func (j *jitter) amongTail() float64 { return j.among.of() }

// aloneTail is for steps of one sequence; while too few were seen, as among others.
func (j *jitter) aloneTail() float64 {
	if j.alone.seen < tailKnown {
		return j.among.of()
	}
	return j.alone.of()
}

// tail follows the ratio of real to expected times that a given share of them
// exceeds: a time moves it by a constant factor, up or down, so an outlier counts as one.
type tail struct {
	log  float64 // of the ratio, less that of tailLeast
	seen int
}

func (t *tail) of() float64 { return tailLeast * math.Exp(t.log) }

// add takes a time. What rises with a share of them falls with the others.
func (t *tail) add(real, expected, share float64) {
	if expected <= 0 {
		return
	}
	t.seen++
	if real > t.of()*expected {
		t.log = min(math.Log(tailMost/tailLeast), t.log+tailRise*(1-share))
	} else {
		t.log = max(0, t.log-tailRise*share)
	}
}
