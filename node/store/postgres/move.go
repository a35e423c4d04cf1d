package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"corenode/node/store"
)

// Source is a store whose tables can be read as they are.
type Source interface {
	// Each visits the rows of a table with the values of columns.
	Each(table string, columns []string, visit func(values []any) error) error
	// Count is how many rows a table has.
	Count(table string) (int64, error)
	Verify() (store.Verification, error)
}

// ModuleSource is a Source that has modules, too.
type ModuleSource interface {
	// Modules visits their files, and returns what is kept of which serve; nil is nothing.
	Modules(visit func(store.ModuleFile) error) (state []byte, err error)
}

// table is one of a move, with the columns that both stores call the same.
type table struct {
	name    string
	columns []string
}

// moved are the tables of a move. What a row names is in the tables before it.
var moved = []table{
	{"settings", []string{"name", "value"}},
	{"accounts", []string{"id", "name", "unlimited", "disabled", "concurrency", "tokens_per_minute", "models", "created"}},
	{"balances", []string{"account_id", "amount"}},
	{"keys", []string{"id", "account_id", "hash", "hint", "created", "expires", "revoked", "last_used", "models", "tokens_per_minute",
		"budget"}},
	{"ledger", []string{"id", "kind", "account_id", "request_id", "key_id", "model", "time", "amount", "held", "input_uncached",
		"cache_read", "cache_write", "output", "reasoning", "tier", "reason", "module_digest", "input_hash", "charge_input", "provisional",
		"settles", "refund", "note", "replica", "upstream_request_id", "usage_source"}},
	{"ledger_counters", []string{"entry_id", "name", "period", "most", "amount"}},
	{"counters", []string{"account_id", "name", "period", "used", "most"}},
	{"usage", []string{"account_id", "day", "model", "key_id", "requests", "input_uncached", "cache_read", "cache_write", "output",
		"reasoning", "charged"}},
	{"idempotency", []string{"key", "account_id", "amount", "entry_id"}},
	{"audit", []string{"id", "time", "operator", "method", "path", "target", "account_id", "key_id", "status"}},
}

// flags are the columns that the source keeps as 0 and 1.
var flags = []string{"unlimited", "disabled", "provisional", "refund"}

// Moving is how far a move is.
type Moving struct {
	Table     string
	Rows      int64 // of the table that have come
	Whole     bool  // that is all of them
	Done, All int64 // rows of all tables
}

// progressEvery is how many rows of a table pass between two reports.
const progressEvery = 10_000

// report tells of the rows of tables, one after the other.
type report struct {
	tell        func(Moving)
	before, all int64 // rows of the tables before; of all
}

// of tells of a table.
func (r *report) of(table string, rows int64, whole bool) {
	r.tell(Moving{table, rows, whole, r.before + rows, r.all})
	if whole {
		r.before += rows
	}
}

// ErrUnsure means that a move was to be committed, and that it is not known what came of it.
var ErrUnsure = errors.New("the rows may be in the database, or not")

// MoveFrom takes over all rows of a sound source without open holds, ids and all, into this
// store, which must be empty. Sums of both are compared, and what came is verified, before
// anything counts: with an error other than ErrUnsure the store is as empty as before. progress
// is told of rows.
func (s *Store) MoveFrom(from Source, progress func(Moving)) (v store.Verification, err error) {
	before, err := from.Verify()
	if err == nil {
		err = movable(before)
	}
	all := int64(0)
	for _, m := range moved {
		if err == nil {
			var rows int64
			rows, err = from.Count(m.name)
			all += rows
		}
	}
	if err != nil {
		return v, fmt.Errorf("move: %w", err)
	}
	ctx := context.Background() // as long as it takes: someone watches
	asked, err := s.try(ctx, pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		if err := wantEmpty(ctx, tx); err != nil {
			return err
		}
		sums, told := map[string]int64{}, &report{tell: progress, all: all}
		for _, m := range moved {
			if err := m.copy(ctx, tx, from, sums, told); err != nil {
				return fmt.Errorf("table %s: %w", m.name, err)
			}
		}
		if m, ok := from.(ModuleSource); ok {
			if err := moveModules(ctx, tx, m, told); err != nil {
				return fmt.Errorf("modules: %w", err)
			}
		}
		v, err = prove(ctx, tx, before, sums)
		return err
	})
	if asked && err != nil {
		err = fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	return v, wrapped(known(err), "move")
}

func movable(v store.Verification) error {
	if len(v.Findings) > 0 {
		return fmt.Errorf("%w: the ledger has %d faults, the first: %s", store.ErrInvalid, len(v.Findings), v.Findings[0])
	}
	if v.OpenHolds > 0 {
		return fmt.Errorf("%w: %d requests are open, as a crash leaves them: start the node and stop it first",
			store.ErrInvalid, v.OpenHolds)
	}
	return nil
}

func wantEmpty(ctx context.Context, tx pgx.Tx) error {
	names := []string{"common", "modules"} // what no folder has as a table
	for _, m := range moved {
		names = append(names, m.name)
	}
	for _, name := range names {
		if _, err := tx.Exec(ctx, `LOCK TABLE `+name+` IN EXCLUSIVE MODE`); err != nil {
			return err
		}
		var there bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM `+name+`)`).Scan(&there); err != nil {
			return err
		}
		if there {
			return fmt.Errorf("%w: the database is not empty: its table %s has rows", store.ErrInvalid, name)
		}
	}
	return nil
}

// moveModules takes over the module files, and which of them serve.
func moveModules(ctx context.Context, tx pgx.Tx, from ModuleSource, told *report) error {
	files := int64(0)
	state, err := from.Modules(func(m store.ModuleFile) error {
		number, err := nextModules(ctx, tx)
		if err == nil {
			err = insertModule(ctx, tx, m, number, false)
		}
		files++
		return err
	})
	if err != nil || state == nil { // then the first node begins it
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO common (name, number, value) VALUES ($1, 1, $2)`, store.CommonRollout, state); err != nil {
		return err
	}
	told.all += files
	told.of("modules", files, true)
	return nil
}

// copy copies all rows of a table. Those of the ledger are added up in sums, by account.
func (m table) copy(ctx context.Context, tx pgx.Tx, from Source, sums map[string]int64, told *report) error {
	columns, rows, failed := m.columns, int64(0), error(nil)
	if m.name == "ledger" { // its rows have one place: behind each other by their ids, and before all to come
		columns = append(slices.Clone(columns), "place")
	}
	next, stop := iter.Pull(func(yield func([]any) bool) {
		failed = from.Each(m.name, m.columns, func(values []any) error {
			for i := range values {
				values[i] = stored(values[i], slices.Contains(flags, m.columns[i]))
			}
			if m.name == "ledger" {
				sums[values[2].(string)] += values[7].(int64)
				values = append(values, int64(0))
			}
			if rows++; rows%progressEvery == 0 {
				told.of(m.name, rows, false)
			}
			if !yield(values) {
				return context.Canceled
			}
			return nil
		})
	})
	defer stop()
	n, err := tx.CopyFrom(ctx, pgx.Identifier{m.name}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		values, _ := next() // nil at the end
		return values, failed
	}))
	if err == nil && n != rows {
		err = fmt.Errorf("%d of %d rows arrived", n, rows)
	}
	if err == nil {
		told.of(m.name, rows, true)
	}
	return err
}

// stored is a value of the source as this store keeps it.
func stored(value any, flag bool) any {
	switch v := value.(type) {
	case string:
		return clean(v)
	case int64:
		if flag {
			return v != 0
		}
	}
	return value
}

// prove holds what came to what was there, and lets ids go on behind it.
func prove(ctx context.Context, tx pgx.Tx, before store.Verification, sums map[string]int64) (v store.Verification, err error) {
	got := map[string]int64{}
	err = each(ctx, tx, `SELECT account_id, sum(amount)::bigint FROM ledger GROUP BY account_id`, func(r pgx.Rows) error {
		var id string
		var sum int64
		err := r.Scan(&id, &sum)
		got[id] = sum
		return err
	})
	if err == nil && !maps.Equal(got, sums) {
		err = fmt.Errorf("the rows of %d accounts add up to other sums than those of %d", len(got), len(sums))
	}
	for _, table := range []string{"ledger", "audit"} {
		if err == nil {
			_, err = tx.Exec(ctx, fmt.Sprintf(`SELECT setval('%s', max(id)) FROM %s HAVING max(id) IS NOT NULL`, numbered[table], table))
		}
	}
	if err != nil {
		return v, err
	}
	v.Findings = []string{}
	if err := verify(ctx, tx, &v); err != nil {
		return v, err
	}
	if len(v.Findings) > 0 || v.Rows != before.Rows || v.Accounts != before.Accounts || v.Charges != before.Charges {
		err = fmt.Errorf("what came is not what was there: %+v, want %+v", v, before)
	}
	return v, err
}
