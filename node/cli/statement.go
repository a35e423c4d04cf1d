package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"corenode/actors/account"
	"corenode/node/admin"
	"corenode/node/store"
	"corenode/wasm/builtin"
)

func ledgerShow() *cobra.Command {
	return &cobra.Command{
		Use: "show REQUEST", Short: "Show what a request cost, and why", Args: cobra.ExactArgs(1),
		Long: `REQUEST is the id of a request (X-Llm-Request-Id) or of its settlement. Beside a
running node each charge is explained line by line: the module that made it runs
again on the input that it had.`,
		Example: `  corenode ledger show req_01j9x2v7k3m8`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			return printed(printExplained)(c.Explain(args[0]))
		}),
	}
}

func printExplained(w io.Writer, e admin.ExplainedCharge) {
	state := "charged $" + e.ChargedUSD
	if e.Open {
		state = "runs, or its settlement is not written yet"
	}
	fmt.Fprintf(w, "request\t%s\naccount\t%s (%s)\nstate\t%s\n", e.RequestID, e.Account, e.AccountID, state)
	for _, row := range e.Rows {
		printExplainedRow(w, row)
	}
}

func printExplainedRow(w io.Writer, row admin.ExplainedRow) {
	e := row.Entry
	fmt.Fprintf(w, "\n%s\trow %d, %s\n", rowName(e), e.ID, e.Time.UTC().Format(time.RFC3339Nano))
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "  %s\t%s\n", name, value)
		}
	}
	line("model", e.Model)
	line("key", e.KeyID)
	line("ended as", string(e.Reason))
	line("answered by", strings.TrimSpace(e.Replica+" "+e.UpstreamRequestID))
	if e.Kind == account.Hold {
		line("reserved", "$"+builtin.FormatUSD(e.HeldNanoUSD))
		return
	}
	u := e.Usage
	if u != nil && !e.Refund {
		line("input", fmt.Sprintf("%d tokens, and %d from the cache", u.InputUncached+u.CacheWrite, u.CacheRead))
		line("output", fmt.Sprintf("%d tokens, %d of them thinking", u.Output, u.Reasoning))
	}
	line("module", e.ModuleDigest)
	for _, l := range row.Lines {
		line(l.Unit, fmt.Sprintf("%d at %d = %d nano-dollars", l.Tokens, l.PriceNanoUSD, l.AmountNanoUSD))
	}
	if e.Kind == account.Adjustment && !e.Refund {
		line("charged before", fmt.Sprintf("%d nano-dollars", row.BeforeNanoUSD))
	}
	line("not explained", row.Unexplained)
	if e.Provisional {
		line("provisional", "the built-in tariff made it in place of the module; see module re-rate")
	}
	if e.Tier > 1 {
		line("tier", fmt.Sprintf("%d, for its long context", e.Tier))
	}
	line("note", e.Note)
	line("balance", fmt.Sprintf("%s (%d nano-dollars)", dollars(signed(e.AmountUSD)), e.AmountNanoUSD))
}

// dollars is an amount with its unit, behind a sign if it has one.
func dollars(amount string) string {
	digits := strings.TrimLeft(amount, "+-")
	return strings.TrimSuffix(amount, digits) + "$" + digits
}

// signed says of an amount that it is added.
func signed(amount string) string {
	if strings.HasPrefix(amount, "-") {
		return amount
	}
	return "+" + amount
}

// rowName is what people call a row.
func rowName(e admin.Entry) string {
	switch {
	case e.Refund:
		return "refund"
	case e.Kind == account.Adjustment:
		return "re-rating"
	}
	return string(e.Kind)
}

func ledgerList() *cobra.Command {
	var of, model, key, kind, since, until string
	var newest bool
	var rowsMax int
	cmd := &cobra.Command{
		Use: "list [ACCOUNT]", Short: "List what moved money: top-ups, charges and their adjustments", Args: cobra.MaximumNArgs(1),
		Long: `List what moved money, oldest first: top-ups, settlements and adjustments. Dates
are days of UTC. --json prints one object per line, money as integers of nano-dollars.`,
		Example: `  corenode ledger list alice --since 2026-01-31 --until 2026-02-01
  corenode ledger list --model core-1.1 --kind adjustment
  corenode ledger list --key key_0123456789abcdef0123 --newest --limit 20`,
	}
	f := cmd.Flags()
	f.StringVar(&of, "account", "", "only of this account, by its name or id, as ACCOUNT does")
	f.StringVar(&model, "model", "", "only of this model")
	f.StringVar(&key, "key", "", "only of this key, by its id")
	f.StringVar(&kind, "kind", "", "only topup, settlement or adjustment")
	f.StringVar(&since, "since", "", "only rows of this date, in UTC, or time and later")
	f.StringVar(&until, "until", "", "only rows before this date, in UTC, or time")
	f.BoolVar(&newest, "newest", false, "newest first")
	f.IntVar(&rowsMax, "limit", 0, "most rows (0 = all)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			if of != "" && of != args[0] {
				return fmt.Errorf("the account is %s, and --account says %s: name one", args[0], of)
			}
			of = args[0]
		}
		if rowsMax < 0 {
			return fmt.Errorf("--limit is %d, want 0 (all) or more", rowsMax)
		}
		query, err := bounds(since, until)
		if err != nil {
			return err
		}
		query.Set("newest", strconv.FormatBool(newest))
		setGiven(query, map[string]string{"account": of, "model": model, "key": key, "kind": kind})
		return existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
			return result{value: pages(func(w io.Writer, asJSON bool) error { return statement(c, w, asJSON, query, rowsMax) })}, nil
		})(cmd, nil)
	}
	return cmd
}

// bounds makes a query of the flags --since and --until.
func bounds(since, until string) (url.Values, error) {
	query := url.Values{}
	for _, b := range [][2]string{{"since", since}, {"until", until}} {
		at, err := parseBound(b[0], b[1])
		if err != nil {
			return nil, err
		}
		if !at.IsZero() {
			query.Set(b[0], at.Format(time.RFC3339Nano))
		}
	}
	return query, nil
}

// errEnough ends the pages of a list.
var errEnough = errors.New("enough rows")

func statement(c *admin.Client, to io.Writer, asJSON bool, query url.Values, rowsMax int) error {
	write := rowsAsJSON(to)
	if !asJSON {
		write = rowsAsTable(tabwriter.NewWriter(to, 0, 0, 2, ' ', 0))
	}
	left := cmp.Or(rowsMax, -1)
	if left > 0 && left < store.EntriesMax {
		query.Set("limit", strconv.Itoa(left))
	}
	err := c.Statement(query, func(page []admin.Entry) error {
		if left >= 0 && len(page) >= left {
			return cmp.Or(write(page[:left]), errEnough)
		}
		left -= len(page)
		return write(page)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func rowsAsTable(w *tabwriter.Writer) func([]admin.Entry) error {
	fmt.Fprintln(w, "ROW\tTIME\tKIND\tACCOUNT\tREQUEST\tMODEL\tINPUT\tCACHED\tOUTPUT\tUSD\tENDED")
	return func(page []admin.Entry) error {
		for _, e := range page {
			var u admin.Usage
			if e.Usage != nil {
				u = *e.Usage
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n",
				e.ID, stamp(e.Time), rowName(e), e.AccountID, e.RequestID, e.Model,
				u.InputUncached+u.CacheWrite, u.CacheRead, u.Output, signed(e.AmountUSD), e.Reason)
		}
		return w.Flush()
	}
}

func accountUsage() *cobra.Command {
	var by, since, until string
	cmd := &cobra.Command{
		Use: "usage NAME", Short: "Show what an account used and was charged, as sums", Args: cobra.ExactArgs(1),
		Long: `Show the sums of an account's requests, tokens and charges, by day (UTC), model and
key, or some of these. What was given back counts on the day on which it was.`,
		Example: `  corenode account usage alice --by day,model
  corenode account usage alice --by key --since 2026-01-01 --until 2026-01-31`,
	}
	f := cmd.Flags()
	f.StringVar(&by, "by", "day,model", `some of day, model, key, separated by commas; "" adds all up`)
	f.StringVar(&since, "since", "", "from this day on, UTC")
	f.StringVar(&until, "until", "", "to this day, included")
	mayBeEmpty(cmd, "by")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query, err := bounds(since, until)
		if err != nil {
			return err
		}
		query.Set("by", by)
		return existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			return printed(printUsage)(c.Usage(args[0], query))
		})(cmd, args)
	}
	return cmd
}

func printUsage(w io.Writer, sums []admin.UsageSum) {
	fmt.Fprintln(w, "DAY\tMODEL\tKEY\tREQUESTS\tINPUT\tCACHED\tOUTPUT\tTHINKING\tUSD")
	total := admin.UsageSum{Day: "total"}
	for _, sum := range sums {
		printUsageSum(w, sum)
		total.Requests += sum.Requests
		total.ChargedNanoUSD += sum.ChargedNanoUSD
		t, u := &total.Usage, sum.Usage
		t.InputUncached, t.CacheRead, t.CacheWrite = t.InputUncached+u.InputUncached, t.CacheRead+u.CacheRead, t.CacheWrite+u.CacheWrite
		t.Output, t.Reasoning = t.Output+u.Output, t.Reasoning+u.Reasoning
	}
	total.ChargedUSD = builtin.FormatUSD(total.ChargedNanoUSD)
	printUsageSum(w, total)
}

func printUsageSum(w io.Writer, sum admin.UsageSum) {
	u := sum.Usage
	fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n",
		cmp.Or(sum.Day, "-"), cmp.Or(sum.Model, "-"), cmp.Or(sum.KeyID, "-"), sum.Requests,
		u.InputUncached+u.CacheWrite, u.CacheRead, u.Output, u.Reasoning, sum.ChargedUSD)
}
