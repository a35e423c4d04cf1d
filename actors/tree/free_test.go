package tree

import (
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// TestFreeRequestsOfTwoNodesAreTold: requests without an id of their own take a permit each, on whatever node they are.
func TestFreeRequestsOfTwoNodesAreTold(t *testing.T) {
	f := newFleet(t, 2, time.Minute, Config{})
	a := f.account(account.Account{ID: "a", Concurrency: 2, Unlimited: true}, 0)
	var release []func()
	for _, m := range f.members {
		done, _, err := m.tree.Enter(a, account.LimitedKey{})
		if err != nil {
			t.Fatal(err)
		}
		release = append(release, done)
	}
	if done, _, err := f.members[0].tree.Enter(a, account.LimitedKey{}); abi.KindOf(err) != abi.RateLimited {
		t.Errorf("a third one beside two: %v", err)
		if err == nil {
			done()
		}
	}
	for _, done := range release {
		done()
	}
}

// TestReservationIsGivenBackOnce: the sweep may refuse a request while its limiter hands it over. Only one of them
// gives back what it has of a grant.
func TestReservationIsGivenBackOnce(t *testing.T) {
	tree := newFleet(t, 1, time.Minute, Config{}).members[0].tree
	tooOld := limit.Reservation{GrantNumber: 1, Until: limit.NewEnd(time.Now().Add(-time.Second))}
	for _, swept := range []bool{false, true} {
		r := &request{t: tree, ask: limit.Ask{RequestID: "free", Free: true}, reply: make(chan reply, 1)}
		r.left.Store(swept) // what undo does
		if err := r.Granted(tooOld, account.Limits{}); (err == nil) != swept {
			t.Errorf("swept: %v; the limiter is told %v", swept, err)
		}
		if r.granted.Store(true); r.undo() || !r.left.Load() {
			t.Errorf("swept: %v; it may be given back again", swept)
		}
	}
}

// TestRefusalOfARunningRequestDoesNothing: an operator or the sweep may refuse a request that its model has just taken.
// It keeps what it has until its end.
func TestRefusalOfARunningRequestDoesNothing(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.set(plain, 1000)
		w.models["one"].mode.Store(stuckInDecode)
		s, _, err := w.tree.Generate(w.call(a, "one", 100, 50, true))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := w.tree.Limits(a, account.LimitedKey{})
		s.r.refuse(errOperator(), account.Limits{})
		synctest.Wait()
		if after := w.tree.Limits(a, account.LimitedKey{}); after != before || w.tree.requests.len() != 1 {
			t.Errorf("%d requests are registered, and the limits are %+v, not %+v", w.tree.requests.len(), after, before)
		}
		s.Cancel()
		w.read(s)
		if _, err := w.settle(s); err != nil {
			t.Error(err)
		}
		w.checkClean(a)
	})
}
