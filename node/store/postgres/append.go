package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/rules"
)

// run is how many entries are written together: all up to an adjustment, or one adjustment.
// What an adjustment says depends on the rows before it.
func run(entries []account.Entry) int {
	if entries[0].Kind == account.Adjustment {
		return 1
	}
	n := slices.IndexFunc(entries, func(e account.Entry) bool { return e.Kind == account.Adjustment })
	if n < 0 {
		n = len(entries)
	}
	return n
}

// lockAdjusted locks the settlements that a batch adjusts before it has its ids and place:
// adjustments of one settlement come one after the other in these too.
func lockAdjusted(ctx context.Context, tx pgx.Tx, entries []account.Entry) error {
	var ids []int64
	var requests []string
	for i := range entries {
		switch e := &entries[i]; {
		case e.Kind != account.Adjustment:
		case e.Settles != 0:
			ids = append(ids, e.Settles)
		default:
			requests = append(requests, clean(e.RequestID))
		}
	}
	if len(ids) == 0 && len(requests) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `SELECT 1 FROM ledger WHERE kind = 'settlement' AND (id = ANY ($1) OR request_id = ANY ($2))
		ORDER BY id FOR NO KEY UPDATE`, ids, requests)
	return err
}

// about names an entry in what the database says of a batch, where it is one.
func about(entries []account.Entry, err error) error {
	if len(entries) == 1 {
		return rules.About(&entries[0], known(err))
	}
	return fmt.Errorf("%d rows: %w", len(entries), known(err))
}

var ledgerRows = arrays[*account.Entry]{
	text("kind", func(e *account.Entry) string { return clean(string(e.Kind)) }),
	text("account_id", func(e *account.Entry) string { return clean(e.AccountID) }),
	text("request_id", func(e *account.Entry) string { return clean(e.RequestID) }),
	text("key_id", func(e *account.Entry) string { return clean(e.KeyID) }),
	text("model", func(e *account.Entry) string { return clean(e.Model) }),
	bigint("time", func(e *account.Entry) int64 { return rules.FromTime(e.Time) }),
	bigint("amount", func(e *account.Entry) int64 { return int64(e.Amount) }),
	bigint("held", func(e *account.Entry) int64 { return int64(e.Held) }),
	bigint("input_uncached", func(e *account.Entry) int64 { return e.Usage.InputUncached }),
	bigint("cache_read", func(e *account.Entry) int64 { return e.Usage.CacheRead }),
	bigint("cache_write", func(e *account.Entry) int64 { return e.Usage.CacheWrite }),
	bigint("output", func(e *account.Entry) int64 { return e.Usage.Output }),
	bigint("reasoning", func(e *account.Entry) int64 { return e.Usage.Reasoning }),
	bigint("tier", func(e *account.Entry) int64 { return int64(e.Tier) }),
	text("reason", func(e *account.Entry) string { return clean(string(e.Reason)) }),
	text("module_digest", func(e *account.Entry) string { return clean(e.ModuleDigest) }),
	text("input_hash", func(e *account.Entry) string { return clean(e.InputHash) }),
	bytea("charge_input", func(e *account.Entry) []byte {
		if e.ChargeInput == nil {
			return []byte{} // nil is NULL
		}
		return e.ChargeInput
	}),
	boolean("provisional", func(e *account.Entry) bool { return e.Provisional }),
	bigint("settles", func(e *account.Entry) int64 { return e.Settles }),
	boolean("refund", func(e *account.Entry) bool { return e.Refund }),
	text("note", func(e *account.Entry) string { return clean(e.Note) }),
	text("replica", func(e *account.Entry) string { return clean(e.Source.Replica) }),
	text("upstream_request_id", func(e *account.Entry) string { return clean(e.Source.RequestID) }),
	text("usage_source", func(e *account.Entry) string { return clean(e.Source.Usage) }),
}

var insertLedger = `INSERT INTO ledger (place, id, ` + ledgerRows.names() + `)
	SELECT $1, t.* FROM unnest($2::bigint[], ` + ledgerRows.params(3) + `) AS t `

const onceMore = `ON CONFLICT (request_id, kind) WHERE kind = 'hold' OR kind = 'settlement' DO NOTHING RETURNING id`

// queueEntries writes rows, and notes the ids of those that were not there.
func queueEntries(b *pgx.Batch, entries []account.Entry, ids []int64, place int64, inserted map[int64]struct{}) {
	b.Queue(insertLedger+onceMore, ledgerArgs(entries, ids, place)...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				return err
			}
			inserted[id] = struct{}{}
		}
		return rows.Err()
	})
}

// queueNew writes rows that are not there, or fails.
func queueNew(b *pgx.Batch, entries []account.Entry, ids []int64, place int64) {
	b.Queue(insertLedger, ledgerArgs(entries, ids, place)...)
}

// ledgerArgs are the arguments of insertLedger.
func ledgerArgs(entries []account.Entry, ids []int64, place int64) []any {
	rows := make([]*account.Entry, len(entries))
	for i := range entries {
		rows[i] = &entries[i]
	}
	return ledgerRows.args(rows, place, ids)
}

// queueCounters writes what rows that were inserted have of counters.
func queueCounters(b *pgx.Batch, entries []account.Entry, inserted map[int64]struct{}) {
	for i := range entries {
		e := &entries[i]
		if _, ok := inserted[e.ID]; !ok {
			continue
		}
		for _, n := range e.Counters {
			if n.Amount != 0 {
				b.Queue(`INSERT INTO ledger_counters (entry_id, name, period, most, amount) VALUES ($1, $2, $3, $4, $5)`,
					e.ID, clean(n.Name), clean(n.Period), n.Limit, n.Amount)
			}
		}
	}
}

// queueFirst finds the ids of holds and settlements that were there before. lates are the settlements
// that a node sent after another one had settled its request as crashed.
func queueFirst(b *pgx.Batch, entries []account.Entry, again []int, lates *[]late) {
	requests := make([]string, len(again))
	for i, at := range again {
		requests[i] = clean(entries[at].RequestID)
	}
	b.Queue(`SELECT id, request_id, kind, amount, reason, account_id, module_digest, input_uncached, cache_read, cache_write, output,
		reasoning FROM ledger
		WHERE request_id = ANY ($1) AND (kind = 'hold' OR kind = 'settlement')`, requests).
		Query(func(rows pgx.Rows) error {
			type row struct{ request, kind string }
			first := map[row]account.Entry{}
			for rows.Next() {
				var e account.Entry
				u := &e.Usage
				if err := rows.Scan(&e.ID, &e.RequestID, &e.Kind, &e.Amount, &e.Reason, &e.AccountID, &e.ModuleDigest, &u.InputUncached,
					&u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning); err != nil {
					return err
				}
				first[row{e.RequestID, string(e.Kind)}] = e
			}
			for _, at := range again {
				e := &entries[at]
				there := first[row{clean(e.RequestID), string(e.Kind)}]
				if e.ID = there.ID; isLate(e, there) {
					*lates = append(*lates, late{*e, there})
				}
			}
			return rows.Err()
		})
}

// completeAdjustment makes sure that an adjustment names a settlement of its account, which
// it locks: adjustments of one settlement come one after the other. A refund is found by its
// request too, and gets its amount. there says that it was refunded before.
func completeAdjustment(ctx context.Context, tx pgx.Tx, e *account.Entry) (there bool, err error) {
	where, arg := `id = $1`, any(e.Settles)
	if e.Refund && e.Settles == 0 {
		where, arg = `request_id = $1`, clean(e.RequestID)
	}
	var settled account.Entry
	err = tx.QueryRow(ctx, `SELECT id, request_id, key_id, model FROM ledger WHERE `+where+` AND kind = 'settlement' AND account_id = $2
		FOR NO KEY UPDATE`, arg, clean(e.AccountID)).Scan(&settled.ID, &settled.RequestID, &settled.KeyID, &settled.Model)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && e.Refund:
		return false, fmt.Errorf("%w: there is no settlement to refund", store.ErrInvalid)
	case errors.Is(err, pgx.ErrNoRows):
		return false, fmt.Errorf("settlement %d of the account: %w", e.Settles, store.ErrNotFound)
	case err != nil || !e.Refund:
		return false, err
	}
	e.Settles, e.RequestID, e.KeyID, e.Model = settled.ID, settled.RequestID, settled.KeyID, settled.Model
	e.ID, err = number(ctx, tx, `SELECT id FROM ledger WHERE settles = $1 AND refund`, e.Settles)
	if e.ID != 0 || err != nil {
		return e.ID != 0, err
	}
	if e.Counters, err = counterSums(ctx, tx, e.Settles); err != nil {
		return false, err
	}
	for i := range e.Counters {
		e.Counters[i].Amount = -e.Counters[i].Amount
	}
	sum, err := charged(ctx, tx, e.Settles)
	e.Amount = -sum
	return false, err
}

// sumOutOfRange is what PostgreSQL says of a sum beyond an int64.
const sumOutOfRange = "22003"
