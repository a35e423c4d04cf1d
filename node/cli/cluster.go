package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/wasm/builtin"
)

func clusterCommand() *cobra.Command {
	return group("cluster", "Show and drain the nodes that share a database",
		`Nodes whose rows are in one PostgreSQL database are a cluster: they serve the same
accounts, and limits and balances are those of all of them together. These commands
act through one running node, that of the data folder.`,
		`  corenode cluster nodes
  corenode cluster grants --account alice
  corenode cluster drain node_0123456789abcdef`,
		clusterNodes(), clusterGrants(), clusterDrain())
}

func clusterNodes() *cobra.Command {
	var after string
	var rowsMax int
	cmd := &cobra.Command{
		Use: "nodes", Short: "List the nodes, and how each does", Args: cobra.NoArgs,
		Long: `List the nodes, and how each does. A node that is not heard of for 10 s stops by
itself and is counted out (fenced): it admits nothing until it has joined again.
SILENT is how long ago it was heard, UNREAD how many changes of accounts, keys and
modules it has not applied, DIFFERS what it has otherwise than the node that
answers. That one has a star. Where another process has its id, for one of the two
runs on a copy of the other's data folder, STATE and HOME are that process's.`,
		Example: `  corenode cluster nodes
  corenode cluster nodes --json`,
	}
	pageFlags(cmd, &after, &rowsMax, "the last id of the page before")
	cmd.RunE = existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
		return printed(printNodes)(c.ClusterNodes(url.Values{"after": {after}, "limit": {strconv.Itoa(rowsMax)}}))
	})
	return cmd
}

// pageFlags are those of a list in pages.
func pageFlags(cmd *cobra.Command, after *string, rowsMax *int, what string) {
	cmd.Flags().StringVar(after, "after", "", what)
	cmd.Flags().IntVar(rowsMax, "limit", 1000, "most rows, up to 1000")
}

func printNodes(w io.Writer, page admin.ClusterNodes) {
	if !page.Shared {
		fmt.Fprintln(w, "This node keeps its rows in its own data folder. It shares them with no other.")
		return
	}
	fmt.Fprintln(w, "NODE\tSTATE\tSILENT\tFENCE\tADDRESS\tVERSION\tSTARTED\tUNREAD\tDIFFERS\tHOME")
	for _, n := range page.Data {
		id := n.ID
		if n.Self {
			id += " *"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%d\t%s\t%s\n", id, n.StateText(), silence(n), n.Fence, cmp.Or(n.Address, "-"),
			n.Version, stamp(n.Started), n.Unread, cmp.Or(strings.Join(n.Differs, ","), "-"), n.Home)
	}
	more(w, page.Next)
}

// more says how to go on.
func more(w io.Writer, next string) {
	if next != "" {
		fmt.Fprintf(w, "There may be more: --after %s\n", next)
	}
}

func silence(n admin.ClusterNode) string {
	if n.State == "gone" {
		return "-"
	}
	return (time.Duration(n.SilentMS) * time.Millisecond).Round(100 * time.Millisecond).String()
}

func clusterGrants() *cobra.Command {
	var account, node, after string
	var rowsMax int
	cmd := &cobra.Command{
		Use: "grants", Short: "List what nodes may give of accounts without asking", Args: cobra.NoArgs,
		Long: `List what nodes may give of accounts without asking the database: permits, tokens
and money that a busy account lends to a node for some seconds. What is lent and
what runs are together never more than the account has. PERMITS, TOKENS and MONEY are
what no request has taken yet, as the database knows it.`,
		Example: `  corenode cluster grants
  corenode cluster grants --account alice --json`,
	}
	cmd.Flags().StringVar(&account, "account", "", "only of this account, by name or id")
	cmd.Flags().StringVar(&node, "node", "", "only of this node")
	if err := cmd.RegisterFlagCompletionFunc("node", nodeIDs); err != nil {
		panic(err) // there is no such flag
	}
	pageFlags(cmd, &after, &rowsMax, "the last row of the page before, as account id/node")
	cmd.RunE = existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
		q := url.Values{"limit": {strconv.Itoa(rowsMax)}}
		setGiven(q, map[string]string{"account": account, "node": node, "after": after})
		return printed(printGrants)(c.ClusterGrants(q))
	})
	return cmd
}

func printGrants(w io.Writer, page admin.ClusterGrants) {
	fmt.Fprintln(w, "ACCOUNT\tNODE\tPERMITS\tTOKENS\tMONEY\tUNTIL\tWANTED")
	for _, g := range page.Data {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t$%s\t%s\t%t\n", g.AccountID, g.Node, g.Permits, g.Tokens, builtin.FormatUSD(g.NanoUSD),
			stamp(g.Until), g.Wanted)
	}
	more(w, page.Next)
}

func clusterDrain() *cobra.Command {
	return &cobra.Command{
		Use: "drain NODE", Short: "Tell a node to refuse new work and stop when its requests have ended", Args: cobra.ExactArgs(1),
		Long: `Tell a node to refuse new work and stop when its requests have ended, as corenode
drain does on the node's own machine. It learns of it within a second or so; cluster
nodes shows how it is. NODE is an id of cluster nodes.`,
		Example:           `  corenode cluster drain node_0123456789abcdef`,
		ValidArgsFunction: firstOf(nodeIDs),
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			text := func(w io.Writer, id string) { fmt.Fprintf(w, "The node %s is told to drain.\n", id) }
			return printed(text)(args[0], c.DrainNode(args[0]))
		}),
	}
}

// nodeIDs completes the ids of live nodes, as the running node of the data folder knows them.
func nodeIDs(cmd *cobra.Command, _ []string, _ string) (ids []cobra.Completion, _ cobra.ShellCompDirective) {
	dir, err := cmd.Flags().GetString("data-dir")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	c, err := admin.Dial(dir)
	if err != nil { // nobody is there to ask: nothing is offered
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	page, err := c.ClusterNodes(nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, n := range page.Data {
		if n.Live {
			ids = append(ids, cobra.CompletionWithDesc(n.ID, strings.TrimSpace(n.StateText()+" "+n.Address)))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// firstOf completes the first argument and no other one.
func firstOf(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, begun)
	}
}
