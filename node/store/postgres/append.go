package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// Append implements store.Store. A batch costs the same few statements, however many rows it has.
func (s *Store) Append(entries []account.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	var rows []account.Entry // of the last try: what a try that was rolled back completed is not so
	err := s.transaction(repeatable(entries), func(ctx context.Context, tx pgx.Tx) error {
		rows = slices.Clone(entries)
		return s.append(ctx, tx, rows)
	})
	if err == nil {
		copy(entries, rows)
	}
	return wrapped(err, "append to ledger")
}

// repeatable says whether a batch that is written twice is there once. A checkpoint that is
// there twice says the same.
func repeatable(entries []account.Entry) repeat {
	for i := range entries {
		if e := &entries[i]; e.Kind == account.TopUp || e.Kind == account.Adjustment && !e.Refund {
			return once
		}
	}
	return again
}

// append runs inside a transaction.
func (s *Store) append(ctx context.Context, tx pgx.Tx, entries []account.Entry) error {
	for i := range entries {
		if err := rules.Entry(&entries[i]); err != nil {
			return rules.About(&entries[i], err)
		}
	}
	if err := lockAdjusted(ctx, tx, entries); err != nil {
		return err
	}
	ids, place, err := begin(ctx, tx, entries)
	if err != nil {
		return err
	}
	sums := rules.NewSums()
	for rest := entries; len(rest) > 0; {
		n := run(rest)
		if err := s.appendRun(ctx, tx, rest[:n], ids[:n], place, sums); err != nil {
			return err
		}
		rest, ids = rest[n:], ids[n:]
	}
	return writeSums(ctx, tx, sums)
}

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

// begin gives each entry an id and all of them their place, and looks their accounts up.
func begin(ctx context.Context, tx pgx.Tx, entries []account.Entry) (ids []int64, place int64, err error) {
	var names []string
	for i := range entries {
		names = append(names, clean(entries[i].AccountID))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var missing []string
	b := &pgx.Batch{}
	b.Queue(`SELECT nextval('ledger_id') FROM generate_series(1, $1::bigint)`, len(entries)).Query(func(rows pgx.Rows) error {
		ids, err = pgx.AppendRows(ids, rows, pgx.RowTo[int64])
		return err
	})
	b.Queue(`SELECT place()`).QueryRow(func(row pgx.Row) error { return row.Scan(&place) })
	b.Queue(`SELECT t.id FROM unnest($1::text[]) AS t (id) WHERE NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = t.id)`, names).
		Query(func(rows pgx.Rows) error {
			missing, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, 0, err
	}
	slices.Sort(ids)
	if len(missing) > 0 {
		i := slices.IndexFunc(entries, func(e account.Entry) bool { return clean(e.AccountID) == missing[0] })
		return nil, 0, rules.About(&entries[i], fmt.Errorf("account %q: %w", missing[0], store.ErrNotFound))
	}
	return ids, place, nil
}

// appendRun writes entries of one run, counts those that were not there before, and does
// what their kinds bring along.
func (s *Store) appendRun(ctx context.Context, tx pgx.Tx, entries []account.Entry, ids []int64, place int64, sums *rules.Sums) error {
	if entries[0].Kind == account.Adjustment {
		there, err := completeAdjustment(ctx, tx, &entries[0])
		if err != nil {
			return rules.About(&entries[0], err)
		}
		if there {
			return nil
		}
	}
	inserted, err := insertEntries(ctx, tx, entries, ids, place)
	if err != nil {
		return about(entries, err)
	}
	var again []int // those whose hold or settlement is there
	for i := range entries {
		e := &entries[i]
		e.ID = ids[i]
		if _, ok := inserted[ids[i]]; !ok {
			again = append(again, i)
			continue
		}
		if err := sums.Add(e); err != nil {
			return rules.About(e, err)
		}
	}
	b := &pgx.Batch{}
	queueCounters(b, entries, inserted)
	s.queueHolds(b, entries, inserted)
	if len(again) > 0 {
		queueFirst(b, entries, again)
	}
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, b).Close()
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
	upstream_request_id, usage_source)
	ON CONFLICT (request_id, kind) WHERE kind = 'hold' OR kind = 'settlement' DO NOTHING RETURNING id`

// insertEntries writes rows, and returns the ids of those that were not there.
func insertEntries(ctx context.Context, tx pgx.Tx, entries []account.Entry, ids []int64, place int64) (map[int64]struct{}, error) {
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
	inserted := make(map[int64]struct{}, len(entries))
	err := each(ctx, tx, insertLedger, func(r pgx.Rows) error {
		var id int64
		err := r.Scan(&id)
		inserted[id] = struct{}{}
		return err
	}, place, ids, texts(func(e *account.Entry) string { return string(e.Kind) }),
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
		texts(func(e *account.Entry) string { return e.Source.Usage }))
	return inserted, err
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

// queueHolds opens, marks and closes holds: what is left is as if it were done row by row.
func (s *Store) queueHolds(b *pgx.Batch, entries []account.Entry, inserted map[int64]struct{}) {
	var opened struct {
		requests, accounts []string
		held, ids          []int64
	}
	at := map[string]int64{} // the last checkpoint of a request, behind its hold
	var closed []string
	for i := range entries {
		e := &entries[i]
		_, isNew := inserted[e.ID]
		request := clean(e.RequestID)
		switch {
		case e.Kind == account.Hold && isNew:
			opened.requests, opened.accounts = append(opened.requests, request), append(opened.accounts, clean(e.AccountID))
			opened.held, opened.ids = append(opened.held, int64(e.Held)), append(opened.ids, e.ID)
			delete(at, request)
		case e.Kind == account.Checkpoint:
			at[request] = e.ID
		case e.Kind == account.Settlement && !e.NeverHeld: // also one that was there: nothing of a settled request stays open
			closed = append(closed, request)
		}
	}
	if len(opened.ids) > 0 {
		b.Queue(`INSERT INTO open_holds (request_id, account_id, held, hold_id, checkpoint_id, node)
			SELECT t.*, 0, $5 FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS t (request_id, account_id, held, hold_id)
			WHERE NOT EXISTS (SELECT 1 FROM ledger l WHERE l.request_id = t.request_id AND l.kind = 'settlement')`,
			opened.requests, opened.accounts, opened.held, opened.ids, s.node)
	}
	if len(at) > 0 {
		var requests []string
		var ids []int64
		for request, id := range at {
			requests, ids = append(requests, request), append(ids, id)
		}
		b.Queue(`UPDATE open_holds o SET checkpoint_id = t.id FROM unnest($1::text[], $2::bigint[]) AS t (request_id, id)
			WHERE o.request_id = t.request_id`, requests, ids)
	}
	if len(closed) > 0 {
		b.Queue(`DELETE FROM open_holds WHERE request_id = ANY ($1)`, closed)
	}
}

// queueFirst finds the ids of holds and settlements that were there before.
func queueFirst(b *pgx.Batch, entries []account.Entry, again []int) {
	requests := make([]string, len(again))
	for i, at := range again {
		requests[i] = clean(entries[at].RequestID)
	}
	b.Queue(`SELECT id, request_id, kind FROM ledger WHERE request_id = ANY ($1) AND (kind = 'hold' OR kind = 'settlement')`, requests).
		Query(func(rows pgx.Rows) error {
			type row struct{ request, kind string }
			first := map[row]int64{}
			for rows.Next() {
				var id int64
				var r row
				if err := rows.Scan(&id, &r.request, &r.kind); err != nil {
					return err
				}
				first[r] = id
			}
			for _, at := range again {
				e := &entries[at]
				e.ID = first[row{clean(e.RequestID), string(e.Kind)}]
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
	e.Counters = nil
	err = each(ctx, tx, `SELECT n.name, n.period, max(n.most), -sum(n.amount)::bigint FROM ledger_counters n JOIN ledger l ON l.id = n.entry_id
		WHERE l.id = $1 OR (l.settles = $1 AND l.settles > 0) GROUP BY n.name, n.period HAVING sum(n.amount) <> 0`, func(r pgx.Rows) error {
		var n abi.Counter
		err := r.Scan(&n.Name, &n.Period, &n.Limit, &n.Amount)
		e.Counters = append(e.Counters, n)
		return err
	}, e.Settles)
	if err != nil {
		return false, err
	}
	charged, err := number(ctx, tx, `SELECT sum(amount)::bigint FROM ledger WHERE id = $1 OR (settles = $1 AND settles > 0)`, e.Settles)
	e.Amount = -abi.Nano(charged)
	return false, err
}

// sumOutOfRange is what PostgreSQL says of a sum beyond an int64.
const sumOutOfRange = "22003"

// writeSums changes the tables of sums, each in the order of its keys: two nodes that write
// at once wait for each other and never in a circle.
func writeSums(ctx context.Context, tx pgx.Tx, sums *rules.Sums) error {
	b := &pgx.Batch{}
	queueBalances(b, sums)
	queueCounterSums(b, sums)
	queueUsage(b, sums)
	if b.Len() == 0 {
		return nil
	}
	err := tx.SendBatch(ctx, b).Close()
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == sumOutOfRange {
		return fmt.Errorf("%w: a sum of the batch does not fit: %w", store.ErrInvalid, err)
	}
	return err
}
