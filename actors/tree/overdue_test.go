package tree

import (
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/actors/clock"
	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// TestGrantThatEndsBeforeItsHold: what a grant covered does not begin once that has ended, neither in the model's queue nor taken by
// it: others may have what it had. The store hears of no hold, and gets back what the request had of the grant.
func TestGrantThatEndsBeforeItsHold(t *testing.T) {
	const life = time.Hour
	for _, taken := range []bool{false, true} {
		f := newFleet(t, 1, life, Config{SweepEvery: life})
		a := f.account(account.Account{ID: "a", Concurrency: 1000, TokensPerMinute: 10_000_000}, 1_000_000_000)
		m := f.members[0]
		n := &m.tree.Counters().Limits
		f.eventually("a grant covers", func() bool {
			m.play(m.call(a, 10, 2, false), 0)
			return n.Covered.Load() > 20
		})
		covered, forget := n.Covered.Load(), func() {}
		m.model.taking = func() { forget = clock.Suspend(life) }
		in, out := make(chan struct{}), make(chan struct{})
		if !taken {
			m.model.taking = func() { t.Error("the model took it") }
			go m.tree.Visit(t.Context(), "one", func(batcher.Stepper) { close(in); <-out })
			<-in
		}
		c := m.call(a, 10, 2, true)
		end := make(chan error)
		go func() {
			_, _, err := m.tree.Generate(c)
			end <- err
		}()
		if !taken {
			f.eventually("it waits for the step loop", func() bool { return m.tree.units[0].unit.Stats().Waiting == 1 })
			forget = clock.Suspend(life)
			close(out)
		}
		err := <-end
		forget()
		if abi.KindOf(err) != abi.Overloaded || abi.AsError(err).RetryAfter == 0 {
			t.Fatalf("taken %v: %v", taken, err)
		}
		if got := n.Covered.Load() - covered; got != 1 {
			t.Errorf("taken %v: %d of one was covered", taken, got)
		}
		f.eventually("no request lives", func() bool { return m.tree.requests.len() == 0 })
		m.tree.AccountChanged(a.ID)
		f.eventually("all of the grant is back", func() bool { return f.store.Usage(a.ID).Granted == limit.Part{} })
		if charged, settled := f.store.Charged(a.ID, c.RequestID); settled {
			t.Errorf("taken %v: the store has a settlement of %d", taken, charged)
		}
		f.quiet(a, 1_000_000_000)
	}
}

// TestRenewedGrantBeforeItsHold: what a grant covered begins although the model takes it after the end that the grant had then, if
// that was renewed meanwhile: the store has counted its part all the while.
func TestRenewedGrantBeforeItsHold(t *testing.T) {
	const life = time.Hour
	f := newFleet(t, 1, life, Config{SweepEvery: life})
	a := f.account(account.Account{ID: "a", Concurrency: 1000, TokensPerMinute: 10_000_000}, 1_000_000_000)
	m := f.members[0]
	n := &m.tree.Counters().Limits
	f.eventually("a grant covers", func() bool {
		m.play(m.call(a, 10, 2, false), 0)
		return n.Covered.Load() > 20
	})
	in, out := make(chan struct{}), make(chan struct{})
	go m.tree.Visit(t.Context(), "one", func(batcher.Stepper) { close(in); <-out })
	<-in
	covered := n.Covered.Load()
	end := make(chan string)
	go func() { end <- m.play(m.call(a, 10, 2, true), 0) }()
	f.eventually("it waits for the step loop", func() bool { return m.tree.units[0].unit.Stats().Waiting == 1 })
	if got := n.Covered.Load() - covered; got != 1 {
		t.Fatalf("%d of one was covered", got)
	}
	defer clock.Suspend(life)()
	f.eventually("the grant is renewed", func() bool {
		release, _, err := m.tree.Enter(a, account.LimitedKey{})
		if err == nil {
			release()
		}
		return err == nil && n.Covered.Load() > covered+1
	})
	close(out)
	if got := <-end; got != "end" {
		t.Error(got)
	}
	m.tree.AccountChanged(a.ID)
	f.quiet(a, 1_000_000_000)
}
