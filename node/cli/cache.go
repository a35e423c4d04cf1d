package cli

import (
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"corenode/node/admin"
)

func cacheCommand() *cobra.Command {
	return group("cache", "See what lies in the prefix caches, and why requests did not share it",
		`What the models of a running node have cached of prompts and answers, and why two requests
did not share it. No text is shown: the node does not know it any more.`,
		`  corenode cache list --account alice
  corenode cache why req_01j9x2v7k3m8 req_01j9x2v9p5q2`,
		cacheList(), cacheWhy())
}

func cacheList() *cobra.Command {
	var model, of string
	var rowsMax int
	cmd := &cobra.Command{
		Use: "list", Short: "List the prefixes of most worth", Args: cobra.NoArgs,
		Long: `List the prefixes that saved most tokens, and what accounts have in the cache. HITS is how
many requests went on from exactly the end of a prefix, SAVED its tokens times these. A
prefix with pins is kept for sessions; one with a snapshot can be used by models with
recurrent layers.`,
		Example: `  corenode cache list
  corenode cache list --model core-1.1 --account alice --limit 10`,
	}
	f := cmd.Flags()
	f.StringVar(&model, "model", "", "only of this model")
	f.StringVar(&of, "account", "", "only of this account, by its name or id")
	f.IntVar(&rowsMax, "limit", 100, "most prefixes of a model, 1 to 100")
	cmd.RunE = existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
		query := url.Values{"limit": {fmt.Sprint(rowsMax)}}
		setGiven(query, map[string]string{"account": of, "model": model})
		return printed(printCache)(c.Cache(query))
	})
	return cmd
}

func printCache(w io.Writer, look admin.CacheLook) {
	for _, m := range look.Models {
		fmt.Fprintf(w, "%s: %d of %d pages of %d tokens cached, %d pinned; %d snapshots; %d pages evicted\n\n",
			m.Model, m.PagesCached, m.Pages, m.PageTokens, m.PagesPinned, m.Snapshots, m.Evicted)
		fmt.Fprintln(w, "PREFIX\tACCOUNT\tTOKENS\tHITS\tSAVED\tLAST USE\tRUNNING\tPINS\tSNAPSHOT")
		for _, p := range m.Prefixes {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%d\t%d\t%v\n", p.ID, p.AccountID, p.Tokens, p.Hits, p.Saved, stamp(p.LastUse),
				p.Running, p.Pins, p.Snapshot)
		}
		fmt.Fprintln(w, "\nACCOUNT\tPAGES\tPINNED\tPINS\tSNAPSHOTS PINNED\tRUNNING\tEVICTED")
		for _, a := range m.Accounts {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", a.AccountID, a.Pages, a.Pinned, a.Pins, a.Snapshots, a.Running, a.Evicted)
		}
		fmt.Fprintln(w)
	}
}

func cacheWhy() *cobra.Command {
	return &cobra.Command{
		Use: "why REQUEST REQUEST", Short: "Say why two requests did not share what was cached", Args: cobra.ExactArgs(2),
		Long: `Say where the prompts of two requests part and what kept the later one from using more of
what the earlier one had left in the cache. The node remembers how prompts began as hashes of
their pages, of as many of the latest requests as fit in 1 MiB. The position is exact to the
token while both prompts run or are cached, else to the page.`,
		Example: `  corenode cache why req_01j9x2v7k3m8 req_01j9x2v9p5q2`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			return printed(printUnshared)(c.WhyUnshared(args[0], args[1]))
		}),
	}
}

func printUnshared(w io.Writer, u admin.Unshared) {
	fmt.Fprintf(w, "%s\n\nREQUEST\tACCOUNT\tMODEL\tMATCHED\tPROMPT\tCACHED\n", u.Sentence)
	for _, t := range []admin.TrailShown{u.Earlier, u.Later} {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\n", t.ID, t.AccountID, t.Model, stamp(t.Matched), t.Prompt, t.Cached)
	}
}
