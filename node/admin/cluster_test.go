package admin

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/actors/limit"
	"corenode/node/store"
	"corenode/node/store/sqlite"
)

// fakeCluster is three nodes, of which the second answers.
type fakeCluster struct {
	nodes   []store.Node
	taken   bool
	grants  []store.NodeGrant
	drained string
	unaware []string
	err     error
	spread  []string // accounts
}

func (f *fakeCluster) ID() string { return "node_b" }

func (f *fakeCluster) Nodes(after string, limit int) (page []store.Node, err error) {
	for _, n := range f.nodes {
		if n.ID > after && len(page) < limit {
			page = append(page, n)
		}
	}
	return page, nil
}

func (f *fakeCluster) Taken() bool { return f.taken }

func (f *fakeCluster) Grants() ([]store.NodeGrant, error) { return slices.Clone(f.grants), nil }

func (f *fakeCluster) AskDrain(id string) error {
	if id != "node_a" {
		return store.ErrNotFound
	}
	f.drained = id
	return nil
}

func (f *fakeCluster) Spread(_ context.Context, accountID string) ([]string, error) {
	f.spread = append(f.spread, accountID)
	return f.unaware, f.err
}

// clustered is a client of an API whose node is among others.
func clustered(t *testing.T) (*Client, *fakeCluster) {
	t.Helper()
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	node := func(id, models string, live bool) store.Node {
		p := store.Presence{State: store.NodeUp, Version: "v1", Models: []string{"m"}, ModelsDigest: models, PricesDigest: "p"}
		return store.Node{ID: id, Presence: p, Live: live, Silent: time.Second}
	}
	f := &fakeCluster{nodes: []store.Node{node("node_a", "other", true), node("node_b", "same", true), node("node_c", "other", false)},
		grants: []store.NodeGrant{{Node: "node_b", AccountID: "acct_2", Left: limit.Part{Permits: 1, Tokens: 2, Money: 3}},
			{Node: "node_b", AccountID: "acct_1"}, {Node: "node_a", AccountID: "acct_1"}}}
	api := New(s, &fakeNode{}, nil, nil, nil)
	api.SetCluster(f)
	return checked(t, Local(api)), f
}

// TestClusterNodes: the page says how each node does, which one answers, and what a live one has
// otherwise than that.
func TestClusterNodes(t *testing.T) {
	c, f := clustered(t)
	page, err := c.ClusterNodes(url.Values{"limit": {"2"}})
	if err != nil || !page.Shared || len(page.Data) != 2 || page.Next != "node_b" || page.Data[0].Self || !page.Data[1].Self {
		t.Fatalf("%+v, %v", page, err)
	}
	if a := page.Data[0]; !slices.Equal(a.Differs, []string{"models"}) || a.SilentMS != 1000 || len(page.Data[1].Differs) != 0 {
		t.Errorf("%+v", page.Data)
	}
	page, err = c.ClusterNodes(url.Values{"after": {page.Next}})
	if err != nil || len(page.Data) != 1 || page.Next != "" || len(page.Data[0].Differs) != 0 {
		t.Errorf("the last page: %+v, %v", page, err)
	}
	f.taken = true
	if page, err = c.ClusterNodes(nil); err != nil || page.Data[0].Taken || !page.Data[1].Taken {
		t.Errorf("another process has this node's place: %+v, %v", page, err)
	}
	if err := c.DrainNode("node_a"); err != nil || f.drained != "node_a" {
		t.Errorf("drained %q, %v", f.drained, err)
	}
	if e, ok := errors.AsType[*Error](c.DrainNode("node_x")); !ok || e.Kind != KindNotFound {
		t.Errorf("a node that there is not: %v", e)
	}
}

// TestClusterGrants: in pages by account and node, of all or of one.
func TestClusterGrants(t *testing.T) {
	c, _ := clustered(t)
	var seen []string
	for q := (url.Values{"limit": {"2"}}); ; {
		page, err := c.ClusterGrants(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range page.Data {
			seen = append(seen, g.AccountID+"/"+g.Node)
		}
		if page.Next == "" {
			break
		}
		q.Set("after", page.Next)
	}
	if want := []string{"acct_1/node_a", "acct_1/node_b", "acct_2/node_b"}; !slices.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
	page, err := c.ClusterGrants(url.Values{"node": {"node_b"}})
	if err != nil || len(page.Data) != 2 || page.Data[1].Permits != 1 || page.Data[1].Tokens != 2 || page.Data[1].NanoUSD != 3 {
		t.Errorf("of a node: %+v, %v", page, err)
	}
}

// TestRevocationIsWaitedFor: what ends a key waits for the other nodes and names those that did not
// say that they know; what does not end one waits for nobody.
func TestRevocationIsWaitedFor(t *testing.T) {
	c, f := clustered(t)
	made, err := c.CreateAccount(NewAccount{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	f.unaware = []string{"node_c"}
	if k, err := c.RevokeKey(made.KeyID); err != nil || !slices.Equal(k.UnawareNodes, f.unaware) {
		t.Errorf("%+v, %v", k, err)
	}
	concurrency, yes, no := 5, true, false
	for _, change := range []AccountChange{{Concurrency: &concurrency}, {Disabled: &no}} {
		if a, err := c.ChangeAccount("a", change); err != nil || len(a.UnawareNodes) != 0 {
			t.Errorf("%+v, %v", a, err)
		}
	}
	if a, err := c.ChangeAccount("a", AccountChange{Disabled: &yes}); err != nil || !slices.Equal(a.UnawareNodes, f.unaware) {
		t.Errorf("%+v, %v", a, err)
	}
	if want := []string{made.ID, made.ID}; !slices.Equal(f.spread, want) {
		t.Errorf("waited for %v, want %v", f.spread, want)
	}
	f.err = errors.New("the link is cut")
	if _, err := c.RevokeKey(made.KeyID); err == nil || !strings.Contains(err.Error(), "do it again") {
		t.Errorf("without the store: %v", err)
	}
}

// TestLoneNodeHasNoCluster: a node with its own data folder shows no nodes, and drains none.
func TestLoneNodeHasNoCluster(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, _ *fakeNode, _ *sqlite.Store) {
		if page, err := c.ClusterNodes(nil); err != nil || page.Shared || len(page.Data) != 0 {
			t.Errorf("%+v, %v", page, err)
		}
		if page, err := c.ClusterGrants(nil); err != nil || len(page.Data) != 0 {
			t.Errorf("%+v, %v", page, err)
		}
		if e, ok := errors.AsType[*Error](c.DrainNode("node_a")); !ok || e.Kind != KindConflict {
			t.Errorf("drain: %v", e)
		}
	})
}
