package tree

import (
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/actors/ledger"
	"corenode/engine"
	"corenode/extensions"
	"corenode/wasm/abi"
)

// inBubble runs a test on fake time, with a world that is stopped at the end.
func inBubble(t *testing.T, cfg Config, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cfg)
		defer w.tree.Stop()
		f(t, w)
		synctest.Wait() // what is told to an actor that stops is a dead letter, and its library waits a moment for more of them
	})
}

var plain = account.Account{ID: "acct", Concurrency: 2, TokensPerMinute: 100_000}

func TestOneRequest(t *testing.T) {
	for _, stream := range []bool{true, false} {
		inBubble(t, Config{}, func(t *testing.T, w *world) {
			a := w.set(plain, 10_000)
			w.billing.stands.Store(stream)
			c := w.call(a, "one", 100, 7, stream)
			s, st, err := w.tree.Generate(c)
			if err != nil {
				t.Fatal(err)
			}
			if st.RequestsRemaining != 1 || st.TokensRemaining != 100_000-107 {
				t.Errorf("state at admission %+v", st)
			}
			if err := <-s.Held(); err != nil {
				t.Fatal(err)
			}
			if stream { // else its settlement may take the hold's place
				if holds, _ := w.store.AccountHolds(a.ID); len(holds) != 1 || holds[0].ModuleDigest != "fake:1" || !holds[0].Provisional {
					t.Errorf("held %+v, want what charges it after a crash", holds)
				}
			}
			if e := w.read(s); e.Kind != abi.EventEnd {
				t.Fatalf("ended with %+v", e)
			}
			got, err := w.settle(s)
			if err != nil || got.Charge != 270 || got.Reason != account.Finished || got.Usage.Output != 7 {
				t.Errorf("settled %+v, %v", got, err)
			}
			if again, err := settled(s); !reflect.DeepEqual(again, got) || err != nil {
				t.Errorf("settled again %+v, %v", again, err)
			}
			if e, _ := w.store.settlement(c.RequestID); e.Amount != -270 || e.Usage != got.Usage || e.Provisional {
				t.Errorf("row %+v", e)
			}
			w.checkClean(a)
		})
	}
}

func TestParallelOnLimit(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 1_000_000)
		w.models["one"].mode.Store(stuckInDecode)
		var mu sync.Mutex
		var streams []*Stream
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				s, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					streams = append(streams, s)
				} else if e := abi.AsError(err); e.Kind != abi.RateLimited || e.RetryAfter != time.Second {
					t.Errorf("refused with %v", err)
				}
			})
		}
		wg.Wait()
		if len(streams) != 2 {
			t.Errorf("%d admitted, want 2", len(streams))
		}
		w.models["one"].mode.Store(running)
		for _, s := range streams {
			w.read(s)
			_, _ = w.settle(s)
		}
		w.checkClean(a)
	})
}

// TestWriterNeverSettles: the tree settles for it.
func TestWriterNeverSettles(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		c := w.call(a, "one", 10, 5, true)
		s, _, err := w.tree.Generate(c)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if _, ok := w.store.settlement(c.RequestID); ok {
			t.Error("settled before the grace was over")
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if e, ok := w.store.settlement(c.RequestID); !ok || e.Amount != -70 {
			t.Errorf("row %+v", e)
		}
		if n := w.tree.Inspect().SelfSettled; n != 1 {
			t.Errorf("counted %d", n)
		}
		_, _ = w.settle(s)
		w.checkClean(a)
	})
}

// TestSlowLedgerIsNoLostOwner: a stream that its owner settles while the ledger
// fails is not counted as one that nobody settled.
func TestSlowLedgerIsNoLostOwner(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		s, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true))
		if err != nil {
			t.Fatal(err)
		}
		<-s.Held()
		w.read(s)
		w.store.failing.Store(true)
		s.Settle()
		time.Sleep(2 * time.Minute)
		if n := w.tree.Inspect().SelfSettled; n != 0 {
			t.Errorf("counted %d", n)
		}
		w.store.failing.Store(false)
		if got, err := w.settle(s); err != nil || got.Charge != 70 {
			t.Errorf("settled %+v, %v", got, err)
		}
		w.checkClean(a)
	})
}

// TestBilled is the table of what a result costs.
func TestBilled(t *testing.T) {
	full := abi.Usage{InputUncached: 100, CacheRead: 20, Output: 30, Reasoning: 25}
	cut := abi.Usage{InputUncached: 100, CacheRead: 20, Output: 10, Reasoning: 10}
	failed := &abi.Error{Kind: abi.Internal}
	for _, c := range []struct {
		name       string
		err        *abi.Error
		stream     bool
		usage      abi.Usage
		checkpoint abi.Usage
		want       abi.Usage
		reason     account.Reason
	}{
		{"finished", nil, true, full, abi.Usage{}, full, account.Finished},
		{"finished, plain", nil, false, full, abi.Usage{}, full, account.Finished},
		{"canceled in queue", &abi.Error{Kind: abi.Canceled}, true, abi.Usage{}, abi.Usage{}, abi.Usage{}, account.Canceled},
		{"canceled", &abi.Error{Kind: abi.Canceled}, false, full, abi.Usage{}, full, account.Canceled},
		{"504", &abi.Error{Kind: abi.Timeout}, false, full, abi.Usage{}, full, account.Canceled},
		{"drained", errDraining(), true, full, cut, full, account.Canceled},
		{"drained, plain", errDraining(), false, full, abi.Usage{}, abi.Usage{}, account.Failed},
		{"failed, plain", failed, false, full, cut, abi.Usage{}, account.Failed},
		{"failed", failed, true, full, cut, cut, account.Failed},
		{"failed before a checkpoint", failed, true, full, abi.Usage{}, abi.Usage{InputUncached: 100, CacheRead: 20}, account.Failed},
	} {
		r := resultOf(c.usage, c.err)
		if got, reason := billed(r, c.stream, c.checkpoint); got != c.want || reason != c.reason {
			t.Errorf("%s: %+v %s, want %+v %s", c.name, got, reason, c.want, c.reason)
		}
	}
	r := resultOf(full, failed)
	r.Source.Usage = engine.UsageCounted // here, of a server elsewhere: no checkpoint knows it better
	for stream, want := range map[bool]abi.Usage{true: full, false: {}} {
		if got, reason := billed(r, stream, cut); got != want || reason != account.Failed {
			t.Errorf("failed elsewhere, stream %v: %+v %s, want %+v", stream, got, reason, want)
		}
	}
}

// TestLedgerFails: without a durable hold a request is free and says so; a
// settlement waits for the store and is not lost.
func TestLedgerFails(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		if _, err := w.play(w.call(a, "one", 10, 1, true)); err != nil { // wakes the limiter
			t.Fatal(err)
		}
		running, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true))
		if err != nil || <-running.Held() != nil {
			t.Fatal("no hold", err)
		}
		w.store.failing.Store(true)
		s, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-s.Held(); abi.KindOf(err) != abi.Overloaded {
			t.Fatalf("held: %v", err)
		}
		s.Cancel()
		w.read(running)
		settlement := running.Settle()
		time.Sleep(time.Minute)
		select {
		case <-settlement:
			t.Error("settled on a failing store")
		default:
		}
		if st := w.tree.Limits(a, account.LimitedKey{}); st.RequestsRemaining != a.Concurrency {
			t.Errorf("%d permits are free while a settlement waits for the ledger", st.RequestsRemaining)
		}
		w.store.failing.Store(false)
		time.Sleep(10 * time.Second)
		got, err := w.settle(running)
		if err != nil || got.Charge != 70 {
			t.Errorf("after the store is back: %+v, %v", got, err)
		}
		got, err = w.settle(s)
		if err != nil || got.Charge != 0 {
			t.Errorf("without a hold: %+v, %v", got, err)
		}
		w.checkClean(a)
	})
}

// TestFinishedWithoutHold: an answer that is there before its owner hears that
// the hold was refused is not given away: settling it is an error.
func TestFinishedWithoutHold(t *testing.T) {
	for _, refused := range []bool{true, false} { // else the store fails with the row in hand
		var armed atomic.Bool
		hook := func(point string) {
			if point == "ledger.append" && armed.CompareAndSwap(true, false) {
				panic("in " + point)
			}
		}
		inBubble(t, Config{hook: hook}, func(t *testing.T, w *world) {
			a := w.set(plain, 10_000)
			if _, err := w.play(w.call(a, "one", 10, 1, false)); err != nil { // wakes the limiter
				t.Fatal(err)
			}
			armed.Store(refused)
			w.store.failing.Store(!refused)
			s, _, err := w.tree.Generate(w.call(a, "one", 10, 5, false))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			w.store.failing.Store(false)
			if e := w.read(s); e.Kind != abi.EventEnd {
				t.Fatalf("ended with %+v", e)
			}
			if got, err := settled(s); abi.KindOf(err) != abi.Overloaded || got.Charge != 0 {
				t.Errorf("refused %v: settled %+v, %v", refused, got, err)
			}
			time.Sleep(time.Second)
			_, _ = w.settle(s) // notes what it used
			w.checkClean(a)
		})
	}
}

// TestHoldIsKnownBeforeItIsTold: whoever settles because the hold failed does not
// find it on its way.
func TestHoldIsKnownBeforeItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hold{told: make(chan error)} // no room: the ledger is kept at telling
		h.begin()
		go h.committed(ledger.Commit{Err: errGone()})
		synctest.Wait()
		if fate := h.fate(); fate != holdFailed {
			t.Errorf("fate %d", fate)
		}
		<-h.told
	})
}

// TestSettlementRejected: a settlement that the store will never take ends its
// request with an error, uncharged, and holds up nobody else.
func TestSettlementRejected(t *testing.T) {
	cfg := Config{Ledger: ledger.Config{Rejects: func(err error) bool { return errors.Is(err, errRejected) }}}
	inBubble(t, cfg, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		c := w.call(a, "one", 10, 5, true)
		w.store.rejects = c.RequestID
		if got, err := w.play(c); abi.KindOf(err) != abi.Internal || got.Charge != 0 {
			t.Errorf("settled %+v, %v", got, err)
		}
		if n := w.tree.requests.len(); n != 0 {
			t.Errorf("%d requests are still there", n)
		}
		if got, err := w.play(w.call(a, "one", 10, 5, true)); err != nil || got.Charge != 70 {
			t.Errorf("the next one: %+v, %v", got, err)
		}
	})
}

func TestBillingFails(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		w.billing.broken.Store(true)
		c := w.call(a, "one", 10, 5, true)
		got, err := w.play(c)
		e, _ := w.store.settlement(c.RequestID)
		if n := w.tree.counters.Provisional.Load(); err != nil || got.Charge != 70 || !e.Provisional || n != 1 {
			t.Errorf("settled %+v, %v, row %+v", got, err, e)
		}
		w.checkClean(a)
	})
}

// TestBillingFailsBesideAQuota: what a policy's counter of tokens loses is what was used, whoever
// rates the request.
func TestBillingFailsBesideAQuota(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		w.billing.broken.Store(true)
		tokens := abi.Counter{Name: abi.CounterName(true, "quota", "tokens"), Period: "2000-01", Limit: 1000, Amount: 500}
		w.policy.needs = []extensions.Need{{Counter: tokens}}
		w.policy.decision.Store(&abi.Decision{Verdict: abi.Reserve})
		c := w.call(a, "one", 10, 5, true)
		if _, err := w.play(c); err != nil {
			t.Fatal(err)
		}
		e, _ := w.store.settlement(c.RequestID)
		if tokens.Amount = e.Usage.Input() + e.Usage.Output; len(e.Counters) != 1 || e.Counters[0] != tokens || tokens.Amount == 0 {
			t.Errorf("it took %+v, want %+v", e.Counters, tokens)
		}
	})
}

// TestChangeWaitsForItsRead: a request that comes after an operator's change is decided by it, also where the
// ledger reads it late; where it cannot be read, by what was known.
func TestChangeWaitsForItsRead(t *testing.T) {
	for _, failing := range []bool{false, true} {
		inBubble(t, Config{}, func(t *testing.T, w *world) {
			a, other := w.set(plain, 5), w.set(account.Account{ID: "other"}, 10_000)
			if _, err := w.play(w.call(a, "one", 10, 5, true)); abi.KindOf(err) != abi.InsufficientBalance {
				t.Fatalf("without money: %v", err)
			}
			w.store.delay = time.Second // a commit is under way: the read is behind it
			s, _, err := w.tree.Generate(w.call(other, "one", 10, 5, true))
			if err != nil {
				t.Fatal(err)
			}
			w.set(a, 500)
			w.store.failing.Store(failing)
			want := abi.Internal // of no error
			if failing {
				want = abi.InsufficientBalance
			}
			for range 2 { // the second change comes while the first is read
				w.tree.AccountChanged(a.ID)
			}
			first, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true))
			if abi.KindOf(err) != want {
				t.Errorf("with money, failing %t: %v", failing, err)
			}
			w.store.failing.Store(false)
			for _, one := range []*Stream{first, s} {
				if one != nil {
					w.read(one)
					_, _ = w.settle(one)
				}
			}
		})
	}
}

// TestAccountChanged: new limits and money count from the next request on.
func TestAccountChanged(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 5)
		if _, err := w.play(w.call(a, "one", 10, 5, true)); abi.KindOf(err) != abi.InsufficientBalance {
			t.Fatalf("without money: %v", err)
		}
		a.Concurrency = 7
		w.set(a, 500)
		w.tree.AccountChanged(a.ID)
		synctest.Wait()
		if _, err := w.play(w.call(a, "one", 10, 5, true)); err != nil {
			t.Errorf("with money: %v", err)
		}
		if st := w.tree.Limits(a, account.LimitedKey{}); st.RequestsLimit != 7 {
			t.Errorf("state %+v", st)
		}
		w.checkClean(a)
		a.Disabled = true
		w.set(a, 500)
		w.tree.AccountChanged(a.ID)
		synctest.Wait()
		if _, err := w.play(w.call(a, "one", 10, 5, true)); abi.KindOf(err) != abi.Unauthenticated {
			t.Errorf("disabled: %v", err)
		}
	})
}

func TestEnter(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(account.Account{ID: "poor", Concurrency: 1, TokensPerMinute: 60}, 0)
		release, st, err := w.tree.Enter(a, account.LimitedKey{})
		if err != nil || st.RequestsRemaining != 0 || st.TokensRemaining != 60 {
			t.Fatal(st, err)
		}
		if _, _, err := w.tree.Enter(a, account.LimitedKey{}); abi.KindOf(err) != abi.RateLimited {
			t.Errorf("second: %v", err)
		}
		release()
		release()
		w.checkClean(a)
		_, _, _ = w.tree.Enter(a, account.LimitedKey{}) // an owner that never releases
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		w.checkClean(a)
		if n := w.tree.Inspect().Expired; n != 1 {
			t.Errorf("%d expired", n)
		}
		w.set(a, 10_000)
		w.tree.AccountChanged(a.ID)
		synctest.Wait()
		if _, err := w.play(w.call(a, "one", 50, 20, true)); err != nil {
			t.Fatal(err)
		}
		_, _, err = w.tree.Enter(a, account.LimitedKey{})
		if e := abi.AsError(err); err == nil || e.Kind != abi.RateLimited {
			t.Fatalf("on an exhausted bucket: %v", err)
		} else {
			time.Sleep(e.RetryAfter)
		}
		if release, _, err = w.tree.Enter(a, account.LimitedKey{}); err != nil {
			t.Fatalf("after Retry-After: %v", err)
		}
		release()
	})
}

// TestLimiterRetires: an idle account costs nothing and loses nothing.
func TestLimiterRetires(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		if _, err := w.play(w.call(a, "one", 10, 5, true)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := w.tree.Inspect().Limiters; n != 0 {
			t.Errorf("%d limiters", n)
		}
		w.checkClean(a)
	})
}

// TestOverload: what is full refuses, and what was refused holds nothing.
func TestOverload(t *testing.T) {
	inBubble(t, Config{RequestsMax: 5, InboxMax: 3}, func(t *testing.T, w *world) {
		a := w.set(account.Account{ID: "big", Unlimited: true, TokensPerMinute: 1_000_000}, 0)
		w.models["one"].mode.Store(stuckInDecode)
		w.models["one"].queueMax = 4
		var streams []*Stream
		for i := range 8 {
			s, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true))
			if (err == nil) != (i < 4) || err != nil && abi.KindOf(err) != abi.Overloaded {
				t.Errorf("request %d: %v", i, err)
			}
			if s != nil {
				streams = append(streams, s)
			}
		}
		w.models["one"].mode.Store(running)
		for _, s := range streams {
			w.read(s)
			_, _ = w.settle(s)
		}
		synctest.Wait() // the limiter has what the refused ones gave back
		w.checkClean(a)
	})
}

// TestSlowReader: a stream whose reader is behind pauses and goes on by itself
// when the reader has drained it.
func TestSlowReader(t *testing.T) {
	inBubble(t, Config{OutputEventsMax: 4}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		s, _, err := w.tree.Generate(w.call(a, "one", 10, 50, true))
		if err != nil {
			t.Fatal(err)
		}
		for {
			time.Sleep(time.Second)
			events := s.Output().Drain(nil)
			if len(events) == 0 || len(events) > 5 {
				t.Fatalf("%d events waited for a reader that is behind", len(events))
			}
			if events[len(events)-1].Kind == abi.EventEnd {
				break
			}
		}
		if got, err := w.settle(s); err != nil || got.Usage.Output != 50 {
			t.Errorf("settled %+v, %v", got, err)
		}
		w.checkClean(a)
	})
}

// TestAdmissionTimeout: a caller whose model is stuck in a step gives up with 503,
// and what it had reserved is free when the step ends.
func TestAdmissionTimeout(t *testing.T) {
	w := newWorld(t, Config{AdmissionTimeout: 50 * time.Millisecond, SweepEvery: 10 * time.Millisecond})
	defer w.tree.Stop()
	a := w.set(account.Account{ID: "acct", Concurrency: 3, TokensPerMinute: 100_000}, 10_000)
	if err := w.tree.Visit(t.Context(), "one", func(batcher.Stepper) { w.models["one"].gate.Lock() }); err != nil {
		t.Fatal(err)
	}
	first, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true)) // its Submit comes before a step, if that is not stuck yet
	if err != nil && abi.KindOf(err) != abi.Overloaded {
		t.Fatal(err)
	}
	if _, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true)); abi.KindOf(err) != abi.Overloaded {
		t.Errorf("behind a step that does not end: %v", err)
	}
	if st := w.tree.Inspect(); st.Abandoned+st.Expired == 0 { // the sweep may be first on a slow machine
		t.Error("not counted")
	}
	w.models["one"].gate.Unlock()
	if first != nil {
		w.read(first)
		_, _ = w.settle(first)
	}
	for deadline := time.Now().Add(10 * time.Second); w.tree.requests.len() > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	w.checkClean(a)
}

// TestUnknownAndDouble: what never reached the limiter is refused by name.
func TestUnknownAndDouble(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		if _, st, err := w.tree.Generate(w.call(a, "three", 1, 1, true)); abi.KindOf(err) != abi.ModelNotFound || st.RequestsLimit != 2 {
			t.Errorf("unknown model: %v, state %+v", err, st)
		}
		ghost := account.Account{ID: "ghost", Concurrency: 1}
		if _, _, err := w.tree.Generate(w.call(ghost, "one", 1, 1, true)); abi.KindOf(err) != abi.Overloaded {
			t.Errorf("an account that cannot be read: %v", err)
		}
		time.Sleep(5 * time.Second)
		if n := w.tree.Inspect().Limiters; n != 0 {
			t.Errorf("%d limiters are kept for accounts that do not exist", n)
		}
		w.models["one"].mode.Store(stuckInDecode)
		c := w.call(a, "one", 1, 1, true)
		s, _, err := w.tree.Generate(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.tree.Generate(c); abi.KindOf(err) != abi.Internal {
			t.Errorf("an id in use: %v", err)
		}
		w.models["one"].mode.Store(running)
		w.read(s)
		_, _ = w.settle(s)
		w.checkClean(a)
	})
}
