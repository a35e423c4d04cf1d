package tree

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// TestDrain: live streams finish if they can and end with an error event if not.
func TestDrain(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		inBubble(t, Config{}, func(t *testing.T, w *world) {
			a := w.set(plain, 10_000)
			w.models["one"].mode.Store(stuckInDecode)
			s, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true))
			if err != nil {
				t.Fatal(err)
			}
			last := make(chan abi.Event, 1)
			go func() {
				last <- w.read(s)
				_, _ = w.settle(s)
			}()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			drained := make(chan error, 1)
			go func() { drained <- w.tree.Drain(ctx) }()
			synctest.Wait()
			if _, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true)); abi.KindOf(err) != abi.Overloaded {
				t.Errorf("new work while draining: %v", err)
			}
			want := abi.EventEnd
			if stuck {
				want = abi.EventError
			} else {
				w.models["one"].mode.Store(running)
			}
			if e := <-last; e.Kind != want || stuck && e.Err.Kind != abi.Overloaded {
				t.Errorf("stuck %v: ended with %+v", stuck, e)
			}
			if err := <-drained; err != nil {
				t.Errorf("stuck %v: %v", stuck, err)
			}
		})
	}
}

// TestDrainIsBilledEqually: at the deadline the tree and the writer end a request
// both. Whoever is first, a stream pays what was produced, also after its last
// checkpoint, and an answer that was to come in one piece is free.
func TestDrainIsBilledEqually(t *testing.T) {
	for _, c := range []struct {
		stream, writer bool
		charge         abi.Nano
		reason         account.Reason
	}{
		{true, false, 2*100 + 10, account.Canceled},
		{true, true, 2*100 + 10, account.Canceled},
		{false, false, 0, account.Failed},
		{false, true, 0, account.Failed},
	} {
		inBubble(t, Config{}, func(t *testing.T, w *world) {
			a := w.set(plain, 10_000)
			w.models["one"].mode.Store(stuckInDecode)
			s, _, err := w.tree.Generate(w.call(a, "one", 100, 50, c.stream))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // one token is there, and no checkpoint yet
			if c.writer {
				if !c.stream {
					s.Withhold()
				}
				s.Cancel()
				<-s.r.done
			}
			deadline, cancel := context.WithCancel(t.Context())
			cancel()
			drained := make(chan error, 1)
			go func() { drained <- w.tree.Drain(deadline) }()
			w.read(s)
			if got, err := w.settle(s); err != nil || got.Charge != c.charge || got.Reason != c.reason {
				t.Errorf("stream %t, the writer first %t: %+v, %v, want %d as %s", c.stream, c.writer, got, err, c.charge, c.reason)
			}
			if err := <-drained; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStopWithLiveStreams: even without a drain every stream ends and is settled.
func TestStopWithLiveStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		a := w.set(plain, 10_000)
		w.models["one"].mode.Store(stuckInDecode)
		c := w.call(a, "one", 10, 5, true)
		s, _, err := w.tree.Generate(c)
		if err != nil {
			t.Fatal(err)
		}
		w.tree.Stop()
		if e := w.read(s); e.Kind != abi.EventError {
			t.Errorf("ended with %+v", e)
		}
		if _, ok := w.store.settlement(c.RequestID); !ok {
			t.Error("not settled")
		}
		if _, _, err := w.tree.Generate(w.call(a, "one", 1, 1, true)); abi.KindOf(err) != abi.Overloaded {
			t.Errorf("after the stop: %v", err)
		}
	})
}

func TestStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeModel()
		m.broken.Store(true)
		w := &world{store: newFakeStore(), billing: &fakeBilling{}}
		_, err := Start(required(Config{}), Deps{Store: w.store, Accounts: w, Billing: w.billing,
			Models: []Model{{ID: "one", New: m.New}}})
		if err == nil {
			t.Fatal("a model without memory started")
		}
		if _, err := Start(Config{}, Deps{}); err == nil {
			t.Fatal("a bad config was taken")
		}
	})
}
