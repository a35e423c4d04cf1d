package tree

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"corenode/actors/batcher"
	"corenode/actors/ledger"
	"corenode/actors/ledger/ledgertest"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// stormRequests is how many requests TestStormOnAnOutage runs:
// CORENODE_STORM_REQUESTS, or fewer, so that the usual run of all tests stays short.
func stormRequests(t *testing.T) int {
	if text := os.Getenv("CORENODE_STORM_REQUESTS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal("CORENODE_STORM_REQUESTS: ", err)
		}
		return n
	}
	return 1500
}

const spillRowsMax = 400

// TestStormOnAnOutage runs requests with random cancels while every actor is
// killed, both models fail all their streams, panic once, answers are withheld, and
// the store stalls, goes and comes back with a spill journal behind it. Billing asks
// for no minimum. No permit, token, hold or quote is left over, no row counts twice,
// every account has what its rows say, every charge that was told is exact and what
// was withheld is free.
func TestStormOnAnOutage(t *testing.T) {
	requests := stormRequests(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d requests, seed %d", requests, seed)
	rnd := rand.New(rand.NewPCG(seed, 5))
	spill := &ledgertest.Spill{RoomFor: spillRowsMax}
	w := newWorld(t, Config{Ledger: ledger.Config{Spill: spill, RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond,
		SlowAfter: 10 * time.Millisecond, Rejects: func(err error) bool { return errors.Is(err, errRejected) }}})
	defer w.tree.Stop()
	w.store.repeats = true // after a stall
	w.billing.promo.Store(true)
	for _, m := range w.models {
		m.stepTime = 100 * time.Microsecond
	}
	accounts := w.someAccounts()
	quit := make(chan struct{})
	var storm sync.WaitGroup
	storm.Go(func() { w.chaos(rand.New(rand.NewPCG(seed, 6)), quit) })
	storm.Go(func() { w.weather(rand.New(rand.NewPCG(seed, 7)), quit) })
	const clients = 25
	ends := w.load(accounts, clients, requests/clients, 2*time.Millisecond, rnd)
	close(quit)
	storm.Wait()
	w.store.failing.Store(false)
	t.Logf("clients saw %v; failures %v; at most %d rows spilled", ends, w.tree.Inspect().Failures, spill.Peak)
	if w.fatal.Load() != 0 {
		t.Fatal("the node gave up")
	}
	if ends["end"] == 0 || ends["error internal"] == 0 || spill.Peak == 0 {
		t.Errorf("nothing succeeded, failed in the engine or was spilled: %v, %d", ends, spill.Peak)
	}
	deadline := time.Now().Add(30 * time.Second)
	for (w.tree.requests.len() > 0 || w.tree.Ledger().Spilled > 0) && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if n := w.tree.Ledger().Spilled; n != 0 {
		t.Errorf("%d rows are still in the spill journal", n)
	}
	w.quiet()
	w.billing.promo.Store(false) // the probes of what is available have one
	for _, a := range accounts {
		w.tree.AccountChanged(a.ID) // a limiter whose read failed knows an old balance
		w.calm(a)
		w.checkClean(a)
	}
	w.checkTold()
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	t.Logf("%d settlements, %d refunds", len(w.store.settled), len(w.store.refunded))
	if len(w.store.refunded) == 0 || ends["withheld"] == 0 {
		t.Error("nothing was withheld or refunded: the test proves little")
	}
}

// weather fails streams and takes the store away for longer than chaos does.
func (w *world) weather(rnd *rand.Rand, quit chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-time.After(time.Duration(10+rnd.IntN(30)) * time.Millisecond):
		}
		switch rnd.IntN(4) {
		case 0:
			m := w.tree.units[rnd.IntN(len(w.tree.units))]
			_ = m.ref.Tell(batcher.Abort{Err: &abi.Error{Kind: abi.Internal, Msg: "the device failed"}})
		case 1:
			w.store.failing.Store(true)
			time.Sleep(time.Duration(5+rnd.IntN(40)) * time.Millisecond)
			w.store.failing.Store(false)
		case 2:
			w.store.gate.Lock()
			time.Sleep(time.Duration(5+rnd.IntN(60)) * time.Millisecond)
			w.store.gate.Unlock()
		case 3:
			for _, r := range w.victims([]string{limiterActor, sessionActor}[rnd.IntN(2)]) {
				_ = r.Tell(system.Kill{Reason: "weather"})
			}
		}
	}
}
