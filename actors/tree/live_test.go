package tree

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// TestLive looks at requests in each phase, and at what they hold.
func TestLive(t *testing.T) {
	for mode, want := range map[int32]string{stuckInQueue: PhaseQueue, stuckInPrefill: PhasePrefill, stuckInDecode: PhaseDecode} {
		inBubble(t, Config{}, func(t *testing.T, w *world) {
			a := w.set(plain, 10_000)
			w.models["one"].mode.Store(mode)
			c := w.call(a, "one", 100, 50, true)
			c.Key.ID, c.Translator = "key_1", "sha256:aa"
			s, _, err := w.tree.Generate(c)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			live := w.tree.Live()
			if len(live) != 1 {
				t.Fatalf("live: %+v", live)
			}
			l := live[0]
			if l.ID != c.RequestID || l.AccountID != a.ID || l.Phase != want || !l.Permit || l.Prompt != 100 ||
				l.OutputMax != 50 || !l.Stream ||
				l.KeyID != "key_1" || l.Translator != "sha256:aa" || l.Billing != "fake:1" || time.Since(l.Began) < time.Second {
				t.Errorf("want %s: %+v", want, l)
			}
			if want == PhasePrefill && l.Progress.Input != 32 || want == PhaseDecode && l.Progress.Output != 1 {
				t.Errorf("%s: %+v", want, l.Progress)
			}
			w.models["one"].mode.Store(running)
			w.read(s)
			if l := w.tree.Live()[0]; l.Phase != PhaseSettlement {
				t.Errorf("after its end: %+v", l)
			}
			_, _ = w.settle(s)
			if live := w.tree.Live(); len(live) != 0 {
				t.Errorf("after its settlement: %+v", live)
			}
			w.checkClean(a)
		})
	}
}

// TestLiveHold: output that must not leave before its hold is durable is said to wait for it.
func TestLiveHold(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		w.models["one"].mode.Store(stuckInDecode)
		w.store.delay = time.Second
		s, _, err := w.tree.Generate(w.call(a, "one", 100, 50, true))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(700 * time.Millisecond)
		synctest.Wait()
		if l := w.tree.Live()[0]; l.Phase != PhaseHold {
			t.Errorf("before the hold is durable: %+v", l)
		}
		if under := w.tree.Ledger().Under; under < time.Second/2 {
			t.Errorf("the commit that runs takes %v", under)
		}
		<-s.Held()
		synctest.Wait()
		if l := w.tree.Live()[0]; l.Phase != PhaseDecode {
			t.Errorf("after it: %+v", l)
		}
		if busy := w.tree.Ledger().Busy; busy < time.Second/2 {
			t.Errorf("commits took %v", busy)
		}
		w.models["one"].mode.Store(running)
		w.read(s)
		_, _ = w.settle(s)
		w.checkClean(a)
	})
}

// TestOperatorCancelsWhatWaits: a request that is not admitted yet ends, too, with an error that says to its client not to
// send it again; nothing of it is left.
func TestOperatorCancelsWhatWaits(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		w.store.delay = time.Second // the account is read behind a commit
		first, _, err := w.tree.Generate(w.call(w.set(account.Account{ID: "other"}, 10_000), "one", 10, 5, true))
		if err != nil {
			t.Fatal(err)
		}
		c := w.call(a, "one", 100, 50, true)
		refused := make(chan error)
		go func() {
			_, _, err := w.tree.Generate(c)
			refused <- err
		}()
		synctest.Wait()
		if !w.tree.CancelRequest(c.RequestID) {
			t.Fatal("it was not cancelled")
		}
		if err := <-refused; !errors.Is(err, account.ErrOperator) || abi.KindOf(err) != abi.Overloaded {
			t.Errorf("refused with %v", err)
		}
		w.read(first)
		_, _ = w.settle(first)
		w.checkClean(a)
	})
}

// TestOperatorCancels: the job ends, its owner is told why, and settles it like any other.
func TestOperatorCancels(t *testing.T) {
	for _, stream := range []bool{true, false} {
		inBubble(t, Config{}, func(t *testing.T, w *world) {
			a := w.set(plain, 10_000)
			w.models["one"].mode.Store(stuckInDecode)
			c := w.call(a, "one", 100, 50, stream)
			s, _, err := w.tree.Generate(c)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if w.tree.CancelRequest("another") || s.Stopped() != nil {
				t.Error("another request was cancelled")
			}
			if !w.tree.CancelRequest(c.RequestID) {
				t.Fatal("it was not cancelled")
			}
			if e := w.read(s); e.Kind != abi.EventError || e.Err.Kind != abi.Canceled || s.Stopped() == nil {
				t.Errorf("ended with %+v, %v", e, s.Stopped())
			}
			time.Sleep(time.Second)
			if _, settled := w.store.settlement(c.RequestID); settled {
				t.Error("it was settled although its owner is there")
			}
			if !stream {
				<-s.Withhold()
			}
			got, err := w.settle(s)
			want := map[bool]account.Reason{true: account.Canceled, false: account.Failed}[stream]
			if err != nil || got.Reason != want || (got.Charge > 0) != stream {
				t.Errorf("stream %v settled %+v, %v", stream, got, err)
			}
			if w.tree.CancelRequest(c.RequestID) {
				t.Error("a request that has ended was cancelled")
			}
			w.models["one"].mode.Store(running)
			w.checkClean(a)
		})
	}
}
