package tree

import (
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// TestCancel: a client that goes away frees its permit and its slot in every
// phase, though its writer does nothing, and pays what was computed.
func TestCancel(t *testing.T) {
	for _, c := range []struct {
		name   string
		mode   int32
		charge abi.Nano
	}{
		{"queue", stuckInQueue, 0},
		{"prefill", stuckInPrefill, 2 * 32},
		{"decode", stuckInDecode, 2*100 + 10},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(c.name, func(t *testing.T) {
				inBubble(t, Config{}, func(t *testing.T, w *world) {
					a := w.set(plain, 10_000)
					w.models["one"].mode.Store(c.mode)
					s, _, err := w.tree.Generate(w.call(a, "one", 100, 50, stream))
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
					s.Cancel()
					began := time.Now()
					time.Sleep(20 * time.Millisecond)
					synctest.Wait()
					if st := w.tree.Limits(a, account.LimitedKey{}); st.RequestsRemaining != 2 {
						t.Errorf("permit not free %v after the cancel", time.Since(began))
					}
					if n := w.models["one"].live.Load(); n != 0 {
						t.Errorf("%d jobs in the engine", n)
					}
					if e := w.read(s); e.Kind != abi.EventError || e.Err.Kind != abi.Canceled {
						t.Errorf("ended with %+v", e)
					}
					got, err := w.settle(s)
					if err != nil || got.Charge != c.charge || got.Reason != account.Canceled {
						t.Errorf("settled %+v, %v; want a charge of %d", got, err, c.charge)
					}
					w.models["one"].mode.Store(running)
					w.checkClean(a)
				})
			})
		}
	}
}

// TestAcceptedAfterItsCallerLeft: a job that the model takes when nobody waits for it any more is canceled.
func TestAcceptedAfterItsCallerLeft(t *testing.T) {
	for phase, want := range map[int32]bool{waiting: false, abandoned: true} {
		r := &request{reply: make(chan reply, 1)}
		r.phase.Store(phase)
		r.Accepted(1)
		if r.canceled.Load() != want || r.job.Canceled() != want {
			t.Errorf("phase %d: canceled %t, its job %t", phase, r.canceled.Load(), r.job.Canceled())
		}
	}
}

// TestCancelAfterTheEnd: who gives an answer up after the engine's last token, as a 504
// may, pays it as what is canceled; an answer that was settled before stays finished.
func TestCancelAfterTheEnd(t *testing.T) {
	for _, settled := range []bool{false, true} {
		inBubble(t, Config{}, func(t *testing.T, w *world) {
			a := w.set(plain, 10_000)
			c := w.call(a, "one", 10, 5, false)
			s, _, err := w.tree.Generate(c)
			if err != nil {
				t.Fatal(err)
			}
			w.read(s)
			want := account.Canceled
			if settled {
				s.Settle()
				want = account.Finished
			}
			s.Cancel()
			if got, err := w.settle(s); err != nil || got.Charge != 70 || got.Reason != want {
				t.Errorf("settled %+v, %v; want %s", got, err, want)
			}
			if e, ok := w.store.settlement(c.RequestID); !ok || e.Amount != -70 || e.Reason != want {
				t.Errorf("row %+v, want %s", e, want)
			}
			w.checkClean(a)
		})
	}
}
