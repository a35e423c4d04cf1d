package cli

import (
	"strings"
	"testing"
	"time"

	"corenode/node/admin"
	"corenode/node/store"
)

// TestClusterOfNodes: what an operator reads of nodes and grants.
func TestClusterOfNodes(t *testing.T) {
	node := func(id string, state store.NodeState, live bool) admin.ClusterNode {
		return admin.ClusterNode{ID: id, State: state, Live: live, Fence: 3, Version: "v1", Home: "host:/data", SilentMS: 1234}
	}
	a, b, c, d := node("a", store.NodeUp, true), node("b", store.NodeUp, false), node("c", store.NodeGone, false), node("d", store.NodeUp, true)
	a.Self, a.Differs, d.Drain = true, []string{"models"}, true
	var out strings.Builder
	printNodes(&out, admin.ClusterNodes{Shared: true, Data: []admin.ClusterNode{a, b, c, d}, Next: "d"})
	for _, want := range []string{"a *\tup\t1.2s\t3\t", "\tmodels\thost:/data", "b\tsilent\t", "c\tgone\t-\t", "d\tup, told to drain\t", "--after d"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	out.Reset()
	printGrants(&out, admin.ClusterGrants{Data: []admin.ClusterGrant{{AccountID: "acct", Node: "a", Permits: 2, Tokens: 7, NanoUSD: 5e8,
		Until: time.Unix(0, 0), Wanted: true}}})
	if want := "acct\ta\t2\t7\t$0.50\t1970-01-01T00:00:00Z\ttrue"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, &out)
	}
	out.Reset()
	if printNodes(&out, admin.ClusterNodes{}); !strings.Contains(out.String(), "shares them with no other") {
		t.Errorf("a node alone: %s", &out)
	}
	if err := unaware("the key is revoked", []string{"b"}); err == nil || !strings.Contains(err.Error(), "b; see corenode cluster nodes") {
		t.Errorf("an unaware node: %v", err)
	}
}

// TestClusteredNodeThatStarts: a command says of a process that has the folder that it does not answer, and not to start one, also
// where it has not reached its database yet and left no row or name.
func TestClusteredNodeThatStarts(t *testing.T) {
	known, fresh := t.TempDir(), t.TempDir()
	if err := store.JoinCluster(known, "node_a"); err != nil {
		t.Fatal(err)
	}
	for dir, before := range map[string]string{known: "start it first", fresh: "is not a data folder"} {
		says := func(want string) {
			t.Helper()
			if _, err := typed("account", "list", "--data-dir", dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		says(before)
		lock, err := store.LockFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		says("it starts, ends or hangs")
		lock.Close()
	}
}
