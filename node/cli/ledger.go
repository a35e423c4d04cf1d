package cli

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/node/store"
)

func ledgerCommand() *cobra.Command {
	return group("ledger", "Explain a charge, list, prove and export the ledger, refund a charge",
		`The ledger is the append-only list of all that moved or reserved money. The
commands work beside a running node and on a data folder without one.`,
		`  corenode ledger show req_01j9x2v7k3m8
  corenode ledger list --account alice --since 2026-01-31
  corenode ledger verify
  corenode ledger export --csv --since 2026-01-01 > january.csv`,
		ledgerShow(), ledgerList(), ledgerVerify(), ledgerExport(), ledgerRefund())
}

func ledgerRefund() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "refund CHARGE", Short: "Take back all that a request was charged", Args: cobra.ExactArgs(1),
		Long: `CHARGE is the id of a request (X-Llm-Request-Id) or of its row in the ledger. The
refund is a row of its own; asking again changes nothing. The node does it by
itself for an answer that it withheld: this is for those that it could not record,
which its log names, and for what you decide to give back.`,
		Example: `  corenode ledger refund req_01j9x2v7k3m8 --note "ticket 12"`,
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the ledger")
	mayBeEmpty(cmd, "note")
	cmd.RunE = existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
		return printed(printRefund)(c.Refund(args[0], note))
	})
	return cmd
}

func printRefund(w io.Writer, r admin.Refunded) {
	if r.Done {
		fmt.Fprintf(w, "$%s was refunded to %s: row %d.\n", r.Entry.AmountUSD, r.Entry.AccountID, r.Entry.ID)
		return
	}
	fmt.Fprintf(w, "It was refunded before: $%s to %s, row %d of %s.\n", r.Entry.AmountUSD, r.Entry.AccountID, r.Entry.ID,
		r.Entry.Time.UTC().Format(time.RFC3339))
}

// errUnsound is what verify ends with when the ledger is not what it should be.
var errUnsound = errors.New("the ledger is not sound")

func ledgerVerify() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Prove that the ledger is sound", Args: cobra.NoArgs,
		Long: `Prove the ledger: balances and sums of usage are those of their rows, no row is missing nor what
it names, requests are settled once, re-rated once and refunded once, refunds take
back all, holds are open or settled and name their last checkpoint, adjustments name
what they adjust and by what module, inputs are what their hashes say, idempotency keys name their top-ups.
The status is 1 if not.`,
		Example: `  corenode ledger verify --json`,
		RunE: existing(func(c *admin.Client, cmd *cobra.Command, _ []string) (result, error) {
			v, err := c.VerifyLedger()
			done, err := printed(printVerification)(v, err)
			if err == nil && len(v.Findings) > 0 {
				err = errors.Join(show(cmd, done), errUnsound)
			}
			return done, err
		}),
	}
}

func printVerification(w io.Writer, v store.Verification) {
	fmt.Fprintf(w, "%d rows, %d accounts, %d charges, %d open holds", v.Rows, v.Accounts, v.Charges, v.OpenHolds)
	if v.Overshot > 0 {
		fmt.Fprintf(w, ", %d that a node lost may have run beyond a limit", v.Overshot)
	}
	fmt.Fprint(w, ": ")
	if len(v.Findings) == 0 {
		fmt.Fprintln(w, "sound")
		return
	}
	fmt.Fprintln(w, "NOT SOUND")
	for _, f := range v.Findings {
		fmt.Fprintln(w, "  "+f)
	}
}

func ledgerExport() *cobra.Command {
	var since string
	var asCSV bool
	cmd := &cobra.Command{
		Use: "export", Short: "Print all rows, oldest first", Args: cobra.NoArgs,
		Long: `Print all rows of all accounts, as CSV with a header, or one JSON object per line
with --json. Money is integers of nano-dollars. The last column of the CSV has a row's
counters of modules, as in the JSON.`,
		Example: `  corenode ledger export --csv
  corenode ledger export --since 2026-01-31T12:00:00Z --json`,
	}
	cmd.Flags().StringVar(&since, "since", "", "only rows of this date, in UTC, or time and later")
	cmd.Flags().BoolVar(&asCSV, "csv", true, "print CSV (the default)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		from, err := parseBound("since", since)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("csv") && asCSV == (cmd.Flag("json").Value.String() == "true") {
			return errors.New("the rows are CSV or, with --json, JSON: name one of the two")
		}
		return existing(func(c *admin.Client, cmd *cobra.Command, _ []string) (result, error) {
			return result{value: pages(func(w io.Writer, asJSON bool) error {
				progress := cmd.ErrOrStderr()
				if isScreen(w) { // the rows themselves say how far it is
					progress = io.Discard
				}
				return export(c, w, progress, asJSON, from)
			})}, nil
		})(cmd, nil)
	}
	return cmd
}

// parseBound reads the date (UTC, its first moment) or time of a flag; empty is no bound.
func parseBound(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := parseTime(text)
	if err != nil {
		return at, fmt.Errorf("--%s is %q, want such as 2026-01-31 or 2026-01-31T12:00:00Z", flag, text)
	}
	return at, nil
}

// export prints page after page. One that is not full is the last: rows that come meanwhile never end.
func export(c *admin.Client, w, progress io.Writer, asJSON bool, since time.Time) error {
	write := rowsAsCSV(w)
	if asJSON {
		write = rowsAsJSON(w)
	}
	bar, rows, first := progressBar{to: progress, began: time.Now(), of: "rows"}, int64(0), since
	defer bar.end()
	for after := int64(0); ; {
		page, err := c.Ledger(since, after)
		if err == nil {
			err = write(page)
		}
		if err != nil || len(page) == 0 {
			return err
		}
		if first.IsZero() {
			first = page[0].Time
		}
		last := page[len(page)-1]
		rows += int64(len(page))
		bar.at(first, bar.began, last.Time, rows)
		if len(page) < store.EntriesMax {
			return nil
		}
		after = last.ID
	}
}

var csvHeader = []string{"id", "kind", "time", "account_id", "request_id", "key_id", "model", "amount_nano_usd", "held_nano_usd",
	"input_uncached", "cache_read", "cache_write", "output", "reasoning", "tier", "reason", "module_digest", "input_hash",
	"provisional", "settles", "refund", "note", "replica", "upstream_request_id", "usage_source", "counters"}

func rowsAsCSV(to io.Writer) func([]admin.Entry) error {
	w := csv.NewWriter(to)
	begun := false
	return func(page []admin.Entry) error {
		if !begun {
			begun = true
			if err := w.Write(csvHeader); err != nil {
				return err
			}
		}
		for _, e := range page {
			row, err := csvRow(e)
			if err == nil {
				err = w.Write(row)
			}
			if err != nil {
				return err
			}
		}
		w.Flush()
		return w.Error()
	}
}

func rowsAsJSON(to io.Writer) func([]admin.Entry) error {
	encoder := json.NewEncoder(to)
	return func(page []admin.Entry) error {
		for _, e := range page {
			if err := encoder.Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
}

func csvRow(e admin.Entry) ([]string, error) {
	var u admin.Usage
	if e.Usage != nil {
		u = *e.Usage
	}
	var counters []byte
	if len(e.Counters) > 0 {
		var err error
		if counters, err = json.Marshal(e.Counters); err != nil {
			return nil, err
		}
	}
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{n(e.ID), string(e.Kind), e.Time.UTC().Format(time.RFC3339Nano), e.AccountID, e.RequestID, e.KeyID, e.Model,
		n(int64(e.AmountNanoUSD)), n(int64(e.HeldNanoUSD)), n(u.InputUncached), n(u.CacheRead), n(u.CacheWrite), n(u.Output),
		n(u.Reasoning), n(int64(e.Tier)), string(e.Reason), e.ModuleDigest, e.InputHash, strconv.FormatBool(e.Provisional), n(e.Settles),
		strconv.FormatBool(e.Refund), e.Note, e.Replica, e.UpstreamRequestID, e.UsageSource, string(counters)}, nil
}
