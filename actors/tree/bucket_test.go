package tree

import (
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/system"
)

// TestBucketOutlivesALimiterThatCannotLoad: a limiter that was killed in an
// outage knows nothing, yet what its account has used is not forgiven.
func TestBucketOutlivesALimiterThatCannotLoad(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := plain
		a.TokensPerMinute = 6000 // a hundred a second
		a = w.set(a, 100_000)
		if _, err := w.play(w.call(a, "one", 5000, 5, true)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := w.tree.Limits(a, account.LimitedKey{}).TokensRemaining
		w.store.failing.Store(true)
		_ = w.tree.limits.Live(a.ID).Tell(system.Kill{Reason: "test"})
		time.Sleep(5 * time.Second) // several sweeps
		w.store.failing.Store(false)
		time.Sleep(time.Second)
		if got := w.tree.Limits(a, account.LimitedKey{}).TokensRemaining; before > 1100 || got < before || got > before+700 {
			t.Errorf("%d tokens remained, after the outage %d do", before, got)
		}
	})
}
