package tree

import (
	"testing"
	"time"
	"unsafe"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// TestEachSecondIsObserved: the engine of a stream that gives a token each second fails after the sixth. The stream pays what the
// last sweep saw, and not the first one.
func TestEachSecondIsObserved(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		one := w.models["one"]
		one.stepTime = time.Second // the first step is the prompt's
		c := w.call(a, "one", 10, 50, true)
		time.Sleep(500 * time.Millisecond) // steps end between two sweeps
		s, _, err := w.tree.Generate(c)
		if err != nil {
			t.Fatal(err)
		}
		s.Shown()
		time.Sleep(6250 * time.Millisecond)
		one.panics.Store(true)
		w.read(s)
		got, err := w.settle(s)
		w.store.mu.Lock()
		observed := w.store.observed[c.RequestID].Output
		w.store.mu.Unlock()
		if observed != 5 {
			t.Errorf("the last row says %d tokens", observed)
		}
		if err != nil || got.Charge != 2*10+10*abi.Nano(observed) || got.Reason != account.Failed {
			t.Errorf("settled %+v, %v; %d tokens were observed", got, err, observed)
		}
		w.checkClean(a)
	})
}

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
		r := &request{}
		r.phase.Store(accepted)
		r.doneAt.Store(&at)
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
