package account

import "testing"

// TestCacheAccount: the accounts of another node are kept apart from each other, and from the account
// of its key. A node of the same database finds what the account's own requests left.
func TestCacheAccount(t *testing.T) {
	a := &Account{ID: "acct_1"}
	seen := map[string]bool{}
	for _, peer := range []string{"", "one", "two"} {
		seen[a.CacheAccount(peer)] = true
	}
	if len(seen) != 3 || !seen["acct_1"] {
		t.Errorf("whose caches: %v", seen)
	}
	if got := a.CacheAccount(ClusterPeer); got != "acct_1" {
		t.Errorf("a node of the same database finds those of %s", got)
	}
}
