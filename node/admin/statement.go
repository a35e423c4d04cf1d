package admin

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"corenode/actors/account"
	"corenode/extensions/compare"
	"corenode/node/store"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// StatementPage is a page of rows. Next is after of the page behind it, absent at
// the end: a page with few rows, or none, is not the last while it has Next.
type StatementPage struct {
	Data []Entry `json:"data"`
	Next int64   `json:"next,omitempty" doc:"after of the page behind it; absent at the end. A page may have few rows, or none, and still have it."`
}

// UsagePage is a page of sums, with Next as in StatementPage.
type UsagePage struct {
	Data []UsageSum `json:"data"`
	Next string     `json:"next,omitempty" doc:"after of the page behind it; absent at the end."`
}

// UsageSum is what some of an account's requests used. Day, model and key are those that sums were asked by.
type UsageSum struct {
	Day            string   `json:"day,omitempty" doc:"Such as 2026-01-31, UTC."`
	Model          string   `json:"model,omitempty"`
	KeyID          string   `json:"key_id,omitempty"`
	Requests       int64    `json:"requests"`
	Usage          Usage    `json:"usage"`
	ChargedNanoUSD abi.Nano `json:"charged_nano_usd" doc:"Less what was given back that day."`
	ChargedUSD     string   `json:"charged_usd"`
}

// ExplainedCharge is what a request cost, and why.
type ExplainedCharge struct {
	RequestID      string         `json:"request_id"`
	AccountID      string         `json:"account_id"`
	Account        string         `json:"account" doc:"Its name."`
	Open           bool           `json:"open" doc:"Not settled yet."`
	ChargedNanoUSD abi.Nano       `json:"charged_nano_usd"`
	ChargedUSD     string         `json:"charged_usd"`
	Rows           []ExplainedRow `json:"rows"`
}

// ExplainedRow is a row of a request: its hold, its settlement or an adjustment of that.
type ExplainedRow struct {
	Entry Entry `json:"entry"`
	// BeforeNanoUSD and the row are what Lines add up to: a re-rating and what comes late have the difference.
	BeforeNanoUSD abi.Nano `json:"before_nano_usd,omitempty" doc:"Of an adjustment: what the request was charged before it."`
	// Lines are what the module of the row makes of its input, run again. Without them Unexplained says why.
	Lines       []compare.Line `json:"lines,omitempty"`
	Unexplained string         `json:"unexplained,omitempty" doc:"Why there are no lines."`
}

// statement returns a page of what moved money, of one account or of all.
func (a *API) statement(c call) (shown StatementPage, err error) {
	query, err := statementQuery(c.query)
	if err != nil {
		return shown, err
	}
	inputs, err := inputsOf(c.query)
	if err != nil {
		return shown, err
	}
	name := c.target
	if name == "" {
		name = c.query.Get("account")
	}
	if name != "" {
		target, err := a.store.Account(name)
		if err != nil {
			return shown, err
		}
		query.AccountID = target.ID
	}
	rows, next, err := a.store.Statement(query)
	if err != nil {
		return shown, err
	}
	show := showEntry
	if inputs {
		show = showWithInput
	}
	return StatementPage{listOf(rows, show).Data, next}, nil
}

// moves are the kinds that a statement has.
var moves = []account.EntryKind{account.TopUp, account.Settlement, account.Adjustment}

func statementQuery(query url.Values) (q store.StatementQuery, err error) {
	q = store.StatementQuery{Model: query.Get("model"), KeyID: query.Get("key"), Kind: account.EntryKind(query.Get("kind"))}
	if q.Kind != "" && !slices.Contains(moves, q.Kind) {
		return q, invalid(fmt.Errorf("kind is %q, want topup, settlement or adjustment", clip(string(q.Kind))))
	}
	if text := query.Get("newest"); text != "" {
		if q.Newest, err = strconv.ParseBool(text); err != nil {
			return q, invalid(fmt.Errorf("newest is %q, want true or false", clip(text)))
		}
	}
	rows, err := ledgerQuery(query)
	if err != nil {
		return q, err
	}
	q.Since, q.After, q.Limit = rows.Since, rows.After, rows.Limit
	q.Until, err = timeOf(query, "until")
	return q, err
}

// inputsOf says whether a query asks for what charges were computed from.
func inputsOf(query url.Values) (bool, error) {
	text := query.Get("inputs")
	if text != "" && text != "true" && text != "false" {
		return false, invalid(fmt.Errorf("inputs is %q, want true or false", clip(text)))
	}
	return text == "true", nil
}

func ledgerQuery(query url.Values) (q store.Query, err error) {
	if q.Since, err = timeOf(query, "since"); err != nil {
		return q, err
	}
	if text := query.Get("after"); text != "" {
		if q.After, err = strconv.ParseInt(text, 10, 64); err != nil {
			return q, invalid(fmt.Errorf("after is %q, want the id of a row", text))
		}
	}
	q.Limit, err = pageLimit(query, store.EntriesMax)
	return q, err
}

// timeOf reads a time of a query, zero when there is none.
func timeOf(query url.Values, name string) (time.Time, error) {
	text := query.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		err = fmt.Errorf("%s is %q, want a time such as 2026-01-31T00:00:00Z", name, clip(text))
	}
	return at, invalid(err)
}

// usage returns a page of an account's sums.
func (a *API) usage(c call) (shown UsagePage, err error) {
	q, err := usageQuery(c.query)
	if err != nil {
		return shown, err
	}
	target, err := a.store.Account(c.target)
	if err != nil {
		return shown, err
	}
	q.AccountID = target.ID
	sums, err := a.store.Usage(q)
	if err != nil {
		return shown, err
	}
	shown = UsagePage{Data: listOf(sums, func(sum store.UsageSum) UsageSum { return showUsage(sum, q.ByDay) }).Data}
	if len(sums) == q.Limit && (q.ByDay || q.ByModel || q.ByKey) { // else the one sum is all there is
		last := sums[len(sums)-1]
		shown.Next = strings.Join([]string{last.Day.Format(time.DateOnly), last.KeyID, last.Model}, "/")
	}
	return shown, nil
}

func showUsage(sum store.UsageSum, byDay bool) UsageSum {
	shown := UsageSum{Model: sum.Model, KeyID: sum.KeyID, Requests: sum.Requests, Usage: Usage(sum.Usage),
		ChargedNanoUSD: sum.Charged, ChargedUSD: builtin.FormatUSD(sum.Charged)}
	if byDay {
		shown.Day = sum.Day.Format(time.DateOnly)
	}
	return shown
}

func usageQuery(query url.Values) (q store.UsageQuery, err error) {
	for by := range strings.SplitSeq(query.Get("by"), ",") {
		switch by {
		case "":
		case "day":
			q.ByDay = true
		case "model":
			q.ByModel = true
		case "key":
			q.ByKey = true
		default:
			return q, invalid(fmt.Errorf("by is %q, want some of day, model, key", clip(query.Get("by"))))
		}
	}
	if q.Since, err = timeOf(query, "since"); err != nil {
		return q, err
	}
	if q.Until, err = timeOf(query, "until"); err != nil {
		return q, err
	}
	if text := query.Get("after"); text != "" {
		parts := strings.SplitN(text, "/", 3)
		if len(parts) == 3 {
			q.AfterDay, err = time.Parse(time.DateOnly, parts[0])
		}
		if len(parts) != 3 || err != nil {
			return q, invalid(fmt.Errorf("after is %q, want next of the page before", clip(text)))
		}
		q.After, q.AfterKeyID, q.AfterModel = true, parts[1], parts[2]
	}
	q.Limit, err = pageLimit(query, store.EntriesMax)
	return q, err
}

// explainCharge shows all rows of a request, and runs the modules that made its charges
// again for their lines; with inputs it shows what those would run on, and none runs.
// The request is named by its id or by that of its settlement.
func explainCharge(a *API, c call) (shown ExplainedCharge, err error) {
	inputs, err := inputsOf(c.query)
	if err != nil {
		return shown, err
	}
	rows, err := a.store.Request(c.target)
	if errors.Is(err, store.ErrNotFound) {
		settled, missing := a.store.Settlement(c.target)
		if missing != nil {
			return shown, err
		}
		rows, err = a.store.Request(settled.RequestID)
	}
	if err != nil {
		return shown, err
	}
	owner, err := a.store.Account(rows[0].AccountID)
	if err != nil {
		return shown, err
	}
	shown = ExplainedCharge{RequestID: rows[0].RequestID, AccountID: owner.ID, Account: owner.Name, Open: true}
	for _, e := range rows {
		shown.Open = shown.Open && e.Kind == account.Hold
		row := ExplainedRow{Entry: showEntry(e)}
		if e.Kind == account.Adjustment {
			row.BeforeNanoUSD = shown.ChargedNanoUSD
		}
		shown.ChargedNanoUSD -= e.Amount
		switch {
		case e.Kind == account.Hold || e.Refund:
		case inputs:
			row.Entry, row.Unexplained = showWithInput(e), "inputs were asked for instead"
		default:
			row.Lines, row.Unexplained = a.explain(e)
		}
		shown.Rows = append(shown.Rows, row)
	}
	shown.ChargedUSD = builtin.FormatUSD(shown.ChargedNanoUSD)
	return shown, nil
}

// explain gives the lines of a charge, or says why there are none.
func (a *API) explain(e account.Entry) (lines []compare.Line, why string) {
	switch {
	case e.Amount == 0 && e.ModuleDigest == "":
		return nil, "nothing was charged"
	case len(e.ChargeInput) == 0:
		return nil, "no module made this charge: it has no input"
	case a.modules == nil:
		return nil, errNoModules.Message
	}
	again, err := a.modules.Replay(e.ModuleDigest, e.ChargeInput)
	if err != nil {
		return nil, err.Error()
	}
	return showLines(again.Lines), ""
}

func showLines(lines []abi.Line) []compare.Line {
	return listOf(lines, func(l abi.Line) compare.Line {
		return compare.Line{Unit: l.Unit, Tokens: l.Tokens, PriceNanoUSD: l.Price, AmountNanoUSD: l.Amount}
	}).Data
}
