package console

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"corenode/extensions"
	"corenode/node/admin"
	"corenode/node/operators"
)

// clusterPage are the nodes that share a database, and what accounts lend them.
type clusterPage struct {
	Nodes      admin.ClusterNodes
	Grants     admin.ClusterGrants
	Query      url.Values
	GrantsLine string
}

func (c *Console) cluster(r *http.Request, cl *admin.Client) (any, error) {
	p := clusterPage{}
	q, _ := asked(r, "node_after")
	nodes := url.Values{"limit": {strconv.Itoa(rowsShown)}}
	if after := q.Get("node_after"); after != "" {
		nodes.Set("after", after)
	}
	var err error
	if p.Nodes, err = cl.ClusterNodes(nodes); err != nil {
		return nil, err
	}
	var flags string
	p.Query, flags = asked(r, "account", "node", "after")
	p.GrantsLine = "corenode cluster grants" + flags
	grants := url.Values{"limit": {strconv.Itoa(rowsShown)}}
	for name := range p.Query {
		grants.Set(name, p.Query.Get(name))
	}
	p.Grants, err = cl.ClusterGrants(grants)
	return p, err
}

// More is the query of the page of grants behind this one.
func (p clusterPage) More() template.URL { return with(p.Query, "after", p.Grants.Next) }

func drainNode(r *http.Request, cl *admin.Client) (said, to string, err error) {
	id := r.PathValue("node")
	return "The node " + id + " is told to drain.", Root + "cluster", cl.DrainNode(id)
}

// clusterActs are the forms of the page.
var clusterActs = []act{{path: "cluster/{node}/drain", role: operators.Manager, do: drainNode}}

// unaware says which nodes did not say in time that they know what was done; nothing when all do.
func unaware(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	return " These nodes did not say in time that they know: " + strings.Join(nodes, ", ") + ". See Cluster, and do it again."
}

// late says which nodes do not follow a change of a module yet; nothing when all do.
func late(m extensions.Info) string {
	names := admin.LateNodes(m)
	if names == "" {
		return ""
	}
	return " These nodes do not follow yet: " + names + ". See Cluster."
}
