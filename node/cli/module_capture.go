package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"corenode/extensions/capture"
	"corenode/node/admin"
	"corenode/wasm/builtin"
)

func moduleCapture() *cobra.Command {
	var span time.Duration
	var account string
	var off bool
	cmd := &cobra.Command{
		Use: "capture SLOT", Short: "Keep what requests ask of a slot in the node's memory, for module dev", Args: cobra.ExactArgs(1),
		Long: `With --for the node keeps what its modules are asked, for so long and of the account
that is named, or of all. It is kept in memory only, at most 8 MiB and 1000 requests:
on no disk, in no backup, log or trace. It is forgotten an hour after that time, at
a restart, and with --off. The node's log says who was captured, and when. SLOT is
chat, responses, billing, admission, a later place of it such as admission.2, or
another module's protocol: nothing can be kept of rewrite and filter modules.

module dev and module compare run it on an old and a new build. What they show of a
difference are texts of those requests: capture an account that is yours.
Without --for it prints what is kept.`,
		Example: `  corenode module capture chat --for 5m --account me
  corenode module capture chat
  corenode module capture chat --off`,
	}
	f := cmd.Flags()
	f.DurationVar(&span, "for", 0, "how long requests are taken, at most 1h")
	f.StringVar(&account, "account", "", "whose requests, by `name` or id (default all)")
	f.BoolVar(&off, "off", false, "forget what is kept, and take no more")
	cmd.MarkFlagsMutuallyExclusive("for", "off")
	cmd.MarkFlagsMutuallyExclusive("account", "off")
	cmd.RunE = existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
		switch {
		case off:
			return result{struct{}{}, func(w io.Writer) { fmt.Fprintf(w, "Nothing is kept of %s.\n", args[0]) }}, c.EndCapture(args[0])
		case span > 0 && span < time.Second, span < 0:
			return result{}, fmt.Errorf("--for is %v, want at least 1s", span)
		case span > 0:
			return printed(printCapture)(c.Capture(args[0], admin.NewCapture{Seconds: int(span / time.Second), Account: account}))
		case account != "":
			return result{}, errors.New("--account needs --for")
		}
		return printed(printCapture)(c.Captured(args[0]))
	})
	return cmd
}

func printCapture(w io.Writer, s capture.Status) {
	whose := "of all accounts"
	if s.Account != "" {
		whose = "of " + s.Account
	}
	fmt.Fprintf(w, "Slot %s: %d requests %s, %d KB in memory. It takes requests until %s UTC.\n", s.Slot, s.Requests, whose,
		(s.Bytes+1023)>>10, s.Until.UTC().Format(time.TimeOnly))
	if s.Missed > 0 {
		fmt.Fprintf(w, "There was no room for %d more.\n", s.Missed)
	}
}

func moduleCompare() *cobra.Command {
	return &cobra.Command{
		Use: "compare MODULE [OLDER]", Short: "Run captured requests on two builds and show what differs", Args: cobra.RangeArgs(1, 2),
		Long: `Run what module capture kept on MODULE and on OLDER, or without it on what served
before it or serves now. Both are in memory already; neither need serve. It shows
the sums of tokens, dollars and ticks and the first differences, with their texts.`,
		Example: `  corenode module compare discount@1.1.0`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			return printed(printCompared)(c.CompareModule(args[0], append(args, "")[1]))
		}),
	}
}

// printCompared writes a report for people. A line without tabs ends a table.
func printCompared(w io.Writer, r capture.Report) {
	fmt.Fprintf(w, "%d captured requests on %s and %s: %d differ", r.Requests, r.Old, r.New, r.Differ)
	if r.Failed > 0 {
		fmt.Fprintf(w, ", on %d only the new one faults", r.Failed)
	}
	fmt.Fprintln(w, ".")
	if r.Left > 0 {
		fmt.Fprintf(w, "There was no time for %d more.\n", r.Left)
	}
	if len(r.Operations) > 0 {
		fmt.Fprintln(w, "OPERATION\tANSWERS\tDIFFER\tOLD TICKS\tNEW TICKS\tCHANGE")
	}
	for _, o := range r.Operations {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", o.Op, o.Answers, o.Differ, o.OldTicks, o.NewTicks, percentChange(o.OldTicks, o.NewTicks))
	}
	if r.OldTokens > 0 || r.NewTokens > 0 {
		fmt.Fprintf(w, "Tokens: %d, were %d.\n", r.NewTokens, r.OldTokens)
	}
	if r.Charges > 0 {
		fmt.Fprintf(w, "Dollars of %d charges: $%s, were $%s, %s.\n", r.Charges, builtin.FormatUSD(r.NewNanoUSD),
			builtin.FormatUSD(r.OldNanoUSD), changeOf(r.OldNanoUSD, r.NewNanoUSD))
	}
	for _, d := range r.First {
		fmt.Fprintf(w, "\n%s of %s, %s:\n%s\n", d.Request, d.Account, d.Op, d.Text)
	}
}

// percentChange says how much more or less n is.
func percentChange(older, newer int64) string {
	if older == 0 || older == newer {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100*(float64(newer)/float64(older)-1))
}
