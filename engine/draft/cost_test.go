package draft

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// TestCostLearnsACurve: flat, then rising, with a jump; the machine is disturbed
// now and then.
func TestCostLearnsACurve(t *testing.T) {
	curve := func(rows int) float64 {
		s := 0.015 + 0.0004*math.Max(0, float64(rows-4))
		if rows > 8 {
			s += 0.006
		}
		return s
	}
	r := rand.New(rand.NewPCG(1, 1))
	c := &Cost{}
	sizes := []int{1, 2, 3, 4, 6, 8, 9, 12, 16, 40, 200, 512}
	for range 2000 {
		rows := sizes[r.IntN(len(sizes))]
		took := curve(rows) * (0.97 + 0.06*r.Float64())
		if r.IntN(30) == 0 {
			took *= 5
		}
		c.Learn(rows, seconds(took))
	}
	for _, rows := range append(sizes, 5, 7, 10, 14, 24, 100) {
		if got, want := c.Of(rows), curve(rows); got < 0.85*want || got > 1.3*want {
			t.Errorf("%d rows: %.4f s expected, they take %.4f", rows, got, want)
		}
	}
	for rows := 1; rows < 600; rows++ {
		if c.Of(rows+1) < c.Of(rows) {
			t.Errorf("%d rows are expected to take %g s, one more %g", rows, c.Of(rows), c.Of(rows+1))
		}
	}
}

// TestCostOfTheUnknown: nothing from nothing, nothing about smaller steps from
// larger ones, and a guess that rises with the rows from smaller ones.
func TestCostOfTheUnknown(t *testing.T) {
	c := &Cost{}
	if got := c.Of(1); got != 0 {
		t.Errorf("before any step: %g", got)
	}
	c.Learn(0, time.Second)
	c.Learn(100, 0)
	c.Learn(100, time.Second)
	if got := c.Of(1); got != 0 {
		t.Errorf("1 row after a step of 100: %g", got)
	}
	if got := c.Of(200); got <= 1 || got > 2 {
		t.Errorf("200 rows after 100 took 1 s: %g", got)
	}
	c.Learn(1, seconds(0.1))
	if got := c.Of(1); got != 0.1 {
		t.Errorf("1 row that took 0.1 s: %g", got)
	}
	if got := c.Of(50); got <= 0.1 || got >= 1 {
		t.Errorf("50 rows between 1 and 100: %g", got)
	}
}

// TestCostForgets: a size that was slow once is tried again some day.
func TestCostForgets(t *testing.T) {
	c := &Cost{}
	c.Learn(1, seconds(0.01))
	c.Learn(8, seconds(0.01))
	c.Learn(4, seconds(0.02))
	slow := c.Of(4)
	for range staleAfter + 1 {
		c.Learn(1, seconds(0.01))
		c.Learn(8, seconds(0.01))
	}
	if slow < 0.015 || c.Of(4) > 0.011 {
		t.Errorf("4 rows: %g at first, %g after %d other steps", slow, c.Of(4), 2*staleAfter)
	}
	c.Learn(4, seconds(0.01))
	if got := c.Of(4); got > 0.011 {
		t.Errorf("4 rows took 0.01 s now: %g", got)
	}
}

// TestCostIsBounded: every number of rows that a step can have fits few points.
func TestCostIsBounded(t *testing.T) {
	c := &Cost{}
	for rows := 1; rows <= 8192; rows++ {
		c.Learn(rows, time.Millisecond)
	}
	if len(c.points) > 128 {
		t.Errorf("%d points", len(c.points))
	}
}
