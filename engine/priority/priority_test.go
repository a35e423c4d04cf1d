package priority

import (
	"testing"
	"time"
)

// TestDue: a priority goes before one that is n levels higher once it has waited n times a level longer.
func TestDue(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		low, high int8
		longer    time.Duration
	}{{0, 1, Wait}, {-20, 10, 30 * Wait}, {-128, 127, 255 * Wait}} {
		high := Due(c.high, begin, Wait)
		if d := Due(c.low, begin.Add(1-c.longer), Wait); !high.Before(d) {
			t.Errorf("%d waits %v longer than %d, nearly, and goes first", c.low, c.longer, c.high)
		}
		if d := Due(c.low, begin.Add(-1-c.longer), Wait); !d.Before(high) {
			t.Errorf("%d waits over %v longer than %d, and does not go first", c.low, c.longer, c.high)
		}
	}
}
