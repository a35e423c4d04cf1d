package limiter

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/clock"
	"corenode/actors/limit"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// TestRecallOfNothingIsAnswered: the store renews no grant that is wanted, until it hears what is idle of it.
func TestRecallOfNothingIsAnswered(t *testing.T) {
	var told []limit.Return
	cell := &Cell{lent: lent{grant: limit.Grant{Number: 3, Part: limit.Part{Permits: 2}, AnyTokens: true, AnyMoney: true},
		taken: limit.Part{Permits: 2}, returned: limit.Part{Permits: 1},
		until: time.Now().Add(time.Hour), end: limit.NewEnd(time.Now().Add(time.Hour))}}
	l := NewClustered("a", cell, ClusterDeps{Return: func(r limit.Return) { told = append(told, r) }, Counts: &Counts{}})
	l.Receive(nil, Recall{})
	l.Receive(nil, Recall{}) // it does not believe in the grant any more
	want := []limit.Return{{AccountID: "a", Number: 3, Part: limit.Part{Permits: 1}}}
	if !slices.Equal(told, want) {
		t.Errorf("the store is told %+v, want %+v", told, want)
	}
}

// TestPartOfALostLimitGoesBack: what was lent of a limit that the account does not have any more is given back all the same. The
// store counts it until then, and where the limit comes back other nodes would lack it.
func TestPartOfALostLimitGoesBack(t *testing.T) {
	lentNow := limit.Part{Permits: 5, Tokens: 500, Money: 50}
	for name, m := range map[string]Message{"changed": Changed{}, "recalled": Recall{}} {
		var told []limit.Return
		cell := &Cell{lent: lent{grant: limit.Grant{Number: 3, Part: lentNow, TokensPerMinute: 1000, Life: time.Hour},
			taken: limit.Part{Permits: 1, Tokens: 100, Money: 10},
			until: clock.Now().Add(time.Hour), end: limit.NewEnd(clock.Now().Add(time.Hour))}}
		l := NewClustered("a", cell, ClusterDeps{Return: func(r limit.Return) { told = append(told, r) }, Counts: &Counts{}})
		without := limit.Grant{Number: 3, Part: lentNow, AnyPermits: true, AnyTokens: true, AnyMoney: true, Life: time.Hour}
		l.Receive(nil, verdict{Verdict: limit.Verdict{Grant: &without}, asked: clock.Now()}) // before anybody said that it changed
		l.Receive(nil, m)
		want := []limit.Return{{AccountID: "a", Number: 3, Part: limit.Part{Permits: 4, Tokens: 400, Money: 40}}}
		if !slices.Equal(told, want) {
			t.Errorf("%s: the store is told %+v, want %+v", name, told, want)
		}
	}
}

// taken is a ticket that takes what it is granted.
type taken struct{}

func (taken) Granted(limit.Reservation, account.Limits) *abi.Error { return nil }
func (taken) Denied(*abi.Error, account.Limits)                    {}
func (taken) HoldRow() account.Entry                               { return account.Entry{} }

// TestRenewalSaysWhatOneRequestTakes: the store lends nothing to an account that can hardly pay a few more of them.
func TestRenewalSaysWhatOneRequestTakes(t *testing.T) {
	var asked []limit.Proposal
	deps := ClusterDeps{Counts: &Counts{}, Propose: func(p limit.Proposal, _ func(limit.Verdict, time.Time, *abi.Error)) error {
		asked = append(asked, p)
		return nil
	}}
	cell := &Cell{lent: lent{grant: limit.Grant{Number: 3, Part: limit.Part{Permits: 3, Tokens: 300, Money: 30}, Life: time.Hour,
		TokensPerMinute: 1000}, until: time.Now().Add(time.Hour), end: limit.NewEnd(time.Now().Add(time.Hour))}}
	l := NewClustered("a", cell, deps)
	for _, id := range []string{"r1", "r2", "r3"} {
		l.Receive(nil, Reserve{Ask: limit.Ask{RequestID: id, Prompt: 70, OutputMax: 20, Upper: 9, Minimum: 5}, Ticket: taken{}})
	}
	if len(asked) == 0 {
		t.Fatalf("the store is asked for %+v", asked)
	}
	if p := asked[0]; p.RequestID != "" || p.Wish == (limit.Part{}) || p.Tokens(1000) != 90 || p.Upper != 9 {
		t.Errorf("%+v", p)
	}
}

// TestGrantIsOverAfterASuspend: what a grant covered is asked of the store once the machine was suspended for as long as it lives.
func TestGrantIsOverAfterASuspend(t *testing.T) {
	asked := 0
	deps := ClusterDeps{Counts: &Counts{}, Propose: func(p limit.Proposal, _ func(limit.Verdict, time.Time, *abi.Error)) error {
		if p.RequestID != "" {
			asked++
		}
		return nil
	}}
	life := 10 * time.Second
	cell := &Cell{lent: lent{grant: limit.Grant{Number: 3, Part: limit.Part{Permits: 9}, AnyTokens: true, AnyMoney: true, Life: life},
		until: believed(clock.Now(), life), end: limit.NewEnd(believed(clock.Now(), life))}}
	l := NewClustered("a", cell, deps)
	ask := func(id string) { l.Receive(nil, Reserve{Ask: limit.Ask{RequestID: id, Free: true}, Ticket: taken{}}) }
	ask("before")
	if asked != 0 {
		t.Fatal("the grant did not cover it")
	}
	defer clock.Suspend(life)()
	ask("after")
	if asked != 1 {
		t.Error("the grant covers it after its time")
	}
}

// asking is what a limiter asks of a store that answers when the test says so.
type asking struct {
	*clustered
	asked, returned, refused int // requests that the store was asked about, times that something came back, requests
	part                     limit.Part
	limits                   account.Limits // of the last that was granted
	until                    *limit.End     // likewise
	dones                    []func(limit.Verdict, time.Time, *abi.Error)
}

func newAsking() *asking {
	a := &asking{}
	deps := ClusterDeps{Counts: &Counts{}, Lease: 10 * time.Second,
		Return: func(r limit.Return) { a.returned, a.part = a.returned+1, r.Part },
		Tell:   func(_ string, m Message) error { a.Receive(nil, m); return nil },
		Propose: func(p limit.Proposal, done func(limit.Verdict, time.Time, *abi.Error)) error {
			if p.RequestID != "" {
				a.asked++
			}
			a.dones = append(a.dones, done)
			return nil
		}}
	a.clustered = NewClustered("a", &Cell{}, deps).(*clustered)
	return a
}

// Granted, Denied and HoldRow make a ticket of it.
func (a *asking) Granted(r limit.Reservation, l account.Limits) *abi.Error {
	a.limits, a.until = l, r.Until
	return nil
}
func (a *asking) Denied(*abi.Error, account.Limits) { a.refused++ }
func (a *asking) HoldRow() account.Entry            { return account.Entry{} }

// take sends requests.
func (a *asking) take(t *testing.T, n, wantAsked int) {
	t.Helper()
	a.asked = 0
	for range n {
		a.Receive(nil, Reserve{Ask: limit.Ask{RequestID: "r", Free: true}, Ticket: a})
	}
	if a.asked != wantAsked {
		t.Errorf("the store is asked about %d of %d requests, want %d", a.asked, n, wantAsked)
	}
}

// answer is the store's to all that it was asked; the first time it was asked for a grant alone.
func (a *asking) answer(v limit.Verdict, asked time.Time, err *abi.Error) {
	if len(a.dones) == 0 {
		a.ask(limit.Proposal{}, verdict{})
	}
	dones := a.dones
	a.dones = nil
	for _, done := range dones {
		done(v, asked, err)
	}
}

// grant is an answer with so many permits for some time.
func (a *asking) grant(permits int, life time.Duration, asked time.Time) {
	g := limit.Grant{Number: 3, Part: limit.Part{Permits: permits}, AnyTokens: true, AnyMoney: true, Life: life}
	a.answer(limit.Verdict{Grant: &g, Counters: limit.NewCounters(account.Account{Concurrency: 10 * permits}, asked)}, asked, nil)
}

// TestGrantIsKnownUntilItIsOver: what was taken of a grant stays taken as long as the store may renew it, though it is idle
// and given back; a renewal adds what it brings, and says what the account has.
func TestGrantIsKnownUntilItIsOver(t *testing.T) {
	a := newAsking()
	life := 100 * idleFor
	a.grant(2, life, clock.Now())
	a.take(t, 3, 1)
	a.grant(5, life, clock.Now())
	if got := a.cell.counters.Load().Limits(clock.Now()).RequestsLimit; got != 50 {
		t.Errorf("the limit is %d, want the renewal's", got)
	}
	a.take(t, 1, 0)
	if a.sweep(clock.Now().Add(idleFor)) || a.returned != 1 {
		t.Errorf("it is forgotten when it is given back, %d times", a.returned)
	}
	a.grant(5, life, clock.Now())
	a.take(t, 1, 1)
	a.answer(limit.Verdict{}, clock.Now(), nil)
	if !a.sweep(clock.Now().Add(life)) {
		t.Error("it is not forgotten when it is over")
	}
}

// TestGrantRenewedAsTheAccountChangedIsKnown: the store renewed the grant before it was told what was given back for an operator's
// change. It is given back like all of it, and until that renewal is over it is known what was taken.
func TestGrantRenewedAsTheAccountChangedIsKnown(t *testing.T) {
	a := newAsking()
	life := 100 * idleFor
	a.grant(9, life, clock.Now())
	a.take(t, 3, 0)
	a.ask(limit.Proposal{}, verdict{})
	before := clock.Now().Add(-1) // by a clock that may stand still
	a.Receive(nil, Changed{})
	if want := (limit.Part{Permits: 6}); a.returned != 1 || a.part != want {
		t.Fatalf("%d returns, the last of %+v, want %+v", a.returned, a.part, want)
	}
	a.grant(11, 3*life, before)
	if want := (limit.Part{Permits: 8}); a.returned != 2 || a.part != want {
		t.Errorf("%d returns, the last of %+v, want %+v: the rest lies idle, and nobody can call it back", a.returned, a.part, want)
	}
	if a.sweep(clock.Now().Add(2 * life)) {
		t.Error("it is forgotten while the store renews it")
	}
	a.grant(11, life, clock.Now())
	a.take(t, 1, 1)
}

// TestGrantIsKnownWhileTheStoreDecides: the store may renew the grant by a question that it has not answered, and after one that
// it answers too late.
func TestGrantIsKnownWhileTheStoreDecides(t *testing.T) {
	a := newAsking()
	life := 10 * idleFor
	a.grant(2, life, clock.Now())
	a.take(t, 3, 1)
	if a.sweep(clock.Now().Add(2 * life)) {
		t.Error("it is forgotten while the store has a question")
	}
	a.answer(limit.Verdict{}, clock.Now(), &abi.Error{Kind: abi.Overloaded})
	if a.refused != 1 || a.sweep(clock.Now().Add(2*life)) {
		t.Errorf("%d are refused; it is forgotten while the store may do what it was asked", a.refused)
	}
	a.grant(2, life, clock.Now())
	a.take(t, 1, 1)
	a.answer(limit.Verdict{}, clock.Now(), nil)
	if !a.sweep(clock.Now().Add(a.deps.Lease + 2*unsureFor)) {
		t.Error("it is not forgotten when it is over")
	}
}

// TestRenewalHoldsForCoveredRequests: what a grant covered may begin as long as any renewal of it says, whatever is said later and
// though it is given back; the next grant is another.
func TestRenewalHoldsForCoveredRequests(t *testing.T) {
	a, life, now := newAsking(), 10*time.Second, clock.Now()
	a.grant(2, life, now)
	a.take(t, 1, 0)
	first := a.until
	wants := func(after string, end time.Time) {
		t.Helper()
		if first.Passed(end.Add(-1)) || !first.Passed(end) {
			t.Errorf("after %s it may not begin until %v of the first verdict", after, end.Sub(now))
		}
	}
	wants("the verdict", believed(now, life))
	a.grant(5, life, now.Add(life/2))
	wants("a renewal", believed(now, life).Add(life/2))
	a.grant(5, life, now)
	wants("a verdict from before that", believed(now, life).Add(life/2))
	a.grant(5, life, now.Add(life/2))
	a.Receive(nil, Recall{})
	wants("a recall", believed(now, life).Add(life/2))
	next := limit.Grant{Number: 4, Part: limit.Part{Permits: 9}, AnyTokens: true, AnyMoney: true, Life: 9 * life}
	a.answer(limit.Verdict{Grant: &next}, now.Add(life), nil)
	wants("another grant", believed(now, life).Add(life/2))
}

// TestCoveredRequest: the headers of a request that a grant covers say what is left of the grant and in the store. It may begin as
// long as the node believes in the grant, and what it has of that and does not use goes to the next one.
func TestCoveredRequest(t *testing.T) {
	a := newAsking()
	part := limit.Part{Permits: 3, Tokens: 300, Money: 30}
	s := limit.New(account.Account{Concurrency: 10, Unlimited: true}, limit.NewBucket(1000, time.Now().Add(time.Hour)))
	s.Lend(part)
	g := limit.Grant{Number: 3, Part: part, TokensPerMinute: 1000, AnyMoney: true, Life: time.Hour}
	a.answer(limit.Verdict{Grant: &g, Counters: s.Counters()}, clock.Now(), nil)
	ask := func() { a.Receive(nil, Reserve{Ask: limit.Ask{RequestID: "r", Prompt: 200}, Ticket: a}) }
	ask()
	if a.asked != 0 || a.limits.RequestsRemaining != 9 || a.limits.TokensRemaining != 800 || a.limits.RequestsLimit != 10 {
		t.Errorf("the store is asked %d times, the limits are %+v", a.asked, a.limits)
	}
	if end := a.cell.lent.until; a.until.Passed(end.Add(-1)) || !a.until.Passed(end) {
		t.Errorf("it may not begin until %v alone", end)
	}
	a.Receive(nil, Unused{Number: 2, Part: limit.Part{Permits: 1, Tokens: 200}}) // of a grant that ended
	if ask(); a.asked != 1 {
		t.Errorf("the store is asked %d times, want once: 100 tokens are left", a.asked)
	}
	a.Receive(nil, Unused{Number: 3, Part: limit.Part{Permits: 1, Tokens: 200}})
	if ask(); a.asked != 1 {
		t.Errorf("the store is asked %d times, want once: the tokens of the first request are back", a.asked)
	}
}

// TestVerdictIsReadByTheNodesClock: the clock of the store may be ahead of the node's, or behind. What a verdict says of times is shown
// by the node's: when limits are free again, and how far the bucket is refilled.
func TestVerdictIsReadByTheNodesClock(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		a := newAsking()
		there := time.Now().Add(ahead)
		s := limit.New(account.Account{TokensPerMinute: 600}, limit.NewBucket(600, there))
		got, refusal := s.Reserve(limit.Ask{RequestID: "r", Prompt: 600}, there)
		if refusal != nil {
			t.Fatal(refusal)
		}
		a.Receive(nil, Reserve{Ask: limit.Ask{RequestID: "r", Prompt: 600}, Ticket: a})
		v := limit.Verdict{Reservation: got, Counters: s.Counters(), Limits: s.Limits(account.LimitedKey{}, there), Now: there}
		a.answer(v, clock.Now(), nil)
		now := time.Now()
		of, _ := a.cell.Limits(account.LimitedKey{}, now)
		use, _ := a.cell.Use(now)
		if most := now.Add(time.Minute); of.TokensReset.After(most) || of.TokensReset.Before(now) || a.limits.TokensReset.After(most) ||
			a.limits.TokensReset.Before(now) || a.limits.RequestsReset.After(now) {
			t.Errorf("%s ahead: at %s limits are %+v, of the verdict %+v", ahead, now, of, a.limits)
		}
		if use.TokensRemaining == 600 {
			t.Errorf("%s ahead: a bucket that was emptied is full", ahead)
		}
	}
}

// TestStoppedTreeDeniesOnce: wherever a request is when the tree stops, it is denied, once: before the store is asked, while the store
// decides, and while it waits to ask again. A question without a request has nobody to tell.
func TestStoppedTreeDeniesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking()
		var stopped atomic.Bool
		propose, tell := a.deps.Propose, a.deps.Tell
		a.deps.Propose = func(p limit.Proposal, done func(limit.Verdict, time.Time, *abi.Error)) error {
			if stopped.Load() {
				return system.ErrStopped
			}
			return propose(p, done)
		}
		a.deps.Tell = func(id string, m Message) error {
			if stopped.Load() {
				return system.ErrStopped
			}
			return tell(id, m)
		}
		a.take(t, 1, 1)
		a.answer(limit.Verdict{Refusal: &abi.Error{Kind: abi.RateLimited}, Recalled: true}, clock.Now(), nil)
		a.take(t, 1, 1)
		a.ask(limit.Proposal{}, verdict{})
		if a.refused != 0 {
			t.Fatalf("%d are denied before the stop", a.refused)
		}
		stopped.Store(true)
		time.Sleep(limit.RecallTime)
		if synctest.Wait(); a.refused != 1 {
			t.Errorf("%d are denied, want the one that was to ask again", a.refused)
		}
		if a.answer(limit.Verdict{}, clock.Now(), nil); a.refused != 2 {
			t.Errorf("%d are denied, want the one that the store decided on, too", a.refused)
		}
		asking := a.cell.asking
		a.ask(limit.Proposal{}, verdict{})
		if a.take(t, 1, 0); a.refused != 3 || a.cell.asking != asking || a.deps.Counts.Failed.Load() != 1 {
			t.Errorf("%d are denied, want the one that the store was not asked about, too; %d questions wait, want %d",
				a.refused, a.cell.asking, asking)
		}
	})
}

// panicking is a ticket that cannot be granted.
type panicking struct{ *asking }

func (panicking) Granted(limit.Reservation, account.Limits) *abi.Error { panic("in Granted") }

// TestGrantedThatFails: a request that cannot go on is denied. What a grant covered it with is there for the next one, and so is what
// it gives back itself, whichever limiter its account has by then.
func TestGrantedThatFails(t *testing.T) {
	a := newAsking()
	a.grant(1, time.Hour, clock.Now())
	k := &ticket{broken: true}
	if a.Receive(nil, Reserve{Ask: limit.Ask{RequestID: "r", Free: true}, Ticket: k}); k.err == nil {
		t.Error("it is not denied")
	}
	a.take(t, 1, 0)
	Unused{Number: 3, Part: limit.Part{Permits: 1}, Again: func(m Message) { a.Receive(nil, m) }}.Refuse(system.ErrStopped)
	a.take(t, 1, 0)
	a.Receive(nil, Reserve{Ask: limit.Ask{RequestID: "r", Free: true}, Ticket: panicking{a}})
	func() {
		defer func() { _ = recover() }()
		a.answer(limit.Verdict{}, clock.Now(), nil)
	}()
	if a.refused != 1 {
		t.Errorf("one that panicked is denied %d times", a.refused)
	}
}

// TestSecondAskFindsTheNextLimiter: a request is asked about again also where the limiter that heard of its refusal has retired.
func TestSecondAskFindsTheNextLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := system.New(system.Config{Logger: slog.New(slog.DiscardHandler)})
		defer sys.Stop()
		a := newAsking()
		policy := system.Policy{Resume: true, FailuresMax: 3, Within: time.Minute}
		pool := system.NewPool(system.PoolSpec[string, Cell]{Name: "limits", Child: "limiter", Policy: policy, Children: policy,
			MailboxMax: 10, Max: 10, SweepMax: 10,
			New: func(id string, c *Cell) system.Actor { return NewClustered(id, c, a.deps) }})
		a.deps.Tell = func(id string, m Message) error { return pool.Tell(id, m) }
		ref, err := sys.Start(pool.Spec())
		if err != nil {
			t.Fatal(err)
		}
		pool.Bind(ref)
		if err := pool.Send("a", Reserve{Ask: limit.Ask{RequestID: "r", Free: true}, Ticket: a}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(idleFor)
		synctest.Wait()
		a.answer(limit.Verdict{Refusal: &abi.Error{Kind: abi.RateLimited}, Recalled: true}, clock.Now(), nil)
		synctest.Wait()
		pool.Sweep()
		synctest.Wait()
		if n := pool.Len(); n != 0 {
			t.Fatalf("%d limiters, want none", n)
		}
		time.Sleep(limit.RecallTime)
		synctest.Wait()
		if a.asked != 2 || a.refused != 0 {
			t.Errorf("the store is asked %d times, and %d are refused", a.asked, a.refused)
		}
	})
}
