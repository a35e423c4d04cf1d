package metrics

// cluster is shown by a node that is alone too: it admits, and is the only one.
var cluster = []Metric{
	{Name: "corenode_cluster_nodes", Type: Gauge, Panel: "Nodes", Help: "Live nodes that share the database, as this one heard last",
		Watch: "less than you run"},
	{Name: "corenode_cluster_admits", Type: Gauge, Panel: "Nodes", Help: "0 while the node has lost its place among the others",
		Watch: "alert on 0: it answers 503; `cluster nodes` and its readiness say why"},
	{Name: "corenode_cluster_differences", Type: Gauge, Panel: "Nodes",
		Help: "Other models or prices that live nodes have", Watch: "above 0 when no rollout is under way"},
	{Name: "corenode_cluster_renewals_total", Type: Counter, Panel: "Life of nodes", Help: "Renewals that the database answered",
		Watch: "less than one a second: it is slow, or away"},
	{Name: "corenode_cluster_losses_total", Type: Counter, Panel: "Life of nodes",
		Help:  "Times at which the node lost its place: it was not answered in time, or counted out",
		Watch: "a rate: a slow database, or a machine that stands still"},
	{Name: "corenode_cluster_fenced_total", Type: Counter, Panel: "Life of nodes", Help: "Silent nodes that this one counted out"},
	{Name: "corenode_cluster_changes_total", Type: Counter, Panel: "Life of nodes",
		Help: "Changes of accounts, keys and money that it took over"},
}
