package console

import (
	"encoding/csv"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"corenode/node/admin"
)

// rowsShown is how many rows of a list a page has.
const rowsShown = 50

// accountsPage is a page of the accounts by name.
type accountsPage struct {
	Accounts []admin.Account
	Next     string // the name behind which the next page begins; empty at the end
	Find     string
}

func (c *Console) accounts(r *http.Request, cl *admin.Client) (any, error) {
	q := r.URL.Query()
	if find := strings.TrimSpace(q.Get("find")); find != "" {
		found, err := cl.Account(find)
		if err != nil {
			return nil, err
		}
		return accountsPage{Accounts: []admin.Account{found}, Find: find}, nil
	}
	page, err := cl.Accounts(q.Get("after"), rowsShown)
	p := accountsPage{Accounts: page}
	if len(page) == rowsShown {
		p.Next = page[len(page)-1].Name
	}
	return p, err
}

// accountPage is one account.
type accountPage struct {
	Account admin.Account
	Keys    []admin.Key
	Days    []admin.UsageSum // of the last two weeks, oldest first
	Models  []admin.UsageSum // of the same days
	Rows    []admin.Entry    // the latest
}

// usageDays is how many days an account's page sums up.
const usageDays = 14

func (c *Console) account(r *http.Request, cl *admin.Client) (any, error) {
	found, err := cl.Account(r.PathValue("account"))
	if err != nil {
		return nil, err
	}
	p := accountPage{Account: found}
	since := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-usageDays).Format(time.RFC3339)
	var errs [4]error
	p.Keys, errs[0] = cl.Keys(found.ID)
	p.Days, errs[1] = cl.Usage(found.ID, url.Values{"by": {"day"}, "since": {since}})
	p.Models, errs[2] = cl.Usage(found.ID, url.Values{"by": {"model"}, "since": {since}})
	latest, err := cl.StatementPage(url.Values{"account": {found.ID}, "newest": {"true"}, "limit": {"20"}})
	p.Rows, errs[3] = latest.Data, err
	return p, errors.Join(errs[:]...)
}

// ledgerPage is a page of what moved money.
type ledgerPage struct {
	Rows   []admin.Entry
	Query  url.Values
	Older  template.URL // query of the page behind
	CSV    template.URL // query of the whole as a file
	Kinds  []string
	Line   string // the command that does the same
	Sought bool   // a filter is set
}

// filters are the parameters of a statement but the place in it, and the flags that say the same.
// A form gives a day, or a time without a zone.
func filters(r *http.Request) (q url.Values, flags string) {
	q, _ = asked(r, "account", "model", "key", "kind", "since", "until")
	for _, name := range []string{"since", "until"} {
		for _, layout := range []string{time.DateOnly, "2006-01-02T15:04"} {
			if t, err := time.Parse(layout, q.Get(name)); err == nil {
				q.Set(name, t.Format(time.RFC3339))
			}
		}
	}
	return q, flagsOf(q)
}

func (c *Console) ledger(r *http.Request, cl *admin.Client) (any, error) {
	q, flags := filters(r)
	p := ledgerPage{Query: maps.Clone(q), Kinds: []string{"topup", "settlement", "adjustment"}, Line: "corenode ledger list" + flags,
		CSV: encoded(q), Sought: len(q) > 0}
	q.Set("newest", "true")
	q.Set("limit", strconv.Itoa(rowsShown))
	if after := r.URL.Query().Get("after"); after != "" {
		q.Set("after", after)
	}
	page, err := cl.StatementPage(q)
	p.Rows = page.Data
	if page.Next != 0 {
		p.Older = with(p.Query, "after", strconv.FormatInt(page.Next, 10))
	}
	return p, err
}

// ledgerCSV answers with all rows of a filter, oldest first. Each page leaves at once: until the first does, all that
// is written is held in memory and no write fails.
func (c *Console) ledgerCSV(w http.ResponseWriter, r *http.Request, s *session) {
	q, _ := filters(r)
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="ledger.csv"`)
	flusher, _ := w.(http.Flusher)
	out := csv.NewWriter(w)
	_ = out.Write([]string{"id", "time", "kind", "account", "key", "model", "request", "amount_nano_usd", "input_uncached",
		"cache_read", "output", "reason", "note", "provisional", "settles", "refund"}) // a browser that has left, as below
	err := c.deps.Client(r.Context(), s.operator).Statement(q, func(page []admin.Entry) error {
		for _, e := range page {
			if err := out.Write(cells(e)); err != nil {
				return err
			}
		}
		out.Flush()
		if flusher != nil {
			flusher.Flush()
		}
		return out.Error()
	})
	if err != nil { // the head is out: a row says that there is no more
		_ = out.Write([]string{"the rows end here: " + err.Error()})
	}
	out.Flush()
}

// cells are a row of the file.
func cells(e admin.Entry) []string {
	var usage admin.Usage
	if e.Usage != nil {
		usage = *e.Usage
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{number(e.ID), e.Time.Format(time.RFC3339Nano), string(e.Kind), e.AccountID, e.KeyID, cell(e.Model), e.RequestID,
		number(int64(e.AmountNanoUSD)), number(usage.InputUncached), number(usage.CacheRead), number(usage.Output),
		string(e.Reason), cell(e.Note), strconv.FormatBool(e.Provisional), number(e.Settles), strconv.FormatBool(e.Refund)}
}

// cell keeps a spreadsheet from taking a text for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

func (c *Console) charge(r *http.Request, cl *admin.Client) (any, error) {
	return cl.Explain(r.PathValue("charge"))
}

// findCharge is the form of the ledger's page that asks for a request.
func (c *Console) findCharge(r *http.Request, cl *admin.Client) (any, error) {
	return cl.Explain(strings.TrimSpace(r.URL.Query().Get("id")))
}
