package sched

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestTailIsWhatOneInAHundredExceeds: for times of any spread, after the spread
// changed, and whatever single outliers there are.
func TestTailIsWhatOneInAHundredExceeds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var e tail
	for _, spread := range []float64{0.05, 0.3, 0.1} {
		var sum, n float64
		for i := range 20_000 {
			real := math.Exp(spread * r.NormFloat64())
			if r.IntN(1000) == 0 {
				real *= 100
			}
			e.add(real, 1)
			if i > 5000 {
				sum, n = sum+e.of(), n+1
			}
		}
		if got, want := sum/n, math.Exp(2.33*spread); got < 1+(want-1)*0.7 || got > 1+(want-1)*1.5 {
			t.Errorf("spread %g: %.3f, one in a hundred exceeds %.3f", spread, got, want)
		}
	}
	if e.add(1, 0); e.seen != 60_000 {
		t.Errorf("%d times, one of them with nothing expected", e.seen)
	}
}
