package tree

import (
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/wasm/abi"
)

// TestGateways2_06_ReservationsExpire: a reservation has an owner and an expiry.
// One that nobody reads, settles or cancels is taken back, its row says what
// was computed, and a late settlement of it changes nothing.
func TestGateways2_06_ReservationsExpire(t *testing.T) {
	inBubble(t, Config{RequestExpiry: time.Minute, SettleGrace: time.Second}, func(t *testing.T, w *world) {
		a := w.set(plain, 10_000)
		w.models["one"].mode.Store(stuckInDecode)
		s, _, err := w.tree.Generate(w.call(a, "one", 100, 50, true))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if st := w.tree.Limits(a, account.LimitedKey{}); st.RequestsRemaining != 1 {
			t.Errorf("before its expiry %d permits are free", st.RequestsRemaining)
		}
		time.Sleep(time.Minute)
		e, ok := w.store.settlement(s.r.call.RequestID)
		if !ok || e.Amount != -(2*100+10) || e.Reason != account.Canceled {
			t.Errorf("its row (%t): %+v", ok, e)
		}
		for range 2 { // the owner turns up after all
			if got, err := w.settle(s); err != nil || got.Charge != 210 {
				t.Errorf("settled late: %+v, %v", got, err)
			}
		}
		w.mu.Lock()
		w.used[a.ID] /= 2 // settle counted it twice, the tree must not
		w.mu.Unlock()
		w.models["one"].mode.Store(running)
		w.checkClean(a)
	})
}

// TestGateways2_09_BrokenStreamPaysItsCheckpoint: a stream that the engine broke
// pays its input and what the last checkpoint saw delivered, an answer that was
// to come in one piece pays nothing, and asking again is a charge of its own.
func TestGateways2_09_BrokenStreamPaysItsCheckpoint(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 100_000)
		for _, c := range []struct {
			stream bool
			charge abi.Nano
		}{{true, 2*100 + 10}, {false, 0}} {
			w.models["one"].mode.Store(stuckInDecode)
			s, _, err := w.tree.Generate(w.call(a, "one", 100, 50, c.stream))
			if err != nil {
				t.Fatal(err)
			}
			s.Shown()
			time.Sleep(3 * time.Second) // checkpoints: one token
			for _, m := range w.tree.units {
				_ = m.ref.Tell(batcher.Abort{Err: &abi.Error{Kind: abi.Internal, Msg: "a very long error text that nobody pays for"}})
			}
			if e := w.read(s); e.Kind != abi.EventError || e.Err.Kind != abi.Internal {
				t.Errorf("ended with %+v", e)
			}
			if got, err := w.settle(s); err != nil || got.Charge != c.charge || got.Reason != account.Failed {
				t.Errorf("stream %t: settled %+v, %v, want a charge of %d", c.stream, got, err, c.charge)
			}
			w.models["one"].mode.Store(running)
			if got, err := w.play(w.call(a, "one", 100, 50, c.stream)); err != nil || got.Charge != 2*100+10*50 {
				t.Errorf("asked again: %+v, %v", got, err)
			}
		}
		w.mu.Lock()
		total := w.used[a.ID]
		w.mu.Unlock()
		if total == 0 {
			t.Error("no tokens were counted")
		}
		if balance, _, _ := w.store.Balance(a.ID); balance != 100_000-210-2*700 {
			t.Errorf("the balance is %d", balance)
		}
		w.checkClean(a)
	})
}

// TestUnwrittenAnswerIsFree: a finished answer that came in one piece and could
// not be written costs nothing, although its tokens count against the limits.
func TestUnwrittenAnswerIsFree(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 100_000)
		s, _, err := w.tree.Generate(w.call(a, "one", 100, 50, false))
		if err != nil {
			t.Fatal(err)
		}
		if e := w.read(s); e.Kind != abi.EventEnd {
			t.Fatalf("ended with %+v", e)
		}
		<-s.Withhold()
		s.Cancel()
		if got, err := w.settle(s); err != nil || got.Charge != 0 || got.Usage != (abi.Usage{}) || got.Reason != account.Failed {
			t.Errorf("settled %+v, %v, want nothing charged", got, err)
		}
		if e, ok := w.store.settlement(s.r.call.RequestID); !ok || e.Amount != 0 || e.Reason != account.Failed {
			t.Errorf("its row (%t): %+v", ok, e)
		}
		w.checkClean(a)
	})
}
