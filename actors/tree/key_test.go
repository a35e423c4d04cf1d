package tree

import (
	"sync"
	"sync/atomic"
	"testing"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// TestKeyBudgetHoldsAtAnyConcurrency: however many requests of a key run at once, and while its
// limiter fails again and again, the key is charged its budget and at most one request's overshoot;
// who is refused pays nothing and the account's other key goes on.
func TestKeyBudgetHoldsAtAnyConcurrency(t *testing.T) {
	var points atomic.Int64
	hook := func(point string) {
		if n := points.Add(1); (point == "limiter.leave" || point == "limiter.reserved" || point == "limiter.settle") && n%29 == 0 {
			panic("planted")
		}
	}
	inBubble(t, Config{hook: hook}, func(t *testing.T, w *world) {
		a := plain
		a.Concurrency, a.TokensPerMinute = 0, 0
		a = w.set(a, 1_000_000)
		const budget, upper = 3000, 2*100 + 10*20
		w.store.budgets = map[string]abi.Nano{"tight": budget}
		var admitted, refused atomic.Int64
		for range 3 {
			var wave sync.WaitGroup
			for range 16 {
				wave.Go(func() {
					c := w.call(a, "one", 100, 20, true)
					c.Key = account.LimitedKey{ID: "tight", Budget: budget}
					switch _, err := w.play(c); {
					case err == nil:
						admitted.Add(1)
					case abi.KindOf(err) == abi.InsufficientBalance:
						refused.Add(1)
					case abi.KindOf(err) != abi.Internal && abi.KindOf(err) != abi.Overloaded:
						t.Errorf("refused with %v", err)
					}
				})
			}
			wave.Wait()
			w.calm(a)
		}
		use, err := w.store.KeysCharged(a.ID, w.began)
		if err != nil || len(use) != 1 {
			t.Fatal(use, err)
		}
		if charged := use[0].Charged; charged > budget+upper || charged < budget-upper || admitted.Load() == 0 || refused.Load() == 0 {
			t.Errorf("%d admitted, %d refused, %d charged of a budget of %d", admitted.Load(), refused.Load(), charged, budget)
		}
		other := w.call(a, "one", 100, 20, true)
		other.Key.ID = "other"
		for range 5 { // a planted failure may refuse it
			if _, err = w.play(other); err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("the account's other key: %v", err)
		}
		w.checkClean(a)
	})
}
