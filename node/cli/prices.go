package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

func pricesCommand() *cobra.Command {
	return group("prices", "Show what models cost, and set it for all nodes of a database",
		`Nodes that share a database list the prices that it has: those of a model come from the
configuration of the first node that serves it. A node whose configuration says something
else quotes at the listed prices all the same, and its readiness says so. A reload of a
configuration whose prices were changed lists the changed ones; "apply" lists all of them.`,
		`  corenode prices list
  corenode prices apply`,
		&cobra.Command{
			Use: "list", Short: "List the prices of a million tokens, in USD", Args: cobra.NoArgs,
			Long:    `List the prices of a million tokens, in USD: what is quoted, and what the configuration of this node says.`,
			Example: `  corenode prices list --json`,
			RunE: existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
				return printed(printPrices)(c.Prices())
			}),
		},
		&cobra.Command{
			Use: "apply", Short: "List the prices of this node's configuration on all nodes", Args: cobra.NoArgs,
			Long: `List the prices of this node's configuration on all nodes of its database. Requests that
were quoted before are charged what they were quoted.`,
			Example: `  corenode prices apply`,
			RunE: existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
				return printed(printPrices)(c.ApplyPrices())
			}),
		})
}

func printPrices(w io.Writer, all []admin.ModelPrices) {
	million := func(p admin.TokenPrices) string {
		usd := func(n int64) string { return builtin.FormatUSD(abi.Nano(n * 1_000_000)) }
		return fmt.Sprintf("%s\t%s\t%s", usd(int64(p.InputNanoUSD)), usd(int64(p.CachedInputNanoUSD)), usd(int64(p.OutputNanoUSD)))
	}
	fmt.Fprintln(w, "MODEL\tPRICES\tINPUT\tCACHED\tOUTPUT")
	for _, m := range all {
		fmt.Fprintf(w, "%s\tlisted\t%s\n", m.Model, million(m.Listed))
		if !m.Same {
			fmt.Fprintf(w, "%s\tconfigured\t%s\n", m.Model, million(m.Configured))
		}
	}
}
