package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"corenode/node/admin"
)

func upstreamCommand() *cobra.Command {
	return group("upstream", "List, drain, add and remove the servers that answer a model elsewhere",
		`A model whose engine is upstream is answered by servers elsewhere, its replicas.
These commands act on a running node. What they change is not kept over a restart:
then the configuration counts again. MODEL may be left out where only one model of
the node is answered elsewhere.`,
		`  corenode upstream list
  corenode upstream drain core-1.1 http://10.0.0.7:8000`,
		upstreamList(),
		upstreamChange("drain", "Keep new requests from a replica; those that run go on",
			"It stays in the list and is probed. undrain lets requests come again."),
		upstreamChange("undrain", "Let requests come to a drained replica again", ""),
		upstreamChange("add", "Take a replica in; it answers after its first probe",
			"It stays until it is removed or the node restarts, whatever a reload or the DNS say."),
		upstreamChange("remove", "Forget a replica; requests that run there go on",
			"Drain one that the DNS still names instead: it would join again. The node's own engine,\n"+
				"of a model that nodes share, cannot be removed: drain it."))
}

func upstreamList() *cobra.Command {
	return &cobra.Command{
		Use: "list [MODEL]", Short: "List replicas with their health and load", Args: cobra.MaximumNArgs(1),
		Long: `List replicas with their health and load. QUEUED is how many requests wait in the
replica, as it said itself, AGE ago. PREFIXES is how many parts of prompts it is
thought to have cached.`,
		Example: `  corenode upstream list
  corenode upstream list core-1.1 --json`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			all, err := c.Upstreams()
			if err == nil && len(args) == 1 {
				all, err = onlyModel(all, args[0])
			}
			return printed(printUpstreams)(all, err)
		}),
	}
}

func onlyModel(all []admin.UpstreamModel, model string) ([]admin.UpstreamModel, error) {
	for _, m := range all {
		if m.Model == model {
			return []admin.UpstreamModel{m}, nil
		}
	}
	return nil, fmt.Errorf("no servers elsewhere answer a model %q", model)
}

// upstreamChange is a command that changes one replica.
func upstreamChange(verb, short, more string) *cobra.Command {
	long := short + "."
	if more != "" {
		long += "\n" + more
	}
	return &cobra.Command{
		Use: verb + " [MODEL] URL", Short: short, Args: cobra.RangeArgs(1, 2),
		Long:    long + "\nThe change is not kept over a restart of the node.",
		Example: "  corenode upstream " + verb + " core-1.1 http://10.0.0.7:8000",
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			model, url, err := modelAndURL(c, args)
			if err != nil {
				return result{}, err
			}
			text := func(w io.Writer, m admin.UpstreamModel) { printUpstreams(w, []admin.UpstreamModel{m}) }
			return printed(text)(c.ChangeReplica(model, verb, url))
		}),
	}
}

// modelAndURL reads [MODEL] URL.
func modelAndURL(c *admin.Client, args []string) (model, url string, err error) {
	if len(args) == 2 {
		return args[0], args[1], nil
	}
	all, err := c.Upstreams()
	switch {
	case err != nil:
		return "", "", err
	case len(all) == 0:
		return "", "", errors.New("no model of this node is answered elsewhere")
	case len(all) > 1:
		return "", "", fmt.Errorf("%d models of this node are answered elsewhere: name one before the URL", len(all))
	}
	return all[0].Model, args[0], nil
}

func printUpstreams(w io.Writer, all []admin.UpstreamModel) {
	fmt.Fprintln(w, "MODEL\tREPLICA\tSTATE\tVERSION\tIN FLIGHT\tQUEUED\tAGE\tPREFIXES\tLAST FAILURE")
	for _, m := range all {
		for _, r := range m.Replicas {
			queued, age := "-", "-"
			if r.Queued != nil && r.QueuedAgeMS != nil {
				queued, age = fmt.Sprintf("%.0f", *r.Queued), milliseconds(*r.QueuedAgeMS)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d\t%s\n", m.Model, r.URL, r.State(), cmp.Or(inCell(r.Version), "-"), r.InFlight,
				queued, age, r.Prefixes, cmp.Or(inCell(r.Reason), "-"))
		}
	}
	for _, m := range all {
		if m.Waiting > 0 {
			fmt.Fprintf(w, "%s: %d requests wait for a replica that is not full\n", m.Model, m.Waiting)
		}
	}
}

func milliseconds(n int64) string {
	return (time.Duration(n) * time.Millisecond).Round(100 * time.Millisecond).String()
}
