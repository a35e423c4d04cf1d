package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// entryColumns are what scanEntry reads, in its order.
const entryColumns = `id, kind, account_id, request_id, key_id, model, time, amount, held, input_uncached, cache_read,
	cache_write, output, reasoning, tier, reason, module_digest, input_hash, provisional, settles, refund, note, charge_input,
	replica, upstream_request_id, usage_source`

func scanEntry(r pgx.Rows) (e account.Entry, err error) {
	var at, tier int64
	err = r.Scan(&e.ID, &e.Kind, &e.AccountID, &e.RequestID, &e.KeyID, &e.Model, &at, &e.Amount, &e.Held, &e.Usage.InputUncached,
		&e.Usage.CacheRead, &e.Usage.CacheWrite, &e.Usage.Output, &e.Usage.Reasoning, &tier, &e.Reason, &e.ModuleDigest, &e.InputHash,
		&e.Provisional, &e.Settles, &e.Refund, &e.Note, &e.ChargeInput, &e.Source.Replica, &e.Source.RequestID, &e.Source.Usage)
	e.Time, e.Tier = rules.ToTime(at), int(tier)
	if len(e.ChargeInput) == 0 {
		e.ChargeInput = nil
	}
	return e, err
}

// entries reads the rows of the ledger that a condition selects, with their counters.
func entries(ctx context.Context, tx pgx.Tx, where string, args ...any) (all []account.Entry, err error) {
	err = each(ctx, tx, `SELECT `+entryColumns+` FROM ledger `+where, func(r pgx.Rows) error {
		e, err := scanEntry(r)
		all = append(all, e)
		return err
	}, args...)
	if err == nil {
		err = withCounters(ctx, tx, all)
	}
	return all, err
}

// withCounters completes rows that were read.
func withCounters(ctx context.Context, tx pgx.Tx, all []account.Entry) error {
	if len(all) == 0 {
		return nil
	}
	ids, at := make([]int64, len(all)), make(map[int64]int, len(all))
	for i := range all {
		ids[i], at[all[i].ID] = all[i].ID, i
	}
	return each(ctx, tx, `SELECT entry_id, name, period, most, amount FROM ledger_counters WHERE entry_id = ANY ($1)
		ORDER BY entry_id, name`, func(r pgx.Rows) error {
		var id int64
		var n abi.Counter
		err := r.Scan(&id, &n.Name, &n.Period, &n.Limit, &n.Amount)
		e := &all[at[id]]
		e.Counters = append(e.Counters, n)
		return err
	}, ids)
}

func (s *Store) entries(where string, args ...any) (all []account.Entry, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		all, err = entries(ctx, tx, where, args...)
		return err
	})
	return all, err
}

// Entries implements store.Store: rows in the order of commits, and none that another could
// still come before. The first page since a time passes all rows before it: neither does a place say when it was written, nor a
// time where its row is, so no index gives a beginning that loses none.
func (s *Store) Entries(q store.Query) (page []account.Entry, err error) {
	read := func(ctx context.Context, tx pgx.Tx) error {
		place := int64(math.MinInt64)
		if q.After != 0 {
			err := tx.QueryRow(ctx, `SELECT place FROM ledger WHERE id = $1`, q.After).Scan(&place)
			if errors.Is(err, pgx.ErrNoRows) {
				err = fmt.Errorf("%w: no row has the id %d", store.ErrInvalid, q.After)
			}
			if err != nil {
				return err
			}
		}
		page, err = entries(ctx, tx, `WHERE (place, id) > ($1, $2) AND place < horizon() AND time >= $3 ORDER BY place, id LIMIT $4`,
			place, q.After, since(q), pageLimit(q.Limit))
		return err
	}
	if q.After == 0 && !q.Since.IsZero() {
		err = s.viewLong(read)
	} else {
		err = s.view(read)
	}
	if q.After != 0 && !q.Since.IsZero() && errors.Is(err, context.DeadlineExceeded) {
		err = s.viewLong(read) // the pages before were of a clock that was ahead once: what is since that time is far behind them
	}
	return page, wrapped(err, "read ledger")
}

// Entry implements store.Store.
func (s *Store) Entry(id int64) (account.Entry, error) {
	e, err := only(s.entries(`WHERE id = $1`, id))
	return e, wrapped(err, "row %d", id)
}

func since(q store.Query) int64 {
	if q.Since.IsZero() {
		return math.MinInt64
	}
	return rules.FromTime(q.Since)
}

func pageLimit(n int) int {
	if n <= 0 || n > store.EntriesMax {
		return store.EntriesMax
	}
	return n
}

// OpenHolds implements store.Store.
func (s *Store) OpenHolds() (holds []account.Entry, err error) { return s.openHolds(``) }

// AccountHolds implements store.Store.
func (s *Store) AccountHolds(accountID string) (holds []account.Entry, err error) {
	return s.openHolds(`WHERE o.account_id = $1`, clean(accountID))
}

// OwnHolds implements store.Store.
func (s *Store) OwnHolds() (holds []account.Entry, err error) {
	return s.openHolds(`WHERE o.node = $1`, s.node)
}

func (s *Store) openHolds(where string, args ...any) (holds []account.Entry, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		holds = nil
		err := each(ctx, tx, `SELECT h.id, h.account_id, h.request_id, h.key_id, h.model, h.time, h.held, h.module_digest, h.provisional,
				coalesce(c.input_uncached, 0), coalesce(c.cache_read, 0), coalesce(c.cache_write, 0),
				coalesce(c.output, 0), coalesce(c.reasoning, 0)
			FROM open_holds o JOIN ledger h ON h.id = o.hold_id LEFT JOIN ledger c ON c.id = o.checkpoint_id `+where+`
			ORDER BY h.id`, func(r pgx.Rows) error {
			e := account.Entry{Kind: account.Hold}
			var at int64
			err := r.Scan(&e.ID, &e.AccountID, &e.RequestID, &e.KeyID, &e.Model, &at, &e.Held, &e.ModuleDigest, &e.Provisional,
				&e.Usage.InputUncached, &e.Usage.CacheRead, &e.Usage.CacheWrite, &e.Usage.Output, &e.Usage.Reasoning)
			e.Time = rules.ToTime(at)
			holds = append(holds, e)
			return err
		}, args...)
		if err == nil {
			err = withCounters(ctx, tx, holds)
		}
		return err
	})
	return holds, wrapped(err, "read open holds")
}

// Settlement implements store.Store.
func (s *Store) Settlement(ref string) (account.Entry, error) {
	id, numeric := strconv.ParseInt(ref, 10, 64)
	where, arg := `WHERE request_id = $1 AND kind = 'settlement'`, any(clean(ref))
	if numeric == nil {
		where, arg = `WHERE id = $1 AND kind = 'settlement'`, id
	}
	e, err := only(s.entries(where, arg))
	return e, wrapped(err, "settlement %q", ref)
}

// only returns the one thing that a query finds, or store.ErrNotFound.
func only(found []account.Entry, err error) (account.Entry, error) {
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return account.Entry{}, err
	}
	return found[0], nil
}

// Provisional implements store.Store. A late settlement that charges provisionally is there as its adjustment, with all that its
// request is charged. Behind a re-rating it is final: a settlement has one. The first page passes all that was ever rated again.
func (s *Store) Provisional(after int64) (all []account.Entry, err error) {
	err = s.viewLong(func(ctx context.Context, tx pgx.Tx) error {
		all, err = entries(ctx, tx, `l WHERE provisional AND id > $1 AND (kind = 'settlement' OR `+isLateRow+`) AND NOT EXISTS (SELECT 1
			FROM ledger a WHERE a.settles = CASE WHEN l.kind = 'settlement' THEN l.id ELSE l.settles END AND a.settles > 0 AND a.id <> l.id)
			ORDER BY id LIMIT $2`, after, store.EntriesMax)
		for i := range all {
			if e := &all[i]; err == nil && e.Kind == account.Adjustment {
				if e.Amount, err = charged(ctx, tx, e.Settles); err == nil {
					e.Counters, err = counterSums(ctx, tx, e.Settles)
				}
			}
		}
		return err
	})
	return all, wrapped(err, "read provisional charges")
}

// charged is what a settlement and its adjustments charge.
func charged(ctx context.Context, tx pgx.Tx, settlement int64) (abi.Nano, error) {
	sum, err := number(ctx, tx, `SELECT sum(amount)::bigint FROM ledger WHERE id = $1 OR (settles = $1 AND settles > 0)`, settlement)
	return abi.Nano(sum), err
}

// Adjust implements store.Store. What was rated is the only row that adjusts its settlement, or that itself.
func (s *Store) Adjust(e account.Entry) (done bool, err error) {
	e.Kind = account.Adjustment
	rated := e.Settles
	err = s.transaction(once, func(ctx context.Context, tx pgx.Tx) error {
		of, err := number(ctx, tx, `SELECT settles FROM ledger WHERE id = $1 AND provisional AND `+isLateRow, rated)
		if err != nil {
			return err
		}
		e.Settles = cmp.Or(of, rated)
		found, err := adjustments(ctx, tx, e, fmt.Sprint(`settles > 0 AND id <> `, rated))
		if done = found == 0; err != nil || !done {
			return err
		}
		return s.append(ctx, tx, []account.Entry{e})
	})
	return done && err == nil, wrapped(err, "adjust settlement %d", e.Settles)
}

// adjustments counts those of a settlement, which it locks behind its account, as a batch does: nobody else adds one meanwhile.
func adjustments(ctx context.Context, tx pgx.Tx, e account.Entry, which string) (int64, error) {
	if _, err := tx.Exec(ctx, `SELECT 1 FROM balances WHERE account_id = $1 FOR NO KEY UPDATE`, clean(e.AccountID)); err != nil {
		return 0, err
	}
	if _, err := number(ctx, tx, `SELECT id FROM ledger WHERE id = $1 FOR NO KEY UPDATE`, e.Settles); err != nil {
		return 0, err
	}
	return number(ctx, tx, `SELECT count(*) FROM ledger WHERE settles = $1 AND `+which, e.Settles)
}

// Refund implements store.Store.
func (s *Store) Refund(settlement account.Entry, note string) (e account.Entry, done bool, err error) {
	if err := rules.Note(note); err != nil {
		return e, false, fmt.Errorf("refund settlement %d: %w", settlement.ID, err)
	}
	err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		rows := []account.Entry{{Kind: account.Adjustment, AccountID: settlement.AccountID, Time: s.now().UTC(),
			Settles: settlement.ID, Refund: true, Note: note}}
		found, err := adjustments(ctx, tx, rows[0], `refund`)
		if err == nil {
			err = s.append(ctx, tx, rows)
		}
		e, done = rows[0], found == 0
		return err
	})
	if err == nil && !done {
		e, err = only(s.entries(`WHERE id = $1`, e.ID))
	}
	if err != nil {
		return account.Entry{}, false, fmt.Errorf("refund settlement %d: %w", settlement.ID, err)
	}
	return e, done, nil
}

// Request implements store.Store.
func (s *Store) Request(id string) (rows []account.Entry, err error) {
	rows, err = s.entries(`WHERE request_id = $1 AND (kind = 'hold' OR kind = 'settlement') OR settles > 0 AND settles =
		(SELECT id FROM ledger WHERE request_id = $1 AND kind = 'settlement') ORDER BY id`, clean(id)) // with IN all adjustments are read
	if err == nil && len(rows) == 0 {
		err = store.ErrNotFound
	}
	return rows, wrapped(err, "request %q", id)
}

// visitsMax bounds how many rows one page looks at of which few may have the model, key or kind that is asked for.
const visitsMax = 4096

// Statement implements store.Store.
func (s *Store) Statement(q store.StatementQuery) (page []account.Entry, next int64, err error) {
	q.Limit = pageLimit(q.Limit)
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		page, next, err = statement(ctx, tx, q)
		return err
	})
	return page, next, wrapped(err, "read statement")
}

func statement(ctx context.Context, tx pgx.Tx, q store.StatementQuery) (page []account.Entry, next int64, err error) {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.Since.IsZero() {
		from = rules.FromTime(q.Since)
	}
	if !q.Until.IsZero() {
		to = rules.Before(q.Until)
	}
	where := `WHERE kind <> 'hold' AND kind <> 'checkpoint' AND time BETWEEN $1 AND $2`
	args := []any{from, to}
	if q.AccountID != "" {
		args = append(args, clean(q.AccountID))
		where += fmt.Sprintf(` AND account_id = $%d`, len(args))
	}
	order, behind, within := ` ORDER BY time, id`, `>`, `<=`
	if q.Newest {
		order, behind, within = ` ORDER BY time DESC, id DESC`, `<`, `>=`
	}
	bound := func(how string, id int64) error { // rows on one side of that one
		var at int64
		err := tx.QueryRow(ctx, `SELECT time FROM ledger WHERE id = $1`, id).Scan(&at)
		if errors.Is(err, pgx.ErrNoRows) {
			err = fmt.Errorf("%w: no row has the id %d", store.ErrInvalid, id)
		}
		args = append(args, at, id)
		where += fmt.Sprintf(` AND (time, id) %s ($%d, $%d)`, how, len(args)-1, len(args))
		return err
	}
	if q.After != 0 {
		if err := bound(behind, q.After); err != nil {
			return nil, 0, err
		}
	}
	if q.Model != "" || q.KeyID != "" || q.Kind != "" {
		last, err := number(ctx, tx, `SELECT id FROM ledger `+where+order+fmt.Sprintf(` LIMIT 1 OFFSET %d`, visitsMax-1), args...)
		if err == nil && last != 0 {
			next, err = last, bound(within, last)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	n := len(args)
	args = append(args, clean(q.Model), clean(q.KeyID), string(q.Kind), q.Limit)
	err = each(ctx, tx, `SELECT `+entryColumns+` FROM ledger `+where+fmt.Sprintf(` AND ($%d = '' OR model = $%d) AND ($%d = '' OR key_id = $%d)
		AND ($%d = '' OR kind = $%d)`, n+1, n+1, n+2, n+2, n+3, n+3)+order+fmt.Sprintf(` LIMIT $%d`, n+4), func(r pgx.Rows) error {
		e, err := scanEntry(r)
		page = append(page, e)
		return err
	}, args...)
	if err == nil {
		err = withCounters(ctx, tx, page)
	}
	if len(page) == q.Limit {
		next = page[len(page)-1].ID
	}
	return slices.Clip(page), next, err
}

// Usage implements store.Store.
func (s *Store) Usage(q store.UsageQuery) (page []store.UsageSum, err error) {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.Since.IsZero() {
		from = rules.Day(q.Since)
	}
	if !q.Until.IsZero() {
		to = rules.Day(q.Until)
	}
	after := rules.Day(q.AfterDay)
	if q.After && q.ByDay {
		from = max(from, after) // what the pages before showed is not read again
	}
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		page = nil
		return each(ctx, tx, `SELECT d, m, k, sum(requests)::bigint, sum(input_uncached)::bigint, sum(cache_read)::bigint,
				sum(cache_write)::bigint, sum(output)::bigint, sum(reasoning)::bigint, sum(charged)::bigint
			FROM (SELECT *, CASE WHEN $4 THEN day ELSE 0 END AS d, CASE WHEN $5 THEN model ELSE '' END COLLATE "C" AS m,
				CASE WHEN $6 THEN key_id ELSE '' END COLLATE "C" AS k FROM usage WHERE account_id = $1 AND day BETWEEN $2 AND $3) u
			WHERE NOT $7 OR (d, m, k) > ($8::bigint, $9::text, $10::text)
			GROUP BY d, m, k ORDER BY d, m, k LIMIT $11`, func(r pgx.Rows) error {
			var sum store.UsageSum
			var day int64
			u := &sum.Usage
			err := r.Scan(&day, &sum.Model, &sum.KeyID, &sum.Requests, &u.InputUncached, &u.CacheRead, &u.CacheWrite, &u.Output,
				&u.Reasoning, &sum.Charged)
			sum.Day = rules.DayTime(day)
			page = append(page, sum)
			return err
		}, clean(q.AccountID), from, to, q.ByDay, q.ByModel, q.ByKey, q.After, after, clean(q.AfterModel), clean(q.AfterKeyID),
			pageLimit(q.Limit))
	})
	return page, wrapped(err, "usage of %q", q.AccountID)
}
