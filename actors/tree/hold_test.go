package tree

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// TestReloadKnowsWhatRequestsHave: a limiter that reads its account again, or is made again, knows what running requests
// have of its money and of counters. The next request does not get it a second time.
func TestReloadKnowsWhatRequestsHave(t *testing.T) {
	for free, balance := range map[int64]abi.Nano{0: 1000, 150: 100} { // what the first takes: 700, or a whole counter and no money
		for _, killed := range []bool{false, true} {
			inBubble(t, Config{}, func(t *testing.T, w *world) {
				a := w.set(plain, balance)
				w.billing.free.Store(free)
				w.models["one"].mode.Store(stuckInDecode)
				s, _, err := w.tree.Generate(w.call(a, "one", 100, 50, true))
				if err != nil || <-s.Held() != nil {
					t.Fatal("no hold", err)
				}
				if killed {
					_ = w.tree.limits.Live(a.ID).Tell(system.Kill{Reason: "test"})
				} else {
					w.tree.AccountChanged(a.ID)
				}
				time.Sleep(time.Second)
				if _, _, err := w.tree.Generate(w.call(a, "one", 149, 1, true)); abi.KindOf(err) != abi.InsufficientBalance {
					t.Errorf("%d free tokens, killed %t: %v", free, killed, err)
				}
				w.models["one"].mode.Store(running)
				w.read(s)
				if _, err := w.settle(s); err != nil {
					t.Error(err)
				}
				w.billing.free.Store(0)
				w.checkClean(a)
			})
		}
	}
}

// TestHoldThatTheLedgerDoesNotTake: a request whose hold finds no room in the ledger's mailbox is refused, has no row and
// gives back what it was admitted with, though the ledger answers nothing.
func TestHoldThatTheLedgerDoesNotTake(t *testing.T) {
	var blocked atomic.Bool
	var gate chan struct{}
	hook := func(point string) {
		if point == "ledger.append" && blocked.Load() {
			<-gate
		}
	}
	inBubble(t, Config{hook: hook, MailboxMax: 8, RequestsMax: 4}, func(t *testing.T, w *world) {
		gate = make(chan struct{})
		a := w.set(plain, 10_000)
		if _, err := w.play(w.call(a, "one", 10, 1, true)); err != nil { // wakes the limiter
			t.Fatal(err)
		}
		blocked.Store(true)
		for w.tree.ledger.Send(ledger.Append{Entry: account.Entry{Kind: account.Checkpoint}}) == nil {
			synctest.Wait()
		}
		c := w.call(a, "one", 10, 5, true)
		if _, _, err := w.tree.Generate(c); abi.KindOf(err) != abi.Overloaded {
			t.Fatalf("refused with %v", err)
		}
		time.Sleep(time.Second)
		if n, free := w.tree.requests.len(), w.tree.Limits(a, account.LimitedKey{}).RequestsRemaining; n != 0 || free != a.Concurrency {
			t.Errorf("%d requests are registered, %d permits are free", n, free)
		}
		blocked.Store(false)
		close(gate)
		synctest.Wait()
		if e, ok := w.store.settlement(c.RequestID); ok {
			t.Errorf("row %+v", e)
		}
		w.checkClean(a)
	})
}
