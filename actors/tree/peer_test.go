package tree

import (
	"context"
	"testing"
	"testing/synctest"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// TestForwardedIsOneOfTheLive: a stream that another node forwarded is shown among the requests, counts among them, and a drain
// waits for it.
func TestForwardedIsOneOfTheLive(t *testing.T) {
	inBubble(t, Config{RequestsMax: 1}, func(t *testing.T, w *world) {
		a := w.set(plain, 1000)
		w.models["one"].mode.Store(stuckInDecode)
		call := func() account.Call {
			c := w.call(a, "one", 10, 5, true)
			c.Peer = account.ClusterPeer()
			return c
		}
		c := call()
		s, _, err := w.tree.Generate(c)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if live := w.tree.Live(); len(live) != 1 || live[0].ID != c.RequestID || live[0].Phase != PhaseDecode {
			t.Errorf("live: %+v", live)
		}
		if _, _, err := w.tree.Generate(call()); abi.KindOf(err) != abi.Overloaded {
			t.Errorf("beyond the most requests: %v", err)
		}
		drained := make(chan error, 1)
		go func() { drained <- w.tree.Drain(context.Background()) }()
		synctest.Wait()
		if len(drained) != 0 {
			t.Error("the drain does not wait for it")
		}
		w.models["one"].mode.Store(running)
		w.read(s)
		if got, err := settled(s); err != nil || got.Charge != 0 || got.Usage.Output != 5 {
			t.Errorf("settled %+v, %v", got, err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}
