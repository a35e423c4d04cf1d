package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"corenode/node/admin"
)

func keyCommand() *cobra.Command {
	return group("key", "Make, list and revoke keys",
		`Keys are the secrets that clients send. An account may have several, so that one
can be replaced while the other still works. A secret is shown once, when it is
made; only its hash is stored.`,
		`  corenode key create alice --expires 720h
  corenode key list alice
  corenode key revoke key_0123456789abcdef0123`,
		keyCreate(), keyList(), keyRevoke())
}

func keyCreate() *cobra.Command {
	var expires string
	cmd := &cobra.Command{
		Use: "create ACCOUNT", Short: "Make another key of an account", Args: cobra.ExactArgs(1),
		Example: `  corenode key create alice
  corenode key create alice --expires 720h
  corenode key create alice --expires 2030-01-31`,
	}
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: a duration from now, a date in UTC or a time (default never)")
	cmd.RunE = existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
		end, err := parseExpiry(expires, time.Now())
		if err != nil {
			return result{}, err
		}
		return printed(func(w io.Writer, made admin.Key) {
			fmt.Fprintf(w, "Key %s, shown this once:\n%s\n", made.ID, made.Secret)
		})(c.CreateKey(args[0], admin.NewKey{Expires: end}))
	})
	return cmd
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
	fmt.Fprintln(w, "ID\tBEGINS\tCREATED\tEXPIRES\tLAST USED\tREVOKED")
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n",
			k.ID, k.Hint, stamp(k.Created), stamp(k.Expires), stamp(k.LastUsed), stamp(k.Revoked))
	}
}

func keyRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke KEY_ID", Short: "End a key at once", Args: cobra.ExactArgs(1),
		Long:    "End a key at once. Requests that run are finished and billed. KEY_ID is in key list, not the secret itself.",
		Example: `  corenode key revoke key_0123456789abcdef0123`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			return printed(func(w io.Writer, k admin.Key) { fmt.Fprintf(w, "Key %s is revoked.\n", k.ID) })(c.RevokeKey(args[0]))
		}),
	}
}

// stamp writes a time to the second; never is a dash.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
