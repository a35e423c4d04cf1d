package tree

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/actors/ledger"
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

// fakeSpill is a spill journal in memory.
type fakeSpill struct {
	mu   sync.Mutex
	rows []account.Entry
	most int
	// given is where Batches goes on.
	given int
}

const spillRowsMax = 400

func (s *fakeSpill) Append(entries []account.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rows)+len(entries) > spillRowsMax {
		return errors.New("no room")
	}
	s.rows = append(s.rows, entries...)
	s.most = max(s.most, len(s.rows))
	return nil
}

func (s *fakeSpill) Batches(n int, put func([]account.Entry) (int, error)) error {
	s.mu.Lock()
	rows := slices.Clone(s.rows)
	s.mu.Unlock()
	for s.given < len(rows) {
		taken, err := put(rows[s.given:min(s.given+n, len(rows))])
		if s.given += taken; err != nil {
			return err
		}
	}
	return nil
}

func (s *fakeSpill) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows, s.given = nil, 0
	return nil
}

func (s *fakeSpill) Rows() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

func (s *fakeSpill) Room() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(spillRowsMax-len(s.rows)) * 2048
}

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
	spill := &fakeSpill{}
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
	ends := w.retryingLoad(accounts, clients, requests/clients, rnd)
	close(quit)
	storm.Wait()
	w.store.failing.Store(false)
	t.Logf("clients saw %v; failures %v; at most %d rows spilled", ends, w.tree.Inspect().Failures, spill.most)
	if w.fatal.Load() != 0 {
		t.Fatal("the node gave up")
	}
	if ends["end"] == 0 || ends["error internal"] == 0 || spill.most == 0 {
		t.Errorf("nothing succeeded, failed in the engine or was spilled: %v, %d", ends, spill.most)
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

// retryingLoad is load with clients that wait a moment when the node has no room
// for them: else an outage of some milliseconds would use them all up.
func (w *world) retryingLoad(accounts []account.Account, clients, requests int, rnd *rand.Rand) map[string]int {
	var mu sync.Mutex
	ends := map[string]int{}
	var wg sync.WaitGroup
	for i := range clients {
		mine := rand.New(rand.NewPCG(rnd.Uint64(), uint64(i)))
		wg.Go(func() {
			for range requests {
				end := w.playRandom(accounts[mine.IntN(len(accounts))], mine)
				if strings.HasSuffix(end, "overloaded") {
					time.Sleep(2 * time.Millisecond)
				}
				mu.Lock()
				ends[end]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return ends
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
