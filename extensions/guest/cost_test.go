package guest

import (
	"testing"
	"time"
)

// TestCost learns what calls take, forgets what they took long ago, and stands
// in for the clock.
func TestCost(t *testing.T) {
	var c cost
	if !c.timed(1) {
		t.Error("the first call is not timed")
	}
	for n := range uint64(16) {
		if c.learned.Load() {
			t.Errorf("learned after %d calls", n)
		}
		c.learn(100, 1000, 2*time.Microsecond, 16, 8)
	}
	if !c.learned.Load() || c.timed(1) || !c.timed(costSample) {
		t.Errorf("learned %v, timed %v and %v", c.learned.Load(), c.timed(1), c.timed(costSample))
	}
	if got := c.estimate(50_000); got != 100*time.Microsecond {
		t.Errorf("50,000 ticks are estimated at %v", got)
	}
	for range 10 * 16 * costKeep {
		c.learn(100, 1000, time.Millisecond, 16, 8)
	}
	if got := time.Duration(c.mean.Load()); got < 990*time.Microsecond || c.sums.calls > 16*costKeep {
		t.Errorf("the mean is %v of %d calls", got, c.sums.calls)
	}
	if !c.timed(1) {
		t.Error("a slow operation is not timed")
	}
}

// TestUsual: what the machine did to a few calls is not what calls take.
func TestUsual(t *testing.T) {
	const us = time.Microsecond
	var c cost
	if got := c.usual(); got != (Usual{}) {
		t.Errorf("without calls: %+v", got)
	}
	for n := range 200 {
		took := 20 * us
		if n == 100 || n == 120 { // of one window
			took = 20_000 * us
		}
		c.learn(100, 1000, took, 256, 200)
	}
	if got := c.usual(); got != (Usual{200, 1000, 20 * us}) {
		t.Errorf("%+v", got)
	}
	for range 199 { // others of ten times the size follow
		c.learn(10<<10, 11*5000, 11*50*us, 256, 200)
	}
	if got := c.usual(); got.Calls != 399 || got.Ticks != 5000 || got.CPU != 50*us {
		t.Errorf("later %+v", got)
	}
}
