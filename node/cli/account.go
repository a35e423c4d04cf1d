package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"corenode/node/admin"
)

func accountCommand() *cobra.Command {
	return group("account", "Make, show, pay and limit accounts",
		`Accounts are who is limited and billed. A key acts for an account.

With a node running on the data folder these commands talk to it and take effect
at once; otherwise they change the folder. Amounts are dollars, exact to the
nano-dollar. NAME is an account's name or its id.`,
		`  corenode account create alice --balance 10
  corenode account topup alice 25.50 --note "invoice 17"
  corenode account set alice --concurrency 4 --tokens-per-minute 200000
  corenode account show alice --json`,
		accountCreate(), accountList(), accountShow(), accountUsage(), accountTopUp(), accountSet(),
		accountSwitch("disable", "Refuse every key of an account", "Requests that run are finished and billed.", true),
		accountSwitch("enable", "Accept the keys of an account again", "Those that were revoked or have expired stay so.", false))
}

func accountCreate() *cobra.Command {
	var asked admin.NewAccount
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an account and its first key",
		Long: `Make an account and its first key, which is printed once and stored nowhere.

Without limits an account may do as much as its balance pays for. Without a
balance all that costs something is refused with 402, unless it is --unlimited:
prompts are counted, models are listed, and models without a price answer.`,
		Example: `  corenode account create alice --balance 10
  corenode account create batch --balance 100 --concurrency 8 --models core-1.1-mini
  KEY=$(corenode account create ci --unlimited --json | jq -r .key)`,
		Args: cobra.ExactArgs(1),
		RunE: orNew(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
			asked.Name = args[0]
			made, err := c.CreateAccount(asked)
			done, err := printed(printCreated)(made, noteModels(c, cmd, asked.Models, err))
			return shownOnce(cmd, done, fmt.Sprintf("account %s is made, and its key was not shown; "+
				"corenode key create %[1]s makes another", made.Name)), err
		}),
	}
	f := cmd.Flags()
	f.StringVar(&asked.Balance.USD, "balance", "", "dollars to start with, such as 12.50 (default 0)")
	f.IntVar(&asked.Concurrency, "concurrency", 0, "requests at once (0 = no limit)")
	f.Int64Var(&asked.TokensPerMinute, "tokens-per-minute", 0, "tokens per minute (0 = no limit)")
	f.Var((*modelIDs)(&asked.Models), "models", "model ids it may use, separated by commas (default all)")
	f.BoolVar(&asked.Unlimited, "unlimited", false, "check no money; usage is recorded all the same")
	return cmd
}

func printCreated(w io.Writer, made admin.CreatedAccount) {
	fmt.Fprintf(w, "Account %s (%s) has a balance of $%s.\n", made.Name, made.ID, made.BalanceUSD)
	fmt.Fprintf(w, "Its key, shown this once:\n%s\n", made.Key)
}

func accountList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List all accounts", Args: cobra.NoArgs,
		Example: `  corenode account list`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
			return result{value: pages(func(w io.Writer, asJSON bool) error {
				if asJSON {
					return listJSON(c, w)
				}
				return listText(c, w)
			})}, nil
		}),
	}
}

// listText writes a table, its columns lined up page by page.
func listText(c *admin.Client, w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tID\tBALANCE\tHELD\tCONCURRENCY\tTOKENS/MINUTE\tMODELS\tSTATE")
	err := c.AccountPages(func(page []admin.Account) error {
		for _, a := range page {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Name, a.ID, dollars(a.BalanceUSD), dollars(a.HeldUSD),
				limit(int64(a.Concurrency)), limit(a.TokensPerMinute), models(a), state(a))
		}
		return table.Flush()
	})
	return errors.Join(err, table.Flush()) // the header, when there is no account
}

// listJSON writes one array, whatever the number of pages.
func listJSON(c *admin.Client, w io.Writer) error {
	before := "[\n  " // the next account
	err := c.AccountPages(func(page []admin.Account) error {
		for _, a := range page {
			text, err := json.MarshalIndent(a, "  ", "  ")
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s%s", before, text); err != nil {
				return err
			}
			before = ",\n  "
		}
		return nil
	})
	if err != nil {
		return err
	}
	end := "\n]\n"
	if before[0] == '[' {
		end = "[]\n"
	}
	_, err = io.WriteString(w, end)
	return err
}

func accountShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show an account and its money", Args: cobra.ExactArgs(1),
		Example: `  corenode account show alice
  corenode account show alice --json | jq .balance_nano_usd`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			return printed(printAccount)(c.Account(args[0]))
		}),
	}
}

func accountTopUp() *cobra.Command {
	var asked admin.TopUp
	cmd := &cobra.Command{
		Use: "topup NAME USD", Short: "Add money to an account",
		Long: `Add money to an account. A negative amount is a correction; write -- before it.

With --idempotency-key the same top-up is done once, however often the command
runs; a script that retries should give one.`,
		Example: `  corenode account topup alice 25.50 --note "invoice 17" --idempotency-key invoice-17
  corenode account topup alice -- -3`,
		Args: cobra.ExactArgs(2),
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			asked.Amount.USD = args[1]
			return printed(printAccount)(c.TopUp(args[0], asked))
		}),
	}
	cmd.Flags().StringVar(&asked.Note, "note", "", "why, for the ledger")
	cmd.Flags().StringVar(&asked.IdempotencyKey, "idempotency-key", "", "do this once, however often it is asked for")
	mayBeEmpty(cmd, "note")
	return cmd
}

func accountSet() *cobra.Command {
	var name string
	var concurrency int
	var tokensPerMinute int64
	var allowed []string
	var unlimited bool
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Change an account's name, limits or models",
		Long: `Change what is given and leave the rest. Requests that start after the command
see it; those that run are not touched.`,
		Example: `  corenode account set alice --concurrency 4 --tokens-per-minute 200000
  corenode account set alice --models core-1.1,core-1.1-mini
  corenode account set alice --models ""     # all models
  corenode account set alice --unlimited=false`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "a new name")
	f.IntVar(&concurrency, "concurrency", 0, "requests at once (0 = no limit)")
	f.Int64Var(&tokensPerMinute, "tokens-per-minute", 0, "tokens per minute (0 = no limit)")
	f.Var((*modelIDs)(&allowed), "models", `model ids it may use, separated by commas ("" = all)`)
	mayBeEmpty(cmd, "models")
	f.BoolVar(&unlimited, "unlimited", false, "check no money")
	flags := []string{"name", "concurrency", "tokens-per-minute", "models", "unlimited"}
	cmd.MarkFlagsOneRequired(flags...)
	cmd.RunE = existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
		a, err := c.ChangeAccount(args[0], admin.AccountChange{
			Name:            given(cmd, "name", &name),
			Concurrency:     given(cmd, "concurrency", &concurrency),
			TokensPerMinute: given(cmd, "tokens-per-minute", &tokensPerMinute),
			Models:          given(cmd, "models", &allowed),
			Unlimited:       given(cmd, "unlimited", &unlimited),
		})
		return printed(printAccount)(a, noteModels(c, cmd, allowed, err))
	})
	return cmd
}

// noteModels tells a person which of the models that were just given the running node does not serve, and passes on
// the error of what was done.
func noteModels(c *admin.Client, cmd *cobra.Command, given []string, err error) error {
	if err != nil {
		return err
	}
	if note := c.Unserved(given); note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	return nil
}

// given returns the value of a flag that was typed, or nil.
func given[T any](cmd *cobra.Command, flag string, value *T) *T {
	if cmd.Flags().Changed(flag) {
		return value
	}
	return nil
}

// setGiven puts what is not empty into a query.
func setGiven(query url.Values, values map[string]string) {
	for name, value := range values {
		if value != "" {
			query.Set(name, value)
		}
	}
}

func accountSwitch(use, short, besides string, disabled bool) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Args: cobra.ExactArgs(1),
		Long:    short + ". " + besides,
		Example: "  corenode account " + use + " alice",
		RunE: existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
			a, err := c.ChangeAccount(args[0], admin.AccountChange{Disabled: &disabled})
			done, err := printed(printAccount)(a, err)
			if err == nil && len(a.UnawareNodes) > 0 {
				err = done.although(cmd, unaware("the account is disabled", a.UnawareNodes))
			}
			return done, err
		}),
	}
}

func printAccount(w io.Writer, a admin.Account) {
	for _, line := range [][2]string{
		{"name", a.Name}, {"id", a.ID}, {"state", state(a)}, {"balance", dollars(a.BalanceUSD)}, {"held", dollars(a.HeldUSD)},
		{"concurrency", limit(int64(a.Concurrency))}, {"tokens per minute", limit(a.TokensPerMinute)},
		{"models", models(a)}, {"created", stamp(a.Created)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
	}
	for _, c := range a.Counters {
		fmt.Fprintf(w, "%s %s\t%d used, %d held; the largest limit so far is %d\n", c.Name, c.Period, c.Used, c.Held, c.Limit)
	}
}

func limit(n int64) string {
	if n == 0 {
		return "no limit"
	}
	return strconv.FormatInt(n, 10)
}

func models(a admin.Account) string {
	return cmp.Or(strings.Join(a.Models, ","), "all")
}

func state(a admin.Account) string {
	switch {
	case a.Disabled:
		return "disabled"
	case a.Unlimited:
		return "unlimited"
	}
	return "active"
}
