package admin

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"corenode/node/store"
	"corenode/wasm/abi"
)

// Cluster is what a node among others that share its store can tell and do.
type Cluster interface {
	// ID is that of the node which answers.
	ID() string
	// Taken says that another process runs as this node, whose row is the other one's.
	Taken() bool
	// Nodes returns a page of the nodes by id, above after.
	Nodes(after string, limit int) ([]store.Node, error)
	// Grants are what nodes may give of accounts without asking.
	Grants() ([]store.NodeGrant, error)
	// AskDrain tells a live node to drain with its next renewal.
	AskDrain(id string) error
	// Spread returns when each live node has applied what was changed of an account, or names
	// those that have not in time. They stop admitting when they are not heard of.
	Spread(ctx context.Context, accountID string) (unaware []string, err error)
}

// SetCluster tells the API of the other nodes. Without it the node is alone.
func (a *API) SetCluster(c Cluster) { a.cluster = c }

// ClusterNode is one of the nodes that share a store.
type ClusterNode struct {
	ID           string          `json:"id"`
	State        store.NodeState `json:"state" doc:"fenced: it was not heard for a lease, and the others counted it out." enum:"starting,up,draining,fenced,gone"`
	Live         bool            `json:"live" doc:"It renewed within the lease."`
	Self         bool            `json:"self" doc:"It answers this call."`
	Address      string          `json:"address,omitempty" doc:"Of its public listener."`
	Version      string          `json:"version"`
	Home         string          `json:"home" doc:"Its machine and data folder."`
	Taken        bool            `json:"taken,omitempty" doc:"The node that answers is out, and this one another process with its id: one runs on a copy of the other's data folder."`
	Fence        int64           `json:"fence" doc:"Rises with each start, and whenever it is counted out."`
	Started      time.Time       `json:"started"`
	SilentMS     int64           `json:"silent_ms" doc:"Since its last renewal; 0 of one that is gone."`
	Models       []string        `json:"models"`
	ModelsDigest string          `json:"models_digest" doc:"The same on nodes that serve the same models."`
	PricesDigest string          `json:"prices_digest" doc:"The same on nodes with the same prices."`
	Drain        bool            `json:"drain" doc:"An operator asked it to drain."`
	Unread       int64           `json:"unread" doc:"Changes of accounts, keys and modules that it has not applied."`
	Differs      []string        `json:"differs" doc:"What it has otherwise than the node that answers: models, prices, version."`
}

// StateText says for people how the node is, in a word or two.
func (n ClusterNode) StateText() string {
	state := string(n.State)
	switch {
	case n.Taken:
		state += ", by another process"
	case n.Drain && n.Live && n.State != store.NodeDraining:
		state += ", told to drain"
	case !n.Live && n.State != store.NodeFenced && n.State != store.NodeGone:
		state = "silent"
	}
	return state
}

// ClusterNodes is a page of the nodes. Next is after of the page behind it, absent at the end.
type ClusterNodes struct {
	Shared bool          `json:"shared" doc:"Nodes may share the store: it is a database."`
	Data   []ClusterNode `json:"data"`
	Next   string        `json:"next,omitempty" doc:"after of the page behind; absent at the end."`
}

// ClusterGrant is what a node may give of an account's limits without asking.
type ClusterGrant struct {
	AccountID string    `json:"account_id"`
	Node      string    `json:"node"`
	Permits   int       `json:"permits" doc:"What no request has taken yet, as the store knows it."`
	Tokens    int64     `json:"tokens"`
	NanoUSD   abi.Nano  `json:"nano_usd"`
	Until     time.Time `json:"until" doc:"By the store's clock."`
	Wanted    bool      `json:"wanted" doc:"Another node needs what is idle of it."`
}

// ClusterGrants is a page of grants, by account and node.
type ClusterGrants struct {
	Data []ClusterGrant `json:"data"`
	Next string         `json:"next,omitempty" doc:"after of the page behind; absent at the end."`
}

func listNodes(a *API, c call) (page ClusterNodes, err error) {
	limit, err := pageLimit(c.query, store.NodesMax)
	if err != nil {
		return page, err
	}
	page = ClusterNodes{Shared: a.cluster != nil, Data: []ClusterNode{}}
	if a.cluster == nil {
		return page, nil
	}
	own, err := a.ownNode()
	if err != nil {
		return page, err
	}
	nodes, err := a.cluster.Nodes(c.query.Get("after"), limit)
	for _, n := range nodes {
		shown := showNode(n, own)
		shown.Taken = shown.Self && a.cluster.Taken()
		page.Data = append(page.Data, shown)
	}
	if len(nodes) == limit {
		page.Next = nodes[limit-1].ID
	}
	return page, err
}

// ownNode is the row of the node that answers: the first behind what sorts right before it.
func (a *API) ownNode() (store.Node, error) {
	id := a.cluster.ID()
	before := id[:len(id)-1]
	for {
		page, err := a.cluster.Nodes(before, store.NodesMax)
		at := slices.IndexFunc(page, func(n store.Node) bool { return n.ID == id })
		switch {
		case at >= 0:
			return page[at], nil
		case err != nil || len(page) < store.NodesMax:
			return store.Node{ID: id}, err
		}
		before = page[len(page)-1].ID
	}
}

func showNode(n, own store.Node) ClusterNode {
	shown := ClusterNode{ID: n.ID, State: n.State, Live: n.Live, Self: n.ID == own.ID, Address: n.Address, Version: n.Version, Home: n.Home,
		Fence: n.Fence, Started: n.Started, SilentMS: max(0, n.Silent.Milliseconds()), Models: append([]string{}, n.Models...),
		ModelsDigest: n.ModelsDigest, PricesDigest: n.PricesDigest, Drain: n.Drain, Unread: n.Unread, Differs: []string{}}
	for _, d := range []struct{ what, its, ours string }{
		{"models", n.ModelsDigest, own.ModelsDigest}, {"prices", n.PricesDigest, own.PricesDigest}, {"version", n.Version, own.Version},
	} {
		if n.Live && d.its != "" && d.its != d.ours {
			shown.Differs = append(shown.Differs, d.what)
		}
	}
	return shown
}

func listGrants(a *API, c call) (page ClusterGrants, err error) {
	accountID, err := a.of(c.query)
	if err != nil {
		return page, err
	}
	limit, err := pageLimit(c.query, store.EntriesMax)
	page = ClusterGrants{Data: []ClusterGrant{}}
	if err != nil || a.cluster == nil {
		return page, err
	}
	all, err := a.cluster.Grants()
	if err != nil {
		return page, err
	}
	name := func(g store.NodeGrant) string { return g.AccountID + "/" + g.Node }
	slices.SortFunc(all, func(x, y store.NodeGrant) int { return strings.Compare(name(x), name(y)) })
	for _, g := range all {
		if name(g) <= c.query.Get("after") || accountID != "" && g.AccountID != accountID ||
			c.query.Get("node") != "" && g.Node != c.query.Get("node") {
			continue
		}
		if len(page.Data) == limit {
			last := page.Data[limit-1]
			page.Next = last.AccountID + "/" + last.Node
			break
		}
		page.Data = append(page.Data, ClusterGrant{AccountID: g.AccountID, Node: g.Node, Permits: g.Left.Permits, Tokens: g.Left.Tokens,
			NanoUSD: g.Left.Money, Until: g.Until.UTC(), Wanted: g.Wanted})
	}
	return page, nil
}

// drainedNode says which node was told to drain.
type drainedNode struct {
	Node string `json:"node"`
}

func drainNode(a *API, c call) (shown drainedNode, err error) {
	if a.cluster == nil {
		return shown, &Error{Kind: KindConflict, Message: "this node keeps its rows in its own data folder, which it shares with no other"}
	}
	if err := a.cluster.AskDrain(c.target); err != nil {
		return shown, err
	}
	return drainedNode{c.target}, nil
}

// spread waits until all nodes know what was changed of an account, and names those that do not in time.
func (a *API) spread(ctx context.Context, accountID string) (unaware []string, err error) {
	if a.cluster == nil {
		return nil, nil
	}
	unaware, err = a.cluster.Spread(ctx, accountID)
	if err != nil {
		return nil, fmt.Errorf("it is done, and whether all nodes know it is not known; do it again: %w", err)
	}
	return unaware, nil
}

// ClusterNodes returns a page of the nodes. query has the parameters of the verb.
func (c *Client) ClusterNodes(query url.Values) (page ClusterNodes, err error) {
	return page, c.roundTrip("GET", Root+"/cluster/nodes", query, nil, &page)
}

// ClusterGrants returns a page of the grants. query has the parameters of the verb.
func (c *Client) ClusterGrants(query url.Values) (page ClusterGrants, err error) {
	return page, c.roundTrip("GET", Root+"/cluster/grants", query, nil, &page)
}

// DrainNode tells a node to drain.
func (c *Client) DrainNode(id string) error {
	return c.roundTrip("POST", Root+"/cluster/nodes/"+url.PathEscape(id)+"/drain", nil, nil, &drainedNode{})
}
