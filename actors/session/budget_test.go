package session

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestBudgetAgainstList drives the budget and a plain list, the oracle, with
// random pins of several accounts.
func TestBudgetAgainstList(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	type pin struct {
		key   Key
		bytes int64
	}
	for range 50 {
		sessionsMax, bytesMax := 1+rnd.IntN(6), int64(1+rnd.IntN(200))
		b := NewBudget(sessionsMax, bytesMax)
		lists := map[string][]pin{} // oldest first
		for range 300 {
			account := string(rune('a' + rnd.IntN(3)))
			k := Key{byte(account[0]), byte(rnd.IntN(10))}
			list := slices.DeleteFunc(lists[account], func(p pin) bool { return p.key == k })
			if rnd.IntN(5) == 0 {
				b.Forget(k)
				lists[account] = list
				continue
			}
			size := rnd.Int64N(80) // often more than the bound: then k is pinned in part, and alone
			list = append(list, pin{k, min(size, bytesMax)})
			var want []Key
			for {
				var sum int64
				for _, p := range list {
					sum += p.bytes
				}
				if len(list) <= sessionsMax && sum <= bytesMax {
					break
				}
				want = append(want, list[0].key)
				list = list[1:]
			}
			lists[account] = list
			if got := b.Set(account, k, size); !slices.Equal(got, want) {
				t.Fatalf("evicted %v, want %v", got, want)
			}
			if slices.Contains(want, k) {
				t.Fatalf("the session that just pinned is evicted")
			}
			sessions, total := b.Total()
			wantSessions, wantTotal := 0, int64(0)
			for _, l := range lists {
				for _, p := range l {
					wantSessions++
					wantTotal += p.bytes
				}
			}
			if sessions != wantSessions || total != wantTotal {
				t.Fatalf("%d sessions of %d bytes, want %d of %d", sessions, total, wantSessions, wantTotal)
			}
		}
		for _, l := range lists {
			for _, p := range l {
				b.Forget(p.key)
			}
		}
		if len(b.accounts) > 0 {
			t.Errorf("%d accounts are known that pin nothing", len(b.accounts))
		}
	}
}
