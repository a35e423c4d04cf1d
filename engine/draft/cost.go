package draft

import (
	"slices"
	"time"
)

const (
	// costShare is the weight of the latest time in the average of its size.
	costShare = 0.125
	// outlier is how far a time may be from what was expected: what lies beyond,
	// such as a step during which the machine did something else, counts as this much.
	outlier = 2
	// staleAfter is after how many other steps a size is forgotten. What was once
	// measured to be slow is guessed from its neighbours again, and so tried again.
	staleAfter = 4096
	// firstSlope is what a row more is expected to cost while steps of one size
	// only were seen, as a share of their cost for each row.
	firstSlope = 0.5
)

// Cost is what steps take by their number of rows, learnt from those that ran.
// Its zero value knows nothing.
type Cost struct {
	points []costPoint // by size; their number is bounded by sizeOf
	steps  int         // seen
}

// costPoint is the average of the steps of about one size.
type costPoint struct {
	size          int
	rows, seconds float64
	seen          int // steps
	last          int // the number of the latest of them
}

// sizeOf puts numbers of rows together that differ by an eighth at the most: up
// to 16 each is a size of its own, beyond that there are eight for every doubling.
func sizeOf(rows int) int {
	shift := 0
	for rows>>shift >= 16 {
		shift++
	}
	return rows >> shift << shift
}

// Learn takes the time of one step.
func (c *Cost) Learn(rows int, took time.Duration) {
	if rows < 1 || took <= 0 {
		return
	}
	seconds, size := took.Seconds(), sizeOf(rows)
	c.steps++
	at, found := slices.BinarySearchFunc(c.points, size, func(p costPoint, size int) int { return p.size - size })
	if found && c.steps-c.points[at].last > staleAfter {
		c.points = slices.Delete(c.points, at, at+1)
		found = false
	}
	if expected := c.Of(rows); expected > 0 {
		seconds = min(max(seconds, expected/outlier), expected*outlier)
	}
	if !found {
		c.points = slices.Insert(c.points, at, costPoint{size: size, rows: float64(rows), seconds: seconds})
	}
	p := &c.points[at]
	p.seen++
	p.last = c.steps
	share := max(costShare, 1/float64(p.seen))
	p.rows += (float64(rows) - p.rows) * share
	p.seconds += (seconds - p.seconds) * share
}

// Of is the seconds that a step of so many rows is expected to take: between two
// sizes on the line through them, and never less than a smaller step. It is 0
// where only larger steps are known: those say nothing of smaller ones.
func (c *Cost) Of(rows int) float64 {
	x := float64(rows)
	var low costPoint // the last one at or below x, with the most seconds of all those
	known := 0
	for _, p := range c.points {
		if c.steps-p.last > staleAfter {
			continue
		}
		if p.rows > x && known > 0 {
			return low.seconds + max(0, p.seconds-low.seconds)*(x-low.rows)/(p.rows-low.rows)
		}
		if p.rows > x && p.size != sizeOf(rows) {
			return 0
		}
		p.seconds = max(p.seconds, low.seconds)
		low = p
		known++
	}
	return low.beyond(x)
}

// beyond is the seconds of a step of x rows, more than those of any known one.
func (p costPoint) beyond(x float64) float64 {
	if p.rows == 0 || x <= p.rows {
		return p.seconds
	}
	return p.seconds * (1 + firstSlope*(x-p.rows)/p.rows)
}
