package tree

import (
	"testing"
	"time"
	"unsafe"
)

// TestTheClockIsSetBeforeASweep: how long ago a job ended, and since when its owner waits, does not depend on the clock.
func TestTheClockIsSetBeforeASweep(t *testing.T) {
	at := time.Now()
	for _, c := range []struct {
		awaited bool
		seconds int64 // that the clock is set by
		passed  time.Duration
		want    sweepAction
	}{
		{false, 3600, 0, nothing}, {false, -3600, 2 * time.Minute, settleNow}, {false, 0, 2 * time.Minute, settleNow},
		{true, 3600, 0, nothing}, {true, -3600, 2 * time.Minute, leaveNow}, {true, 0, 2 * time.Minute, leaveNow},
	} {
		r := &request{endedAt: at}
		r.phase.Store(accepted)
		r.doneAt.Store(&r.endedAt)
		if c.awaited {
			r.awaitedAt.Store(&at)
		}
		now := at.Add(c.passed)
		// Its first field: above 30 bits of nanoseconds the seconds, where it has a monotonic reading.
		wall := (*int64)(unsafe.Pointer(&now))
		*wall += c.seconds << 30
		if now.Unix() != at.Add(c.passed).Unix()+c.seconds {
			t.Fatalf("it is %v of %v", now, at)
		}
		if got := sweepActionOf(r, now, time.Minute, time.Minute); got != c.want {
			t.Errorf("%+v: the sweep does %d", c, got)
		}
	}
}
