package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"corenode/actors/account"
	"corenode/extensions"
	"corenode/extensions/guest"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/store"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

func moduleReplay() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use: "replay [CHARGE]", Short: "Compute charges again: one as it was made, or a time's under another module or price list",
		Args: cobra.MaximumNArgs(1),
		Long: `With CHARGE, the id of a ledger row or of a request (X-Llm-Request-Id), compute that
charge again with the module and the input it had. The status is 1 when the result differs.
Of a request whose charge was rated again that is the last rating; the row of its
settlement is the charge as it was made, and that of the re-rating the last one too.

With --since compute all charges of a time again, from the inputs in the ledger: with
--module by another module file, with --prices at the prices of another configuration,
with both, or with neither as they were made. It prints old and new dollars by account
and in sum, the first charges that differ, and by name those that cannot be computed.
Nothing is changed, and the node that runs does none of the work. A refund is not looked
at: what was given back counts as charged. A charge that was rated again counts with
what that came to, and is computed as it was then.

Of counters the module of --module gets what the request held of those of its name. A
new one's are at zero: its free tier is computed as if nothing were free.`,
		Example: `  corenode module replay req_01j9x2v7k3m8
  corenode module replay --since 2026-01-31 --until 2026-02-01 --module discount.wasm --config discount.json
  corenode module replay --since 2026-01-31 --account alice --prices tomorrow.yaml --json`,
	}
	f := cmd.Flags()
	f.StringVar(&o.since, "since", "", "charges made at or after this date, in UTC, or time")
	f.StringVar(&o.until, "until", "", "charges made before it (default now)")
	f.StringVar(&o.account, "account", "", "only those of this account, by name or id")
	f.StringVar(&o.module, "module", "", "billing module `file` that computes them (default: each by what made it)")
	f.StringVar(&o.config, "config", "", "JSON `file` for that module's own configuration")
	f.StringVar(&o.prices, "prices", "", "configuration `file` of a node whose models' prices they are computed at")
	cmd.RunE = existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
		switch {
		case len(args) == 1 && o != replayOptions{}:
			return result{}, errors.New("a CHARGE is computed as it was made: leave the flags out, or the CHARGE")
		case len(args) == 1:
			return replayOne(c, cmd, args[0])
		case o.since == "":
			return result{}, errors.New("name a CHARGE, or a time with --since")
		}
		dir, err := cmd.Flags().GetString("data-dir")
		if err != nil {
			return result{}, err
		}
		p, err := o.open(dir)
		if err != nil {
			return result{}, err
		}
		defer p.close()
		err = p.run(c, cmd.ErrOrStderr())
		return printed(printReplays)(p.report(), err)
	})
	return cmd
}

func replayOne(c *admin.Client, cmd *cobra.Command, charge string) (result, error) {
	r, err := c.Replay(charge)
	done, err := printed(printReplay)(r, err)
	if err == nil && !r.Same {
		err = errors.Join(show(cmd, done), fmt.Errorf("the replay gives %d nano-dollars in tier %d, the ledger says %d in tier %d",
			r.AmountNanoUSD, r.Tier, r.LedgerNanoUSD, r.Entry.Tier))
	}
	return done, err
}

type replayOptions struct{ since, until, account, module, config, prices string }

// replaySum is what some charges came to.
type replaySum struct {
	Charges    int64    `json:"charges"`
	Differ     int64    `json:"differ"`
	OldNanoUSD abi.Nano `json:"old_nano_usd"`
	NewNanoUSD abi.Nano `json:"new_nano_usd"`
}

// accountReplay is what an account's came to.
type accountReplay struct {
	Account string `json:"account"`
	replaySum
}

// replayedCharge is one charge, as it was and as it would be.
type replayedCharge struct {
	Row        int64       `json:"row"`
	Request    string      `json:"request"`
	Account    string      `json:"account"`
	Model      string      `json:"model"`
	Time       time.Time   `json:"time"`
	Usage      admin.Usage `json:"usage"`
	OldNanoUSD abi.Nano    `json:"old_nano_usd"`
	NewNanoUSD abi.Nano    `json:"new_nano_usd"`
	Why        string      `json:"why,omitempty"` // it cannot be computed
}

// replayReport is what a time's charges come to.
type replayReport struct {
	Module   string           `json:"module,omitempty"` // that computed them; empty: each by what made it
	Config   string           `json:"config,omitempty"` // the file that it was configured with; empty: with none
	Since    time.Time        `json:"since"`
	Until    time.Time        `json:"until"`
	Sum      replaySum        `json:"sum"`
	Accounts []accountReplay  `json:"accounts"` // whose charges change most first
	First    []replayedCharge `json:"first"`    // that differ
	// Left are those that could not be computed, which are in no sum; Named the first of them.
	Left  int64            `json:"left"`
	Named []replayedCharge `json:"named"`
}

// Bounds of a report. Its memory grows with the number of accounts and of modules that made charges.
const (
	replayFirstMax = 10
	replayNamedMax = 100
	ratersMax      = 8 // modules that are open at once
)

// replayPass is one pass over the ledger.
type replayPass struct {
	replayReport
	account  string
	dataDir  string
	module   *extensions.Rater                          // nil: each charge by what made it
	prices   map[string]config.Model                    // nil: each at its own
	opened   map[string]*extensions.Rater               // by digest
	failed   map[string]error                           // modules that do not open
	named    map[string]guest.Manifest                  // of modules that made charges, by digest, for what their counters are called
	accounts map[string]*replaySum                      // by id
	corrects func(row admin.Entry) (admin.Entry, error) // a charge as what was said of it later leaves it
}

func (o replayOptions) open(dataDir string) (*replayPass, error) {
	p := &replayPass{account: o.account, dataDir: dataDir, opened: map[string]*extensions.Rater{}, failed: map[string]error{},
		named: map[string]guest.Manifest{}, accounts: map[string]*replaySum{},
		replayReport: replayReport{Until: time.Now().UTC()}}
	var err error
	if p.Since, err = parseBound("since", o.since); err != nil {
		return nil, err
	}
	if o.until != "" {
		if p.Until, err = parseBound("until", o.until); err != nil {
			return nil, err
		}
	}
	if o.prices != "" {
		if p.prices, err = config.LoadModels(o.prices); err != nil {
			return nil, err
		}
	}
	if o.module == "" {
		if o.config != "" {
			return nil, errors.New("--config is for the module of --module")
		}
		return p, nil
	}
	wasm, err := os.ReadFile(o.module)
	if err != nil {
		return nil, err
	}
	own, err := readConfig(o.config)
	if err != nil {
		return nil, err
	}
	if p.module, err = extensions.OpenRater(wasm, own); err != nil {
		return nil, err
	}
	p.Module, p.Config = p.module.Ref, o.config
	return p, nil
}

func (p *replayPass) close() {
	if p.module != nil {
		p.module.Close()
	}
	for _, r := range p.opened {
		r.Close()
	}
}

// run reads the ledger page by page.
func (p *replayPass) run(c *admin.Client, progress io.Writer) error {
	p.corrects = func(row admin.Entry) (admin.Entry, error) { return corrected(c, row) }
	query := url.Values{"kind": {string(account.Settlement)}, "since": {p.Since.Format(time.RFC3339Nano)},
		"until": {p.Until.Format(time.RFC3339Nano)}, "limit": {strconv.Itoa(store.EntriesMax)}, "inputs": {"true"}}
	if p.account != "" {
		query.Set("account", p.account)
	}
	bar := progressBar{to: progress, began: time.Now(), of: "charges"}
	defer bar.end()
	return c.Statement(query, func(page []admin.Entry) error {
		for _, row := range page {
			if err := p.add(row); err != nil {
				return err
			}
			bar.at(p.Since, p.Until, row.Time, p.Sum.Charges+p.Left)
		}
		return nil
	})
}

// corrected is a charge with the amount, the module and the input that rating it again, or its own
// node that settled it later than another, gave it. What it has of counters stays.
func corrected(c *admin.Client, row admin.Entry) (admin.Entry, error) {
	charged, err := c.Inputs(row.RequestID)
	if err != nil {
		return row, err
	}
	var last admin.Entry
	for _, r := range charged.Rows {
		if e := r.Entry; e.Kind == account.Adjustment && e.Settles == row.ID && !e.Refund {
			row.AmountNanoUSD += e.AmountNanoUSD
			last = e
		}
	}
	if last.ID != 0 {
		row.Usage, row.ModuleDigest, row.ChargeInput = last.Usage, last.ModuleDigest, last.ChargeInput
	}
	return row, nil
}

// add computes one charge again. An error ends the pass: it is none of the charge.
func (p *replayPass) add(row admin.Entry) error {
	if row.Provisional || row.Reason == account.Crashed {
		var err error
		if row, err = p.corrects(row); err != nil {
			return err
		}
	}
	r := replayedCharge{Row: row.ID, Request: row.RequestID, Account: row.AccountID, Model: row.Model, Time: row.Time,
		OldNanoUSD: -row.AmountNanoUSD}
	if row.Usage != nil {
		r.Usage = *row.Usage
	}
	var err error
	if r.NewNanoUSD, err = p.rate(row); err != nil {
		r.Why = err.Error()
		if p.Left++; len(p.Named) < replayNamedMax {
			p.Named = append(p.Named, r)
		}
		return nil
	}
	own := p.accounts[row.AccountID]
	if own == nil {
		own = &replaySum{}
		p.accounts[row.AccountID] = own
	}
	if r.OldNanoUSD != r.NewNanoUSD && len(p.First) < replayFirstMax {
		p.First = append(p.First, r)
	}
	return errors.Join(own.add(r), p.Sum.add(r))
}

// rate is what a charge comes to.
func (p *replayPass) rate(row admin.Entry) (abi.Nano, error) {
	if len(row.ChargeInput) == 0 {
		if row.AmountNanoUSD == 0 {
			return 0, nil // nothing was used, so no module was asked
		}
		return 0, errors.New("the ledger has no input of it: it was charged by its hold")
	}
	in, err := abi.ParseChargeInput(row.ChargeInput)
	if err != nil {
		return 0, fmt.Errorf("its input: %w", err)
	}
	if p.prices != nil {
		m, ok := p.prices[in.Model]
		if !ok {
			return 0, fmt.Errorf("the price list has no model %q", in.Model)
		}
		in.Prices = m.Prices.Rates()
	}
	module, held, err := p.rater(row, in)
	if err != nil {
		return 0, err
	}
	charge, err := module.Rate(in, held)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", module.Ref, err)
	}
	return charge.Total, nil
}

// rater is what computes a charge, and what that holds of counters, by name.
func (p *replayPass) rater(row admin.Entry, in abi.ChargeInput) (*extensions.Rater, []abi.Counter, error) {
	module := p.module
	if module == nil {
		made, err := p.stored(row.ModuleDigest)
		if err != nil {
			return nil, nil, err
		}
		module = made
	}
	if len(in.Held) == 0 || !module.Counts() || p.module != nil && row.Provisional {
		return module, row.Counters, nil // a provisional charge took all that it held
	}
	made, err := p.manifest(row.ModuleDigest)
	if err != nil {
		return nil, nil, fmt.Errorf("what it held of counters: %w", err)
	}
	return module, made.Named(in.Held), nil
}

// manifest is that of the module that made a charge. It is read once.
func (p *replayPass) manifest(digest string) (guest.Manifest, error) {
	if m, read := p.named[digest]; read {
		return m, nil
	}
	m, err := extensions.StoredManifest(p.dataDir, digest)
	if err != nil {
		return m, fmt.Errorf("its module %s: %w", extensions.Abbreviate(digest), err)
	}
	p.named[digest] = m
	return m, nil
}

// stored opens the module that made a charge.
func (p *replayPass) stored(digest string) (*extensions.Rater, error) {
	if r, err := p.opened[digest], p.failed[digest]; r != nil || err != nil {
		return r, err
	}
	for other, r := range p.opened {
		if len(p.opened) < ratersMax {
			break
		}
		r.Close()
		delete(p.opened, other)
	}
	r, err := extensions.StoredRater(p.dataDir, digest)
	if err != nil {
		p.failed[digest] = fmt.Errorf("its module %s: %w", extensions.Abbreviate(digest), err)
		return nil, p.failed[digest]
	}
	p.opened[digest] = r
	return r, nil
}

var errSumRange = errors.New("the sum of the charges does not fit 64 bits")

// add adds a charge up, exactly or not at all.
func (s *replaySum) add(r replayedCharge) error {
	if r.OldNanoUSD > math.MaxInt64-s.OldNanoUSD || r.NewNanoUSD > math.MaxInt64-s.NewNanoUSD { // none is below zero
		return errSumRange
	}
	s.Charges++
	if r.OldNanoUSD != r.NewNanoUSD {
		s.Differ++
	}
	s.OldNanoUSD += r.OldNanoUSD
	s.NewNanoUSD += r.NewNanoUSD
	return nil
}

// report is what it came to.
func (p *replayPass) report() replayReport {
	r := p.replayReport
	r.Accounts, r.First, r.Named = []accountReplay{}, append([]replayedCharge{}, r.First...), append([]replayedCharge{}, r.Named...)
	for _, id := range slices.Sorted(maps.Keys(p.accounts)) {
		r.Accounts = append(r.Accounts, accountReplay{id, *p.accounts[id]})
	}
	change := func(s replaySum) abi.Nano { return max(s.NewNanoUSD-s.OldNanoUSD, s.OldNanoUSD-s.NewNanoUSD) }
	slices.SortStableFunc(r.Accounts, func(a, b accountReplay) int { return cmp.Compare(change(b.replaySum), change(a.replaySum)) })
	return r
}

// printReplays writes a report for people. A line without tabs ends a table.
func printReplays(w io.Writer, r replayReport) {
	by := "the modules that made them"
	switch {
	case r.Config != "":
		by = r.Module + " with " + r.Config
	case r.Module != "":
		by = r.Module + " without a configuration"
	}
	fmt.Fprintf(w, "%d charges from %s to %s UTC, computed by %s: %d differ.\n\n", r.Sum.Charges, r.Since.UTC().Format(time.DateTime),
		r.Until.UTC().Format(time.DateTime), by, r.Sum.Differ)
	fmt.Fprintln(w, "ACCOUNT\tCHARGES\tDIFFER\tOLD\tNEW\tCHANGE")
	for _, a := range append(r.Accounts, accountReplay{"all", r.Sum}) {
		fmt.Fprintf(w, "%s\t%d\t%d\t$%s\t$%s\t%s\n", a.Account, a.Charges, a.Differ, builtin.FormatUSD(a.OldNanoUSD),
			builtin.FormatUSD(a.NewNanoUSD), changeOf(a.OldNanoUSD, a.NewNanoUSD))
	}
	if len(r.First) > 0 {
		fmt.Fprintf(w, "\nThe first that differ:\nREQUEST\tACCOUNT\tMODEL\tINPUT\tCACHED\tOUTPUT\tOLD\tNEW\n")
	}
	for _, c := range r.First {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t$%s\t$%s\n", c.Request, c.Account, c.Model, c.Usage.InputUncached, c.Usage.CacheRead,
			c.Usage.Output, builtin.FormatUSD(c.OldNanoUSD), builtin.FormatUSD(c.NewNanoUSD))
	}
	if r.Left > 0 {
		fmt.Fprintf(w, "\n%d cannot be computed and are in no sum:\n", r.Left)
	}
	for _, c := range r.Named {
		fmt.Fprintf(w, "%s\trow %d of %s, $%s\t%s\n", c.Request, c.Row, c.Account, builtin.FormatUSD(c.OldNanoUSD), c.Why)
	}
	if more := r.Left - int64(len(r.Named)); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}

// progressBar shows a person how far a pass over a time has come, once it takes longer than a second.
type progressBar struct {
	to    io.Writer
	of    string // what is counted
	began time.Time
	shown time.Time
}

const barWidth = 30

// at shows where it is, some times a second. What is no terminal gets nothing.
func (b *progressBar) at(since, until, now time.Time, done int64) {
	if time.Since(b.began) < time.Second || time.Since(b.shown) < 200*time.Millisecond || !isScreen(b.to) {
		return
	}
	b.shown = time.Now()
	part := min(max(float64(now.Sub(since))/float64(max(until.Sub(since), 1)), 0), 1)
	text := make([]byte, barWidth)
	for i := range text {
		if text[i] = '.'; i < int(part*barWidth) {
			text[i] = '#'
		}
	}
	fmt.Fprintf(b.to, "\r[%s] %3.0f %%  %d %s", text, 100*part, done, b.of)
}

// end takes the bar away.
func (b *progressBar) end() {
	if !b.shown.IsZero() {
		fmt.Fprintf(b.to, "\r%60s\r", "")
	}
}

// isScreen says whether a person looks at what is written, to a file or to what passes it on and says so.
func isScreen(w io.Writer) bool {
	f, ok := w.(interface{ Stat() (os.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
