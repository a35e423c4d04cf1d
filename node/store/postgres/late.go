package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"corenode/actors/account"
)

// isLate says whether a settlement comes after another node had settled its request as crashed,
// and says otherwise.
func isLate(e *account.Entry, there account.Entry) bool {
	return e.Kind == account.Settlement && there.Reason == account.Crashed && e.Reason != account.Crashed &&
		there.AccountID == clean(e.AccountID) && there.Amount != e.Amount
}

// difference is the adjustment that makes of a settlement what its node says of it: what a client
// was told is what the ledger says. A free one takes back all. Of counters a crashed request keeps
// what it took, but for one that is free.
func difference(e, there account.Entry) account.Entry {
	late := account.Entry{Kind: account.Adjustment, AccountID: e.AccountID, RequestID: e.RequestID, KeyID: e.KeyID, Model: e.Model,
		Time: e.Time, Settles: there.ID, Note: "its node settled it later"}
	if e.Amount == 0 {
		late.Refund = true
		return late
	}
	late.Amount, late.Usage, late.Tier, late.Provisional = e.Amount-there.Amount, e.Usage, e.Tier, e.Provisional
	late.ModuleDigest, late.InputHash, late.ChargeInput = e.ModuleDigest, e.InputHash, e.ChargeInput
	if late.ModuleDigest == "" {
		late.ModuleDigest = there.ModuleDigest
	}
	return late
}

// adjustLate writes what late settlements change, once each.
func (w *work) adjustLate(ctx context.Context, tx pgx.Tx, late []account.Entry) error {
	for i := range late {
		n, err := number(ctx, tx, `SELECT count(*) FROM ledger WHERE settles = $1 AND settles > 0`, late[i].Settles)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		id, err := number(ctx, tx, `SELECT nextval('ledger_id')`)
		if err != nil {
			return err
		}
		w.ids = slices.Insert(w.ids, 0, id)
		if err := w.appendRun(ctx, tx, late[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}
