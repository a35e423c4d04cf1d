package tree

import (
	"errors"
	"sync"
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

// TestSettlementOfAClusterThatWaits: a request whose settlement is not durable in time, or never will be, gives its permit back, once.
func TestSettlementOfAClusterThatWaits(t *testing.T) {
	for _, rejected := range []bool{false, true} {
		refusal, wait := errAway, 10*time.Millisecond
		if rejected {
			refusal, wait = errRejected, time.Hour
		}
		rejects := func(err error) bool { return errors.Is(err, errRejected) }
		f := newFleet(t, 1, 10*time.Second, Config{SettleWait: wait, Ledger: ledger.Config{Rejects: rejects}})
		a := f.account(account.Account{ID: "a", Concurrency: 1}, 1000)
		m := f.members[0]
		c := m.call(a, 10, 2, true)
		var failing atomic.Bool
		m.spill.Broken = true // else the row is kept there
		m.node.Refuse = func(e account.Entry) error {
			if failing.Load() && e.Kind == account.Settlement && e.RequestID == c.RequestID {
				return refusal
			}
			return nil
		}
		failing.Store(true)
		s, _, err := m.tree.Generate(c)
		if err != nil {
			t.Fatal(err)
		}
		lastEvent(s)
		done := s.Settle()
		f.eventually("the permit is free", func() bool { return f.store.Usage("a").Permits == 0 })
		if rejected {
			<-done
		}
		failing.Store(false)
		<-done
		if end := m.play(m.call(a, 10, 2, true), 0); end != "end" {
			t.Errorf("rejected %t: the next one: %s", rejected, end)
		}
		f.store.mu.Lock()
		times := 0
		for _, id := range f.store.freed {
			if id == c.RequestID {
				times++
			}
		}
		f.store.mu.Unlock()
		if times != 1 {
			t.Errorf("rejected %t: the permit was given back %d times", rejected, times)
		}
	}
}

// TestSlowHoldIsTold: what a hold took is told also of an answer that was complete before it was durable, in a transaction of its
// own or by the settlement that took its place.
func TestSlowHoldIsTold(t *testing.T) {
	for _, queued := range []bool{false, true} {
		inBubble(t, Config{}, func(t *testing.T, w *world) {
			a := w.set(plain, 100_000)
			if _, err := w.play(w.call(a, "one", 10, 1, true)); err != nil { // wakes the limiter
				t.Fatal(err)
			}
			synctest.Wait()
			w.store.delay = 10 * time.Second
			if queued {
				if _, _, err := w.tree.Generate(w.call(a, "one", 10, 1, true)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			began := time.Now()
			s, _, err := w.tree.Generate(w.call(a, "one", 10, 5, false))
			if err != nil {
				t.Fatal(err)
			}
			w.read(s)
			answered := time.Since(began)
			got, err := w.settle(s)
			if err != nil || got.Hold < w.store.delay || answered >= w.store.delay {
				t.Errorf("behind another %t: the answer took %v; %+v, %v", queued, answered, got, err)
			}
		})
	}
}

// TestFullLimiterRefuses: who finds no room in a limiter's mailbox is refused at once, and nothing is kept of it.
func TestFullLimiterRefuses(t *testing.T) {
	var blocked atomic.Bool
	var gate chan struct{}
	hook := func(point string) {
		if point == "limiter.reserved" && blocked.Load() {
			<-gate
		}
	}
	inBubble(t, Config{hook: hook, MailboxMax: 1}, func(t *testing.T, w *world) {
		gate = make(chan struct{})
		a := w.set(account.Account{ID: "acct", Concurrency: 5}, 1000)
		if _, err := w.play(w.call(a, "one", 10, 1, true)); err != nil { // wakes the limiter
			t.Fatal(err)
		}
		synctest.Wait()
		blocked.Store(true)
		var ends sync.WaitGroup
		for range 2 { // one is in hand, and one waits
			ends.Go(func() {
				release, _, err := w.tree.Enter(a, account.LimitedKey{})
				if err != nil {
					t.Error(err)
					return
				}
				release()
			})
			synctest.Wait()
		}
		if _, _, err := w.tree.Enter(a, account.LimitedKey{}); abi.KindOf(err) != abi.Overloaded {
			t.Errorf("without room: %v", err)
		}
		if n := w.tree.requests.len(); n != 2 {
			t.Errorf("%d requests are registered", n)
		}
		blocked.Store(false)
		close(gate)
		ends.Wait()
		w.checkClean(a)
	})
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
		_, _, err := w.tree.Enter(w.set(account.Account{ID: "other"}, 0), account.LimitedKey{})
		if n := w.tree.Counters().Abandoned.Load(); abi.KindOf(err) != abi.Overloaded || n != 0 {
			t.Errorf("an account that the ledger cannot be asked for: %v, %d waited in vain", err, n)
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
