package tree

import (
	"testing"
	"time"

	"corenode/actors/account"
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
