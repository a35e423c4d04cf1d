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

// TestUntoldPrefillIsNotGivenBack: a prompt that another server may have computed, which says nothing of it, costs its client
// nothing when it leaves, and stays taken of the tokens per minute: else the server would compute prompts without end.
func TestUntoldPrefillIsNotGivenBack(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := plain
		a.TokensPerMinute = 6000
		a = w.set(a, 100_000)
		for _, owner := range []bool{true, false} { // who settles
			w.models["one"].mode.Store(stuckElsewhere)
			before := w.tree.Limits(a, account.LimitedKey{}).TokensRemaining
			s, _, err := w.tree.Generate(w.call(a, "one", 2000, 500, true))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // which brings 100 back
			s.Cancel()
			if owner {
				if got, err := w.settle(s); err != nil || got.Charge != 0 || got.Usage.Input() != 0 || got.Reason != account.Canceled {
					t.Errorf("settled %+v, %v", got, err)
				}
			}
			synctest.Wait()
			if got := before - w.tree.Limits(a, account.LimitedKey{}).TokensRemaining; got < 1900 || got > 2000 {
				t.Errorf("who left in the prefill of 2000 tokens took %d", got)
			}
			w.models["one"].mode.Store(running)
		}
	})
}
