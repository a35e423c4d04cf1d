package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// lateNote is on adjustments that late settlements make, and on nothing else that is no refund.
const lateNote = "its node settled it later"

// isLateRow selects such adjustments.
const isLateRow = `kind = 'adjustment' AND NOT refund AND note = '` + lateNote + `'`

// countsTokens selects those of them whose tokens are in the sums of usage. They say how their request ended; releases that
// did not count them wrote none that do.
const countsTokens = isLateRow + ` AND reason <> ''`

// late is a settlement that comes after another node had settled its request as crashed: what its node says, and what is there.
type late struct{ e, there account.Entry }

// isLate says whether a settlement comes after another node had settled its request as crashed,
// and says otherwise, or may.
func isLate(e *account.Entry, there account.Entry) bool {
	return e.Kind == account.Settlement && there.Reason == account.Crashed && e.Reason != account.Crashed &&
		there.AccountID == clean(e.AccountID)
}

// difference is the adjustment that makes of a settlement, and of what re-rated it since, what its node says of
// it: what a client was told is what the ledger says. Of counters it gives back what was not used; it takes none, since they may be
// another request's by now. None is needed where they agree already, in tokens too.
// When the same comes again none is made, whatever it was rated
// to since; nor is after a refund, which would have taken back all had it come last.
func (l late) difference(ctx context.Context, tx pgx.Tx) (a account.Entry, needed bool, err error) {
	var done bool
	var charged abi.Nano
	err = tx.QueryRow(ctx, `SELECT bool_or(refund OR `+isLateRow+`), sum(amount)::bigint FROM ledger
		WHERE id = $1 OR (settles = $1 AND settles > 0)`, l.there.ID).Scan(&done, &charged)
	if err != nil || done {
		return a, false, err
	}
	taken, err := counterSums(ctx, tx, l.there.ID)
	if err != nil {
		return a, false, err
	}
	e := l.e
	a = account.Entry{Kind: account.Adjustment, AccountID: e.AccountID, RequestID: e.RequestID, KeyID: e.KeyID, Model: e.Model,
		Time: e.Time, Settles: l.there.ID, Note: lateNote}
	if was := charged != 0 || len(taken) > 0; e.Amount == 0 && len(e.Counters) == 0 && (was || e.Usage == (abi.Usage{})) {
		a.Refund = true
		return a, was, nil
	}
	a.Amount, a.Usage, a.Tier, a.Provisional, a.Reason = e.Amount-charged, e.Usage, e.Tier, e.Provisional, e.Reason
	a.ModuleDigest, a.InputHash, a.ChargeInput = e.ModuleDigest, e.InputHash, e.ChargeInput
	if a.ModuleDigest == "" {
		a.ModuleDigest = l.there.ModuleDigest
	}
	used := counted(&e)
	for _, n := range taken {
		i := slices.IndexFunc(used, func(u abi.Counter) bool { return u.Name == n.Name && u.Period == n.Period })
		if i >= 0 {
			n.Amount -= used[i].Amount
		}
		if n.Amount > 0 {
			n.Amount = -n.Amount
			a.Counters = append(a.Counters, n)
		}
	}
	return a, a.Amount != 0 || len(a.Counters) > 0 || a.Usage != l.there.Usage && a.ModuleDigest != "", nil
}

// counterSums are what a settlement and its adjustments took of counters.
func counterSums(ctx context.Context, tx pgx.Tx, settlement int64) (sums []abi.Counter, err error) {
	err = each(ctx, tx, `SELECT n.name, n.period, max(n.most), sum(n.amount)::bigint FROM ledger_counters n JOIN ledger l ON l.id = n.entry_id
		WHERE l.id = $1 OR (l.settles = $1 AND l.settles > 0) GROUP BY n.name, n.period HAVING sum(n.amount) <> 0 ORDER BY 1, 2`,
		func(r pgx.Rows) error {
			var n abi.Counter
			err := r.Scan(&n.Name, &n.Period, &n.Limit, &n.Amount)
			sums = append(sums, n)
			return err
		}, settlement)
	return sums, err
}

// adjustLate writes what late settlements change, once each.
func (w *work) adjustLate(ctx context.Context, tx pgx.Tx, all []late) error {
	for _, l := range all {
		a, needed, err := l.difference(ctx, tx)
		if err != nil {
			return err
		}
		if !needed {
			continue
		}
		id, err := number(ctx, tx, `SELECT nextval('ledger_id')`)
		if err != nil {
			return err
		}
		w.ids = slices.Insert(w.ids, 0, id)
		if err := w.appendRun(ctx, tx, []account.Entry{a}); err != nil {
			return err
		}
		if a.Reason != "" {
			if err := w.sums.AddLate(&a, l.there.Usage); err != nil {
				return err
			}
		}
	}
	return nil
}
