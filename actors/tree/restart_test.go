package tree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/session"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// victims returns the live actors of a kind.
func (w *world) victims(kind string) []*system.Ref {
	t := w.tree
	var refs []*system.Ref
	switch kind {
	case nodeActor:
		return []*system.Ref{t.node}
	case limitsActor:
		return t.branches[:1]
	case sessionsActor:
		return t.branches[1:2]
	case modelsActor:
		return t.branches[2:3]
	case ledgerActor:
		return []*system.Ref{t.ledger}
	case batcherActor:
		for _, m := range t.units {
			refs = append(refs, m.ref)
		}
	case limiterActor:
		w.mu.Lock()
		defer w.mu.Unlock()
		for id := range w.accounts {
			if r := t.limits.Live(id); r != nil {
				refs = append(refs, r)
			}
		}
	case sessionActor:
		var keys []session.Key
		t.sessions.Each(100, func(k session.Key, _ int, _ *session.Cell) { keys = append(keys, k) })
		for _, k := range keys {
			if r := t.sessions.Live(k); r != nil {
				refs = append(refs, r)
			}
		}
	}
	return refs
}

// load runs clients that each play requests one after the other, and returns how
// they ended. The clients are good: they read and settle what they are given, and
// pause when the node has no room for them: else an outage would use them all up.
func (w *world) load(accounts []account.Account, clients, requests int, pause time.Duration, rnd *rand.Rand) map[string]int {
	var mu sync.Mutex
	ends := map[string]int{}
	var wg sync.WaitGroup
	for i := range clients {
		mine := rand.New(rand.NewPCG(rnd.Uint64(), uint64(i)))
		wg.Go(func() {
			for range requests {
				end := w.playRandom(accounts[mine.IntN(len(accounts))], mine)
				if strings.HasSuffix(end, "overloaded") {
					time.Sleep(pause)
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

// playRandom runs one request that may be canceled at a random time, and names its end.
func (w *world) playRandom(a account.Account, rnd *rand.Rand) string {
	if rnd.IntN(10) == 0 {
		release, _, err := w.tree.Enter(a, account.LimitedKey{})
		if err != nil {
			return "free " + abi.KindOf(err).String()
		}
		time.Sleep(time.Duration(rnd.IntN(2)) * time.Millisecond)
		release()
		return "free"
	}
	model := []string{"one", "two"}[rnd.IntN(2)]
	c := w.call(a, model, rnd.IntN(100), 1+rnd.IntN(20), rnd.IntN(2) == 0)
	c.SessionID = fmt.Sprint(rnd.IntN(5))
	s, _, err := w.tree.Generate(c)
	if err != nil {
		return "refused " + abi.KindOf(err).String()
	}
	cancels := rnd.IntN(4) == 0
	if cancels {
		time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Microsecond, s.Cancel)
	}
	if err := <-s.Held(); err != nil {
		cancels = true
		s.Cancel()
	}
	e := w.read(s)
	if rnd.IntN(5) == 0 {
		return w.withholdRandom(s, rnd)
	}
	got, err := w.settle(s)
	if err != nil {
		w.t.Errorf("settle: %v", err)
	}
	if e.Kind == abi.EventEnd && got.Reason != account.Finished && !(cancels && got.Reason == account.Canceled) {
		w.t.Errorf("ended well but settled as %s, cancels: %t", got.Reason, cancels)
	}
	if e.Kind == abi.EventError {
		return "error " + e.Err.Kind.String()
	}
	return "end"
}

// withholdRandom takes the answer of a request back, before it is settled, at once
// or some time after that.
func (w *world) withholdRandom(s *Stream, rnd *rand.Rand) string {
	if rnd.IntN(3) > 0 {
		s.Settle()
		time.Sleep(time.Duration(rnd.IntN(2)*rnd.IntN(8000)) * time.Microsecond)
	}
	<-s.Withhold()
	if got, err := w.settle(s); err != nil || got.Charge != 0 || got.Usage != (abi.Usage{}) || got.Reason != account.Failed {
		w.t.Errorf("withheld, and settled %+v, %v", got, err)
	}
	return "withheld"
}

// TestKillUnderLoad kills each kind of actor while clients run, within what its
// policy takes, and checks what they saw and that nothing leaked.
func TestKillUnderLoad(t *testing.T) {
	// allowed is what clients may see beside success, cancellation and the limits of their account.
	for _, c := range []struct {
		kind    string
		kills   int
		every   time.Duration
		allowed []string
	}{
		{nodeActor, 2, 5 * time.Millisecond, nil},
		{limitsActor, 2, 5 * time.Millisecond, nil},
		{sessionsActor, 2, 5 * time.Millisecond, nil},
		{modelsActor, 2, 5 * time.Millisecond, nil},
		{limiterActor, 5, 4 * time.Millisecond, nil},
		{limiterActor, 40, time.Millisecond, []string{"refused overloaded", "free overloaded"}}, // more than its policy takes: it is stopped and made again
		{sessionActor, 4, 4 * time.Millisecond, nil},
		{sessionActor, 40, time.Millisecond, []string{"refused overloaded"}},
		{batcherActor, 2, 5 * time.Millisecond, nil},
		{ledgerActor, 8, 3 * time.Millisecond, nil},
	} {
		t.Run(fmt.Sprintf("%s %d", c.kind, c.kills), func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, w *world) {
				accounts := w.someAccounts()
				var killer sync.WaitGroup
				killer.Go(func() {
					for range c.kills {
						time.Sleep(c.every)
						for _, r := range w.victims(c.kind) {
							_ = r.Tell(system.Kill{Reason: c.kind})
						}
					}
				})
				for _, m := range w.models {
					m.slots, m.stepTime = 4, 100*time.Microsecond
				}
				w.store.delay = time.Millisecond // gives the load a duration in fake time
				ends := w.load(accounts, 12, 40, 0, rand.New(rand.NewPCG(7, 7)))
				killer.Wait()
				t.Logf("clients saw %v; failures %v", ends, w.tree.Inspect().Failures)
				for end := range ends {
					if !w.expected(end, c.allowed) {
						t.Errorf("clients saw %d times %q", ends[end], end)
					}
				}
				if w.tree.Counters().Failures(c.kind) == 0 {
					t.Error("nobody was killed: the test proves nothing")
				}
				if ends["end"] == 0 {
					t.Error("nothing succeeded")
				}
				if w.fatal.Load() != 0 {
					t.Error("the node gave up")
				}
				time.Sleep(time.Second)
				for _, a := range accounts {
					w.checkClean(a)
				}
				synctest.Wait()
				w.checkPins()
			})
		})
	}
}

// someAccounts makes accounts that are limited in different ways.
func (w *world) someAccounts() []account.Account {
	return []account.Account{
		w.set(account.Account{ID: "few", Concurrency: 2, TokensPerMinute: 50_000_000}, 100_000_000),
		w.set(account.Account{ID: "poor", Concurrency: 50}, 20_000),
		w.set(account.Account{ID: "rich", Concurrency: 50, TokensPerMinute: 80_000_000}, 100_000_000),
		w.set(account.Account{ID: "house", Concurrency: 50, Unlimited: true, TokensPerMinute: 100_000}, 0),
	}
}

func (w *world) expected(end string, allowed []string) bool {
	switch end {
	case "end", "withheld", "free", "error canceled", "refused rate_limited", "refused insufficient_balance", "free rate_limited":
		return true
	}
	return slices.Contains(allowed, end)
}

// checkPins: every pin of an engine is held by a session, and none was released twice.
func (w *world) checkPins() {
	w.t.Helper()
	pins := 0
	for name, m := range w.models {
		pins += m.pinned()
		m.mu.Lock()
		if m.doubles != 0 {
			w.t.Errorf("model %s: %d pins released twice", name, m.doubles)
		}
		m.mu.Unlock()
	}
	if s := w.tree.Inspect(); pins != s.Pins {
		w.t.Errorf("%d pins in the engines, %d held by sessions", pins, s.Pins)
	}
}

// TestPanicInHandler makes each handler panic with a message in hand: the request
// in it gets an answer, the next one is served, nothing leaks.
func TestPanicInHandler(t *testing.T) {
	for _, c := range []struct {
		point  string
		answer abi.Kind // of the request in hand
		passes bool     // the client sees nothing
	}{
		{point: "limiter.reserved", answer: abi.Internal},
		{point: "session.turn", answer: abi.Overloaded},
		{point: "batcher.enqueue", answer: abi.Overloaded},
		{point: "ledger.append", answer: abi.Overloaded},
		{point: "limiter.leave", passes: true},
		{point: "limiter.settle", passes: true},
	} {
		t.Run(c.point, func(t *testing.T) {
			var armed atomic.Bool
			hook := func(point string) {
				if point == c.point && armed.CompareAndSwap(true, false) {
					panic("in " + point)
				}
			}
			inBubble(t, Config{hook: hook}, func(t *testing.T, w *world) {
				a := w.set(plain, 10_000)
				if _, err := w.play(w.call(a, "one", 10, 5, true)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				armed.Store(true)
				s, _, err := w.tree.Generate(w.call(a, "one", 10, 5, true))
				if err == nil {
					if err = <-s.Held(); err != nil {
						s.Cancel()
					}
					w.read(s)
					if _, err := w.settle(s); err != nil {
						t.Error(err)
					}
				}
				if (err == nil) != c.passes || err != nil && abi.KindOf(err) != c.answer {
					t.Errorf("the request in hand got %v", err)
				}
				time.Sleep(time.Second)
				if armed.Load() {
					t.Error("the point was never reached")
				}
				if _, err := w.play(w.call(a, "one", 10, 5, true)); err != nil {
					t.Errorf("the next request got %v", err)
				}
				w.checkClean(a)
				synctest.Wait()
				w.checkPins()
			})
		})
	}
}

// TestStepPanics: a fault in a forward pass ends every stream of the model with
// one error event, the other model does not notice, the model comes back, and
// the third fault in five minutes takes it down for good.
func TestStepPanics(t *testing.T) {
	noCheckpoints := Config{SweepEvery: time.Hour}
	inBubble(t, noCheckpoints, func(t *testing.T, w *world) {
		a := w.set(account.Account{ID: "acct", Concurrency: 50, TokensPerMinute: 1_000_000}, 1_000_000)
		one := w.models["one"]
		if _, err := w.play(w.call(a, "one", 10, 5, true)); err != nil { // leaves a pin
			t.Fatal(err)
		}
		for fault := 1; fault <= 3; fault++ {
			one.mode.Store(stuckInDecode)
			w.models["two"].mode.Store(stuckInDecode)
			var streams []*Stream
			for i := range 10 {
				s, _, err := w.tree.Generate(w.call(a, []string{"one", "two"}[i%2], 10, 5, i%3 == 0))
				if err != nil {
					t.Fatalf("fault %d, request %d: %v", fault, i, err)
				}
				streams = append(streams, s)
			}
			time.Sleep(10 * time.Millisecond)
			one.panics.Store(true)
			one.mode.Store(running)
			time.Sleep(10 * time.Millisecond)
			w.models["two"].mode.Store(running)
			for i, s := range streams {
				e := w.read(s)
				if want := []abi.EventKind{abi.EventError, abi.EventEnd}[i%2]; e.Kind != want {
					t.Errorf("fault %d, stream %d ended with %+v", fault, i, e)
				} else if e.Err != nil && strings.Contains(e.Err.Msg, "kernel fault") {
					t.Errorf("clients are told of our insides: %q", e.Err.Msg)
				}
				got, err := settled(s)
				want := abi.Nano(0) // without a checkpoint a stream pays its input only
				if i%3 == 0 {
					want = 2 * 10
				}
				if err != nil || i%2 == 0 && (got.Reason != account.Failed || got.Charge != want) {
					t.Errorf("fault %d, stream %d settled %+v, %v", fault, i, got, err)
				}
			}
			if fault < 3 { // waits for the restart
				if _, err := w.play(w.call(a, "one", 10, 5, true)); err != nil {
					t.Errorf("after fault %d: %v", fault, err)
				}
			}
		}
		time.Sleep(time.Minute)
		_, err := w.play(w.call(a, "one", 10, 5, true))
		if e := abi.AsError(err); err == nil || e.Kind != abi.Overloaded || e.RetryAfter == 0 {
			t.Errorf("a model that is down answered %v", err)
		}
		if _, err := w.play(w.call(a, "two", 10, 5, true)); err != nil {
			t.Errorf("the other model: %v", err)
		}
		if n := one.steppers.Load(); n != 3 {
			t.Errorf("%d steppers were made, want 3", n)
		}
		if st := w.tree.Inspect().Models[0]; !st.Down || st.Rebuilds != 2 || st.Live != 0 {
			t.Errorf("stats %+v", st)
		}
		one.mu.Lock()
		if one.doubles != 0 {
			t.Errorf("%d pins of a dead stepper were released to a new one", one.doubles)
		}
		one.mu.Unlock()
		if w.fatal.Load() != 0 {
			t.Error("the node gave up with one model")
		}
	})
}

// TestEndOutlivesItsLimiter: what a request used counts also when its end comes
// to a limiter that cannot read its account and is then stopped for failing.
func TestEndOutlivesItsLimiter(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(account.Account{ID: "acct", Concurrency: 2, TokensPerMinute: 3000}, 100_000)
		w.models["one"].mode.Store(stuckInDecode)
		s, _, err := w.tree.Generate(w.call(a, "one", 10, 2000, false)) // takes 1034 tokens, uses 2010
		if err != nil {
			t.Fatal(err)
		}
		fail := func(times int) {
			for range times {
				if r := w.tree.limits.Live(a.ID); r != nil {
					_ = r.Tell(system.Kill{})
				}
			}
			time.Sleep(time.Second)
		}
		w.mu.Lock()
		delete(w.accounts, a.ID)
		w.mu.Unlock()
		fail(1)
		w.models["one"].mode.Store(running)
		w.read(s)
		if _, err := w.settle(s); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		fail(9)
		w.mu.Lock()
		w.accounts[a.ID] = a
		w.mu.Unlock()
		if _, err := w.play(w.call(a, "one", 10, 5, false)); err != nil {
			t.Error(err)
		}
		w.checkClean(a)
	})
}

// TestCrashPaysCheckpoint: a stream that ran for a while pays its input and the
// output of its last checkpoint, which is in the ledger.
func TestCrashPaysCheckpoint(t *testing.T) {
	for _, stream := range []bool{true, false} {
		inBubble(t, Config{}, func(t *testing.T, w *world) {
			a := w.set(plain, 10_000)
			w.models["one"].mode.Store(stuckInDecode)
			c := w.call(a, "one", 10, 500, stream)
			s, _, err := w.tree.Generate(c)
			if err != nil {
				t.Fatal(err)
			}
			s.Shown()
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			w.store.mu.Lock()
			observed := abi.Usage{} // a request that does not stream has no row that a crash could charge
			if stream {
				observed = abi.Usage{InputUncached: 10, Output: 1}
			}
			if got := w.store.observed[c.RequestID]; got != observed {
				t.Errorf("stream %v: checkpoint %+v, want %+v", stream, got, observed)
			}
			w.store.mu.Unlock()
			w.models["one"].panics.Store(true)
			w.read(s)
			want := abi.Nano(0)
			if stream {
				want = 2*10 + 10
			}
			if got, err := w.settle(s); err != nil || got.Charge != want || got.Reason != account.Failed {
				t.Errorf("stream %v settled %+v, %v; want %d", stream, got, err, want)
			}
			w.models["one"].mode.Store(running)
			w.checkClean(a)
		})
	}
}

// TestGiveUp: what the node cannot live without ends it, once.
func TestGiveUp(t *testing.T) {
	for _, c := range []struct {
		kind  string
		kills int
	}{{nodeActor, 3}, {limitsActor, 3}, {sessionsActor, 3}, {modelsActor, 3}, {ledgerActor, 10}} {
		inBubble(t, Config{}, func(t *testing.T, w *world) {
			for range c.kills {
				if w.fatal.Load() != 0 {
					t.Errorf("%s: gave up too early", c.kind)
				}
				for _, r := range w.victims(c.kind) {
					_ = r.Tell(system.Kill{})
				}
				time.Sleep(2 * time.Second)
			}
			if n := w.fatal.Load(); n != 1 {
				t.Errorf("%s: gave up %d times", c.kind, n)
			}
		})
	}
}

// TestStorm runs a few thousand requests in real time with random cancels, step
// faults, store failures and kills of every actor at once. The seed is printed;
// the schedule of goroutines is not part of it.
func TestStorm(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	w := newWorld(t, Config{})
	defer w.tree.Stop()
	for _, m := range w.models {
		m.stepTime = 100 * time.Microsecond
	}
	accounts := w.someAccounts()
	quit := make(chan struct{})
	var chaos sync.WaitGroup
	chaos.Go(func() { w.chaos(rand.New(rand.NewPCG(seed, 4)), quit) })
	ends := w.load(accounts, 24, 100, 0, rnd)
	close(quit)
	chaos.Wait()
	w.store.failing.Store(false)
	t.Logf("clients saw %v; failures %v; dead letters %d", ends, w.tree.Inspect().Failures, w.tree.DeadLetters())
	if w.fatal.Load() != 0 {
		t.Fatal("the node gave up")
	}
	if ends["end"] == 0 {
		t.Error("nothing succeeded")
	}
	deadline := time.Now().Add(20 * time.Second)
	for w.tree.requests.len() > 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	w.quiet()
	for _, a := range accounts {
		w.tree.AccountChanged(a.ID) // a limiter whose read failed knows an old balance
		w.calm(a)
		w.checkClean(a)
	}
}

// quiet waits until the kills that wait in mailboxes have all been carried out.
func (w *world) quiet() {
	for last, same := uint64(0), 0; same < 50; time.Sleep(10 * time.Millisecond) {
		sum := uint64(0)
		for _, name := range Actors() {
			sum += w.tree.Counters().Failures(name)
		}
		if same++; sum != last {
			last, same = sum, 0
		}
	}
}

// chaos breaks one thing at a time, as often as the policies allow.
func (w *world) chaos(rnd *rand.Rand, quit chan struct{}) {
	fatal := map[string]int{nodeActor: 2, limitsActor: 2, sessionsActor: 2, modelsActor: 2, ledgerActor: 8, batcherActor: 1}
	faults := 1
	for {
		select {
		case <-quit:
			return
		case <-time.After(time.Duration(3+rnd.IntN(12)) * time.Millisecond):
		}
		switch kind := Actors()[rnd.IntN(len(policies))]; {
		case rnd.IntN(20) == 0:
			w.store.failing.Store(true)
			time.Sleep(5 * time.Millisecond)
			w.store.failing.Store(false)
		case rnd.IntN(20) == 0 && faults > 0:
			faults--
			w.models["two"].panics.Store(true)
		case kind == limiterActor || kind == sessionActor || fatal[kind] > 0:
			fatal[kind]--
			for _, r := range w.victims(kind) {
				_ = r.Tell(system.Kill{Reason: "chaos"})
			}
		}
	}
}

// BenchmarkGenerateSettle is one request through the whole tree with an engine and
// a store that cost nothing.
func BenchmarkGenerateSettle(b *testing.B) {
	w := newWorld(b, Config{})
	defer w.tree.Stop()
	a := w.set(account.Account{ID: "a", Unlimited: true, Concurrency: 1000, TokensPerMinute: 1 << 40}, 0)
	c := w.call(a, "one", 0, 1, true)
	var events []abi.Event
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.RequestID = fmt.Sprint("bench-", i)
		s, _, err := w.tree.Generate(c)
		if err != nil {
			b.Fatal(err)
		}
		<-s.Held()
		<-s.r.done
		events = s.Output().Drain(events[:0])
		if _, err := settled(s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParallel is the same from many callers at once: what a request costs
// when the step loop and the ledger have company.
func BenchmarkParallel(b *testing.B) {
	w := newWorld(b, Config{})
	defer w.tree.Stop()
	a := w.set(account.Account{ID: "a", Unlimited: true, Concurrency: 1000, TokensPerMinute: 1 << 39}, 0)
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(p *testing.PB) {
		c := w.call(a, "one", 0, 1, true)
		for p.Next() {
			c.RequestID = fmt.Sprint("bench-", w.ids.Add(1))
			s, _, err := w.tree.Generate(c)
			if err != nil {
				b.Error(err)
				return
			}
			<-s.Held()
			<-s.r.done
			if _, err := settled(s); err != nil {
				b.Error(err)
			}
		}
	})
}
