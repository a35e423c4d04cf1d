package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"corenode/node/admin"
)

func keyCommand() *cobra.Command {
	return group("key", "Make, limit, list and revoke keys",
		`Keys are the secrets that clients send. An account may have several, so that one
can be replaced while the other still works. A secret is shown once, when it is
made; only its hash is stored.

A key may have limits beside those of its account: models, tokens per minute, and
a budget of dollars for each calendar month (UTC).`,
		`  corenode key create alice --expires 720h --budget 20
  corenode key set key_0123456789abcdef0123 --tokens-per-minute 50000
  corenode key list alice
  corenode key revoke key_0123456789abcdef0123`,
		keyCreate(), keySet(), keyShow(), keyList(), keyRevoke())
}

// keyFlags are the limits of a key as they are typed.
type keyFlags struct {
	models          []string
	tokensPerMinute int64
	budget          string
}

// keyFlagNames are their flags.
var keyFlagNames = []string{"models", "tokens-per-minute", "budget"}

// add adds them to a command; all is how to give all models.
func (k *keyFlags) add(cmd *cobra.Command, all string) {
	f := cmd.Flags()
	f.Var((*modelIDs)(&k.models), "models", "model ids it may use, separated by commas ("+all+" all of its account)")
	f.Int64Var(&k.tokensPerMinute, "tokens-per-minute", 0, "tokens per minute, beside the account's (0 = no limit)")
	f.StringVar(&k.budget, "budget", "", "dollars that it may be charged in a calendar month, UTC (0 = no limit)")
}

func keyCreate() *cobra.Command {
	var expires string
	var limits keyFlags
	cmd := &cobra.Command{
		Use: "create ACCOUNT", Short: "Make another key of an account", Args: cobra.ExactArgs(1),
		Example: `  corenode key create alice
  corenode key create alice --expires 720h
  corenode key create alice --expires 2030-01-31
  corenode key create alice --models core-1.1-mini --tokens-per-minute 50000 --budget 12.50`,
	}
	limits.add(cmd, "default")
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: a duration from now, a date in UTC or a time (default never)")
	cmd.RunE = existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
		end, err := parseExpiry(expires, time.Now())
		if err != nil {
			return result{}, err
		}
		made, err := c.CreateKey(args[0], admin.NewKey{Expires: end, Models: limits.models,
			TokensPerMinute: limits.tokensPerMinute,
			Budget:          admin.Amount{USD: limits.budget}})
		done, err := printed(func(w io.Writer, made admin.Key) {
			fmt.Fprintf(w, "Key %s, shown this once:\n%s\n", made.ID, made.Secret)
		})(made, noteModels(c, cmd, limits.models, err))
		return shownOnce(cmd, done, fmt.Sprintf("key %s is made, and was not shown; corenode key revoke %[1]s ends it", made.ID)), err
	})
	return cmd
}

func keySet() *cobra.Command {
	var limits keyFlags
	cmd := &cobra.Command{
		Use: "set KEY_ID", Short: "Change limits of a key", Args: cobra.ExactArgs(1),
		Long: `Change what is given and leave the rest. Requests that start after the command
see it. What was charged this month counts against a new budget too.`,
		Example: `  corenode key set key_0123456789abcdef0123 --budget 20 --models core-1.1-mini
  corenode key set key_0123456789abcdef0123 --budget 0 --models ""     # no limit of its own`,
	}
	limits.add(cmd, `"" =`)
	mayBeEmpty(cmd, "models")
	cmd.MarkFlagsOneRequired(keyFlagNames...)
	cmd.RunE = existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
		k, err := c.ChangeKey(args[0], admin.KeyChange{
			Models:          given(cmd, "models", &limits.models),
			TokensPerMinute: given(cmd, "tokens-per-minute", &limits.tokensPerMinute),
			Budget:          given(cmd, "budget", &admin.Amount{USD: limits.budget}),
		})
		return printed(printKey)(k, noteModels(c, cmd, limits.models, err))
	})
	return cmd
}

func keyShow() *cobra.Command {
	return &cobra.Command{
		Use: "show KEY_ID", Short: "Show a key, its limits and what of its budget is spent this month", Args: cobra.ExactArgs(1),
		Example: `  corenode key show key_0123456789abcdef0123`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			return printed(printKey)(c.Key(args[0]))
		}),
	}
}

func printKey(w io.Writer, k admin.Key) {
	for _, line := range [][2]string{
		{"id", k.ID}, {"account", k.AccountID}, {"begins", k.Hint}, {"created", stamp(k.Created)}, {"expires", stamp(k.Expires)},
		{"last used", stamp(k.LastUsed)}, {"revoked", stamp(k.Revoked)},
		{"models", cmp.Or(strings.Join(k.Models, ","), "all of its account")},
		{"tokens per minute", limit(k.TokensPerMinute)}, {"budget", budget(k)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
	}
}

// budget says what of a key's budget is spent.
func budget(k admin.Key) string {
	if k.Budget == 0 {
		return "no limit"
	}
	return fmt.Sprintf("$%s of $%s this month", k.ChargedUSD, k.BudgetUSD)
}

// parseExpiry reads a duration, a date (UTC, its first moment) or a time; empty is never.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	end, err := parseTime(text)
	if d, notDuration := time.ParseDuration(text); notDuration == nil {
		end, err = now.Add(d), nil
	}
	if err != nil {
		return end, fmt.Errorf("--expires is %q, want such as 720h, 2030-01-31 or 2030-01-31T12:00:00Z", text)
	}
	if !end.After(now) {
		return end, fmt.Errorf("--expires is %q, which is over already", text)
	}
	return end, nil
}

// parseTime reads a date (UTC, its first moment) or a time.
func parseTime(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.Parse(time.DateOnly, text)
	}
	return at, err
}

func keyList() *cobra.Command {
	return &cobra.Command{
		Use: "list ACCOUNT", Short: "List the keys of an account", Args: cobra.ExactArgs(1),
		Example: `  corenode key list alice`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			return printed(printKeys)(c.Keys(args[0]))
		}),
	}
}

func printKeys(w io.Writer, keys []admin.Key) {
	fmt.Fprintln(w, "ID\tBEGINS\tCREATED\tEXPIRES\tLAST USED\tREVOKED\tMODELS\tTOKENS/MINUTE\tBUDGET")
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Hint, stamp(k.Created), stamp(k.Expires),
			stamp(k.LastUsed), stamp(k.Revoked), cmp.Or(strings.Join(k.Models, ","), "all"), limit(k.TokensPerMinute), budget(k))
	}
}

func keyRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke KEY_ID", Short: "End a key at once", Args: cobra.ExactArgs(1),
		Long: `End a key at once. Requests that run are finished and billed. KEY_ID is in key list,
not the secret itself. Where nodes share a database the command ends when each of
them refuses the key, after 10 s at most: then it names those that did not say so, and
the status is 1.`,
		Example: `  corenode key revoke key_0123456789abcdef0123`,
		RunE: existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
			k, err := c.RevokeKey(args[0])
			done, err := printed(func(w io.Writer, k admin.Key) { fmt.Fprintf(w, "Key %s is revoked.\n", k.ID) })(k, err)
			if err == nil && len(k.UnawareNodes) > 0 {
				err = done.although(cmd, unaware("the key is revoked", k.UnawareNodes))
			}
			return done, err
		}),
	}
}

// unaware is an error that names nodes which did not say in time that they know what was done.
func unaware(done string, nodes []string) error {
	return fmt.Errorf("%s, but these nodes did not say in time that they know: %s; see corenode cluster nodes, and do it again",
		done, strings.Join(nodes, ", "))
}

// stamp writes a time to the second; never is a dash.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
