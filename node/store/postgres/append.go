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

const insertLedger = `INSERT INTO ledger (id, place, kind, account_id, request_id, key_id, model, time, amount, held,
	input_uncached, cache_read, cache_write, output, reasoning, tier, reason, module_digest, input_hash, charge_input, provisional,
	settles, refund, note, replica, upstream_request_id, usage_source)
	SELECT id, $1, kind, account_id, request_id, key_id, model, time, amount, held,
	input_uncached, cache_read, cache_write, output, reasoning, tier, reason, module_digest, input_hash, charge_input, provisional,
	settles, refund, note, replica, upstream_request_id, usage_source
	FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[],
	$11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[], $18::text[], $19::text[],
	$20::bytea[], $21::boolean[], $22::bigint[], $23::boolean[], $24::text[], $25::text[], $26::text[], $27::text[])
	AS t (id, kind, account_id, request_id, key_id, model, time, amount, held, input_uncached, cache_read, cache_write, output,
	reasoning, tier, reason, module_digest, input_hash, charge_input, provisional, settles, refund, note, replica,
	upstream_request_id, usage_source) `

const onceMore = `ON CONFLICT (request_id, kind) WHERE kind = 'hold' OR kind = 'settlement' DO NOTHING RETURNING id`

// queueEntries writes rows, and notes the ids of those that were not there.
func queueEntries(b *pgx.Batch, entries []account.Entry, ids []int64, place int64, inserted map[int64]struct{}) {
	b.Queue(insertLedger+onceMore, columns(entries, ids, place)...).Query(func(rows pgx.Rows) error {
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
	b.Queue(insertLedger, columns(entries, ids, place)...)
}

// columns are the arguments of insertLedger.
func columns(entries []account.Entry, ids []int64, place int64) []any {
	texts := func(field func(*account.Entry) string) []string {
		column := make([]string, len(entries))
		for i := range entries {
			column[i] = clean(field(&entries[i]))
		}
		return column
	}
	nums := func(field func(*account.Entry) int64) []int64 {
		column := make([]int64, len(entries))
		for i := range entries {
			column[i] = field(&entries[i])
		}
		return column
	}
	flags := func(field func(*account.Entry) bool) []bool {
		column := make([]bool, len(entries))
		for i := range entries {
			column[i] = field(&entries[i])
		}
		return column
	}
	inputs := make([][]byte, len(entries))
	for i := range entries {
		if inputs[i] = entries[i].ChargeInput; inputs[i] == nil {
			inputs[i] = []byte{}
		}
	}
	return []any{place, ids, texts(func(e *account.Entry) string { return string(e.Kind) }),
		texts(func(e *account.Entry) string { return e.AccountID }), texts(func(e *account.Entry) string { return e.RequestID }),
		texts(func(e *account.Entry) string { return e.KeyID }), texts(func(e *account.Entry) string { return e.Model }),
		nums(func(e *account.Entry) int64 { return rules.FromTime(e.Time) }), nums(func(e *account.Entry) int64 { return int64(e.Amount) }),
		nums(func(e *account.Entry) int64 { return int64(e.Held) }), nums(func(e *account.Entry) int64 { return e.Usage.InputUncached }),
		nums(func(e *account.Entry) int64 { return e.Usage.CacheRead }), nums(func(e *account.Entry) int64 { return e.Usage.CacheWrite }),
		nums(func(e *account.Entry) int64 { return e.Usage.Output }), nums(func(e *account.Entry) int64 { return e.Usage.Reasoning }),
		nums(func(e *account.Entry) int64 { return int64(e.Tier) }), texts(func(e *account.Entry) string { return string(e.Reason) }),
		texts(func(e *account.Entry) string { return e.ModuleDigest }), texts(func(e *account.Entry) string { return e.InputHash }),
		inputs, flags(func(e *account.Entry) bool { return e.Provisional }), nums(func(e *account.Entry) int64 { return e.Settles }),
		flags(func(e *account.Entry) bool { return e.Refund }), texts(func(e *account.Entry) string { return e.Note }),
		texts(func(e *account.Entry) string { return e.Source.Replica }),
		texts(func(e *account.Entry) string { return e.Source.RequestID }),
		texts(func(e *account.Entry) string { return e.Source.Usage })}
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
