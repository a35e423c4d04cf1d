package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/store"
	"corenode/node/store/rules"
)

// Append implements store.Store.
func (s *Store) Append(entries []account.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	_, err := s.Commit(limit.Batch{Rows: entries})
	return err
}

// Commit implements store.Cluster.
func (s *Store) Commit(b limit.Batch) (verdicts []limit.Verdict, err error) {
	var rows []account.Entry // of the last try: what a try that was rolled back completed is not so
	commit := func(how pace) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			rows = slices.Clone(b.Rows)
			verdicts, err = s.commit(ctx, tx, limit.Batch{Rows: rows, Asks: b.Asks, Releases: b.Releases, Returns: b.Returns}, how)
			return err
		}
	}
	if r := repeatable(b.Rows); r == again {
		if err = s.committing(commit(atOnce)); errors.Is(err, errThere) {
			err = s.transaction(r, commit(oneByOne))
		}
	} else {
		err = s.transaction(r, commit(oneByOne))
	}
	if err != nil {
		return nil, wrapped(err, "append to ledger")
	}
	copy(b.Rows, rows)
	return verdicts, nil
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

// append writes rows inside a transaction.
func (s *Store) append(ctx context.Context, tx pgx.Tx, rows []account.Entry) error {
	_, err := s.commit(ctx, tx, limit.Batch{Rows: rows}, oneByOne)
	return err
}

// pace says when rows are written.
type pace bool

const (
	// atOnce writes them with all that follows from them, in one round trip, where the locks say that they are new. It commits.
	atOnce pace = true
	// oneByOne writes them first, and sees which were there.
	oneByOne pace = false
)

// errThere means that a row which should be new was there: of another account, whose lock the batch does not have.
var errThere = fmt.Errorf("%w: a request of another account has that id", store.ErrInvalid)

// commit runs inside a transaction. A batch costs the same few statements, however large it is.
func (s *Store) commit(ctx context.Context, tx pgx.Tx, b limit.Batch, how pace) ([]limit.Verdict, error) {
	for i := range b.Rows {
		if err := rules.Entry(&b.Rows[i]); err != nil {
			return nil, rules.About(&b.Rows[i], err)
		}
	}
	w, err := s.lock(ctx, tx, b)
	if err != nil {
		return nil, err
	}
	if err := lockAdjusted(ctx, tx, b.Rows); err != nil {
		return nil, err
	}
	for _, r := range b.Returns {
		w.giveBack(r)
	}
	if err := w.append(ctx, tx, b.Rows, how); err != nil {
		return nil, err
	}
	for _, r := range b.Releases {
		w.release(r.RequestID, r.Used)
	}
	verdicts := w.decide(b.Asks)
	return verdicts, w.write(ctx, tx, how)
}

// append writes rows, in runs, and does to the accounts what they say.
func (w *work) append(ctx context.Context, tx pgx.Tx, rows []account.Entry, how pace) error {
	for rest := rows; len(rest) > 0; {
		n := run(rest)
		write := w.appendRun
		if how == atOnce && n == len(rows) && w.areNew(rows) {
			write = w.appendLater
		}
		if err := write(ctx, tx, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// areNew says whether no row of a batch without adjustments can be there: the locks of their accounts are held,
// and what is there was read.
func (w *work) areNew(rows []account.Entry) bool {
	seen := make(map[string]requestRows, len(rows))
	for i := range rows {
		e := &rows[i]
		id := clean(e.RequestID)
		there, before := w.known[id], seen[id]
		switch e.Kind {
		case account.Adjustment:
			return false
		case account.Hold:
			if there.hold || before.hold {
				return false
			}
			before.hold = true
		case account.Settlement:
			if there.settled || before.settled {
				return false
			}
			before.settled = true
		}
		seen[id] = before
	}
	return true
}

// appendLater counts rows that are new and does what their kinds bring along. write writes them.
func (w *work) appendLater(_ context.Context, _ pgx.Tx, entries []account.Entry) error {
	w.rows = entries
	for i := range entries {
		e := &entries[i]
		e.ID = w.ids[i]
		err := w.sums.Add(e)
		if err == nil {
			err = w.row(e, true)
		}
		if err != nil {
			return rules.About(e, err)
		}
	}
	w.ids = w.ids[len(entries):]
	return nil
}

// appendRun writes entries of one run, counts those that were not there before, and does
// what their kinds bring along.
func (w *work) appendRun(ctx context.Context, tx pgx.Tx, entries []account.Entry) error {
	ids := w.ids[:len(entries)]
	w.ids = w.ids[len(entries):]
	if entries[0].Kind == account.Adjustment {
		there, err := completeAdjustment(ctx, tx, &entries[0])
		if err != nil {
			return rules.About(&entries[0], err)
		}
		if there {
			return nil
		}
	}
	inserted := map[int64]struct{}{}
	b := &pgx.Batch{}
	queueEntries(b, entries, ids, w.place, inserted)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return about(entries, err)
	}
	var again []int // those whose hold or settlement is there
	for i := range entries {
		e := &entries[i]
		e.ID = ids[i]
		_, isNew := inserted[ids[i]]
		if !isNew {
			again = append(again, i)
		} else if err := w.sums.Add(e); err != nil {
			return rules.About(e, err)
		}
		if err := w.row(e, isNew); err != nil {
			return rules.About(e, err)
		}
	}
	b = &pgx.Batch{}
	queueCounters(b, entries, inserted)
	var lates []late
	if len(again) > 0 {
		queueFirst(b, entries, again, &lates)
	}
	if b.Len() > 0 {
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
	}
	return w.adjustLate(ctx, tx, lates)
}

// write writes what the accounts and their requests have now, and the holds of those that
// were admitted. Everything is locked by its account's row.
func (w *work) write(ctx context.Context, tx pgx.Tx, how pace) error {
	b := &pgx.Batch{}
	all := map[int64]struct{}{}
	for i := range w.holds {
		w.holds[i].ID = w.ids[i]
		w.open[w.holds[i].RequestID].holdID = w.ids[i]
	}
	if entries := slices.Concat(w.rows, w.holds); len(entries) > 0 {
		ids := column(entries, func(e account.Entry) int64 { return e.ID })
		queueNew(b, entries, ids, w.place)
		for _, id := range ids {
			all[id] = struct{}{}
		}
		queueCounters(b, entries, all)
	}
	w.queueOpen(b)
	w.queueAccounts(b)
	w.queueGrants(b)
	queueCounterSums(b, w.sums)
	queueUsage(b, w.sums)
	if how == atOnce {
		b.Queue(`COMMIT`)
	}
	if b.Len() == 0 {
		return nil
	}
	err := tx.SendBatch(ctx, b).Close()
	e, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case ok && e.Code == sumOutOfRange:
		return fmt.Errorf("%w: a sum of the batch does not fit: %w", store.ErrInvalid, err)
	case ok && e.ConstraintName == "ledger_once":
		return errThere
	}
	if err != nil && len(w.rows) > 0 {
		return about(w.rows, err)
	}
	return err
}
