package tree

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/actors/limit"
	"corenode/actors/limiter"
	"corenode/wasm/abi"
)

// TestWithheldAnswerIsFree: whoever gets an error instead of an answer pays
// nothing, wherever its settlement is: not yet sent, waiting in the ledger, in
// request, or durable; then a refund follows. Its money is available again at once.
func TestWithheldAnswerIsFree(t *testing.T) {
	for _, c := range []struct {
		name    string
		when    time.Duration // after Settle; below zero: before it
		refunds int
	}{{"before", -1, 0}, {"waiting", 0, 0}, {"in request", 1500 * time.Millisecond, 1}, {"durable", time.Minute, 1}} {
		for _, stream := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				inBubble(t, Config{}, func(t *testing.T, w *world) {
					a := w.set(plain, 100_000)
					if _, err := w.play(w.call(a, "one", 10, 1, true)); err != nil { // wakes the limiter
						t.Fatal(err)
					}
					s, _, err := w.tree.Generate(w.call(a, "one", 100, 50, stream))
					if err != nil || <-s.Held() != nil {
						t.Fatal("no hold", err)
					}
					w.read(s)
					w.store.delay = time.Second
					_, _, err = w.tree.Generate(w.call(a, "one", 10, 5, true)) // its hold is in request
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if c.when >= 0 {
						s.Settle()
						time.Sleep(c.when)
					}
					free := s.Withhold()
					s.Cancel()
					s.Settle()
					if c.refunds == 0 { // nothing has to be durable
						synctest.Wait()
						select {
						case <-free:
						default:
							t.Error("it is not free at once")
						}
					}
					<-free
					if again := s.Withhold(); again != free {
						t.Error("withheld twice")
					}
					got, err := w.settle(s)
					if err != nil || got.Charge != 0 || got.Usage != (abi.Usage{}) || got.Reason != account.Failed {
						t.Errorf("settled %+v, %v, want nothing charged", got, err)
					}
					w.store.mu.Lock()
					if n := len(w.store.refunded); n != c.refunds {
						t.Errorf("%d refunds, want %d", n, c.refunds)
					}
					w.store.mu.Unlock()
					time.Sleep(time.Minute) // the other one is settled by the tree
					if balance, _, _ := w.store.Balance(a.ID); balance != 100_000-30-70 {
						t.Errorf("the balance is %d", balance)
					}
					w.mu.Lock()
					w.used[a.ID] += 15
					w.mu.Unlock()
					w.checkClean(a)
				})
			})
		}
	}
}

// TestRefundIsAvailableAtOnce: what a withheld answer was charged, and took of a counter, serves the account's next request, and
// the key's budget, without another read of the ledger. Its row says that it is a refund.
func TestRefundIsAvailableAtOnce(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 1000)
		w.store.budgets = map[string]abi.Nano{"tight": 1000}
		w.billing.free.Store(1) // a token, which the first request takes
		call := func(prompt, output int) account.Call {
			c := w.call(a, "one", prompt, output, false)
			c.Key = account.LimitedKey{ID: "tight", Budget: 1000}
			return c
		}
		s, _, err := w.tree.Generate(call(100, 50))
		if err != nil || <-s.Held() != nil {
			t.Fatal("no hold", err)
		}
		w.read(s)
		if got, err := w.settle(s); err != nil || got.Charge != 690 {
			t.Fatalf("settled %+v, %v", got, err)
		}
		if _, err := w.play(call(300, 1)); abi.KindOf(err) != abi.InsufficientBalance {
			t.Fatalf("with 310 left: %v", err)
		}
		<-s.Withhold()
		synctest.Wait()
		if got, err := w.play(call(1, 0)); err != nil || got.Charge != 0 {
			t.Errorf("the free token after the refund: %+v, %v", got, err)
		}
		if _, err := w.play(call(300, 1)); err != nil {
			t.Errorf("after the refund: %v", err)
		}
	})
}

// TestRefundIsAskedAgain: a refund whose fate the ledger does not know is asked for again. The answer is free when it is durable,
// and not before.
func TestRefundIsAskedAgain(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 1000)
		s, _, err := w.tree.Generate(w.call(a, "one", 10, 5, false))
		if err != nil {
			t.Fatal(err)
		}
		w.read(s)
		if got, err := settled(s); err != nil || got.Charge != 70 {
			t.Fatalf("settled %+v, %v", got, err)
		}
		w.store.delay = time.Second
		free := make(chan struct{})
		s.r.bill.withheld = free
		s.r.refunded(ledger.Commit{Err: errGone()})
		synctest.Wait()
		select {
		case <-free:
			t.Error("it is free before its refund is durable")
		default:
		}
		<-free
		if balance, _, _ := w.store.Balance(a.ID); balance != 1000 || len(w.store.refunded) != 1 {
			t.Errorf("the balance is %d after %d refunds", balance, len(w.store.refunded))
		}
	})
}

// TestWithheldAfterARejection: a settlement that the store rejects charges
// nothing, so withholding its answer needs no refund.
func TestWithheldAfterARejection(t *testing.T) {
	rejects := Config{Ledger: ledger.Config{Rejects: func(err error) bool { return errors.Is(err, errRejected) }}}
	inBubble(t, rejects, func(t *testing.T, w *world) {
		a := w.set(plain, 100_000)
		c := w.call(a, "one", 100, 50, false)
		w.store.rejects = c.RequestID
		s, _, err := w.tree.Generate(c)
		if err != nil {
			t.Fatal(err)
		}
		w.read(s)
		<-s.Settle()
		if got, err := s.Outcome(); abi.KindOf(err) != abi.Internal || got.Charge != 0 {
			t.Errorf("settled %+v, %v", got, err)
		}
		<-s.Withhold()
	})
}

// TestRefundFindsRoomAmongLimiters: what an admitted request gives back reaches a limiter of its account at once, also when that
// has retired and there are as many others as there may be. A new account is refused then.
func TestRefundFindsRoomAmongLimiters(t *testing.T) {
	inBubble(t, Config{LimitersMax: 1}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		other, third := w.set(account.Account{ID: "other"}, 0), w.set(account.Account{ID: "third"}, 0)
		release, _, err := w.tree.Enter(other, account.LimitedKey{})
		if err != nil {
			t.Fatal(err)
		}
		var lost, seen atomic.Int64
		w.tree.limiterOf(a.ID)(limiter.Back{Settles: true, Settle: limit.Settle{RequestID: "gone"}, Seen: func() { seen.Add(1) },
			Again: func(limiter.Message) { lost.Add(1) }})
		synctest.Wait()
		if lost.Load() != 0 || seen.Load() != 1 {
			t.Errorf("it was lost %d times and seen %d times", lost.Load(), seen.Load())
		}
		if _, _, err := w.tree.Enter(third, account.LimitedKey{}); abi.KindOf(err) != abi.Overloaded {
			t.Errorf("one more account: %v", err)
		}
		release()
	})
}

// TestNoCheckpointBeforeContent: a stream is free until its first content byte, also when the process
// dies: what a crash pays is not written down before, nor is what is held back until a call is complete,
// or what the engine gave and its owner did not pass on, as hidden thinking.
func TestNoCheckpointBeforeContent(t *testing.T) {
	for mode, charge := range map[int32]abi.Nano{stuckInPrefill: 2 * 32, stuckInCall: 2*100 + 10, stuckInDecode: 2*100 + 10} {
		inBubble(t, Config{}, func(t *testing.T, w *world) {
			a := w.set(plain, 100_000)
			w.models["one"].mode.Store(mode)
			c := w.call(a, "one", 100, 50, true)
			s, _, err := w.tree.Generate(c)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			w.store.mu.Lock()
			if u, ok := w.store.observed[c.RequestID]; ok {
				t.Errorf("mode %d: a checkpoint of %+v", mode, u)
			}
			w.store.mu.Unlock()
			s.Cancel()
			w.read(s)
			if got, err := w.settle(s); err != nil || got.Charge != charge { // its client left: it pays what was computed
				t.Errorf("mode %d: settled %+v, %v", mode, got, err)
			}
			w.checkClean(a)
		})
	}
}
