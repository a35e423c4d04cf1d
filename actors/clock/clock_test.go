package clock

import (
	"testing"
	"time"
)

// TestOffsetOfTwoClocks: what the machine was suspended is seen, whatever lies between the reads of the clocks, and
// is never more than it was.
func TestOffsetOfTwoClocks(t *testing.T) {
	for _, c := range []struct {
		name   string
		waits  []time.Duration // between the reads, one after the other; the machine runs
		ahead  time.Duration   // truly
		within time.Duration
	}{
		{"at once", nil, 5 * time.Hour, 0},
		{"read slowly at first", []time.Duration{time.Minute, time.Second, 3 * time.Millisecond, 0, 0, 0}, time.Hour, 0},
		{"read a little slowly", []time.Duration{0, 100 * time.Microsecond, 400 * time.Microsecond}, time.Hour, tight},
		{"never suspended, read slowly", []time.Duration{0, time.Minute, time.Minute}, 0, 0},
	} {
		now, waits := 7*time.Hour, c.waits
		wait := func() {
			if len(waits) > 0 {
				now, waits = now+waits[0], waits[1:]
			}
		}
		got := offset(func() (still, on time.Duration) {
			still = now
			wait()
			on = now + c.ahead
			wait()
			return still, on
		})
		if got > c.ahead || got < c.ahead-c.within {
			t.Errorf("%s: %v, want %v", c.name, got, c.ahead)
		}
	}
}

// TestOffsetWithoutEnd: clocks that are never read close to each other are read no more at some time, and give
// less than the truth.
func TestOffsetWithoutEnd(t *testing.T) {
	now := time.Duration(0)
	got := offset(func() (still, on time.Duration) {
		now += time.Second
		return now, now + time.Hour
	})
	if got != time.Hour-time.Second {
		t.Error(got)
	}
}

// TestNowGoesOnInASuspend: a suspend is in every moment after it, and noise in none.
func TestNowGoesOnInASuspend(t *testing.T) {
	if longer(noise-1) != 0 || longer(time.Hour) != time.Hour {
		t.Error("noise is not told from a suspend")
	}
	before := Now()
	if d := Now().Sub(before); d < 0 || d > 30*time.Minute {
		t.Errorf("two moments are %v apart", d)
	}
	defer Suspend(time.Hour)()
	if d := Now().Sub(before); d < time.Hour {
		t.Errorf("after a suspend of an hour only %v have passed", d)
	}
}
