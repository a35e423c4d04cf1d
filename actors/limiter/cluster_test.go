package limiter

import (
	"slices"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/clock"
	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// TestRecallOfNothingIsAnswered: the store renews no grant that is wanted, until it hears what is idle of it.
func TestRecallOfNothingIsAnswered(t *testing.T) {
	var told []limit.Return
	cell := &Cell{lent: lent{grant: limit.Grant{Number: 3, Part: limit.Part{Permits: 2}, AnyTokens: true, AnyMoney: true},
		taken: limit.Part{Permits: 2}, returned: limit.Part{Permits: 1}, until: time.Now().Add(time.Hour)}}
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
			taken: limit.Part{Permits: 1, Tokens: 100, Money: 10}, until: clock.Now().Add(time.Hour)}}
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
func (taken) Refused(*abi.Error, account.Limits)                   {}
func (taken) Hold() account.Entry                                  { return account.Entry{} }

// TestRenewalSaysWhatOneRequestTakes: the store lends nothing to an account that can hardly pay a few more of them.
func TestRenewalSaysWhatOneRequestTakes(t *testing.T) {
	var asked []limit.Proposal
	deps := ClusterDeps{Counts: &Counts{}, Propose: func(p limit.Proposal, _ func(limit.Verdict, time.Time, *abi.Error)) error {
		asked = append(asked, p)
		return nil
	}}
	cell := &Cell{lent: lent{grant: limit.Grant{Number: 3, Part: limit.Part{Permits: 3, Tokens: 300, Money: 30}, Life: time.Hour,
		TokensPerMinute: 1000}, until: time.Now().Add(time.Hour)}}
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
		until: believed(clock.Now(), life)}}
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

// TestGrantIsKnownUntilItIsOver: what was taken of a grant stays taken as long as the store may renew it, though it is idle
// and given back; a renewal adds what it brings, and says what the account has.
func TestGrantIsKnownUntilItIsOver(t *testing.T) {
	var asked, returned int
	deps := ClusterDeps{Counts: &Counts{}, Return: func(limit.Return) { returned++ },
		Propose: func(p limit.Proposal, _ func(limit.Verdict, time.Time, *abi.Error)) error {
			if p.RequestID != "" {
				asked++
			}
			return nil
		}}
	cell := &Cell{}
	l := NewClustered("a", cell, deps).(*clustered)
	life := 100 * idleFor
	grant := func(permits, concurrency int) {
		now := clock.Now()
		g := limit.Grant{Number: 3, Part: limit.Part{Permits: permits}, AnyTokens: true, AnyMoney: true, Life: life}
		counters := limit.NewCounters(account.Account{Concurrency: concurrency}, now)
		l.Receive(nil, verdict{Verdict: limit.Verdict{Grant: &g, Counters: counters}, asked: now})
	}
	take := func(n, wantAsked int) {
		t.Helper()
		asked = 0
		for range n {
			l.Receive(nil, Reserve{Ask: limit.Ask{RequestID: "r", Free: true}, Ticket: taken{}})
		}
		if asked != wantAsked {
			t.Errorf("the store is asked about %d of %d requests, want %d", asked, n, wantAsked)
		}
	}
	grant(2, 10)
	take(3, 1)
	grant(5, 20)
	if got := cell.counters.Load().Limits(clock.Now()).RequestsLimit; got != 20 {
		t.Errorf("the limit is %d, want the renewal's", got)
	}
	take(1, 0)
	if l.sweep(clock.Now().Add(idleFor)) || returned != 1 {
		t.Errorf("it is forgotten when it is given back, %d times", returned)
	}
	grant(5, 20)
	take(1, 1)
	if !l.sweep(clock.Now().Add(life)) {
		t.Error("it is not forgotten when it is over")
	}
}
