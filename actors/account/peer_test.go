package account

import "testing"

// TestCacheAccount: the accounts of another node are kept apart from each other, and from the account
// of its key, whatever they are called. A node of the same database finds what the account's own requests left.
func TestCacheAccount(t *testing.T) {
	a := &Account{ID: "acct_1"}
	peers := []Peer{{}, KeyPeer("one"), KeyPeer("two"), KeyPeer("cluster")}
	seen := map[string]bool{}
	for _, p := range peers {
		seen[a.CacheAccount(p)] = true
	}
	if len(seen) != len(peers) || !seen["acct_1"] {
		t.Errorf("whose caches: %v", seen)
	}
	if got := a.CacheAccount(ClusterPeer()); got != "acct_1" {
		t.Errorf("a node of the same database finds those of %s", got)
	}
	if (Peer{}).Forwards() || !ClusterPeer().Forwards() || !KeyPeer("one").Forwards() {
		t.Error("a client forwards, or a node does not")
	}
}
