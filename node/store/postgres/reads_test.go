package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// readsOf counts what a call reads of a table on the only connection of a store: the scans that it begins, and their rows.
func readsOf(t *testing.T, s *Store, table string, call func() error) (scans, rows int64) {
	t.Helper()
	count := func() (scans, rows int64) { // what the connection has reported, and what it has not yet
		err := s.pool.QueryRow(t.Context(), `SELECT sum(seq_scan + idx_scan)::bigint, sum(seq_tup_read + idx_tup_fetch)::bigint FROM (
			SELECT relid, seq_scan, idx_scan, seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables UNION ALL
			SELECT relid, seq_scan, idx_scan, seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables) n
			WHERE relid = to_regclass($1)`, table).Scan(&scans, &rows)
		if err != nil {
			t.Fatal(err)
		}
		return scans, rows
	}
	scans, rows = count()
	if err := call(); err != nil {
		t.Fatal(err)
	}
	scansAfter, rowsAfter := count()
	return scansAfter - scans, rowsAfter - rows
}

// TestKeysAreAddedUpOnce: what was charged to the keys of an account is added up once, and not again for each that has a budget.
func TestKeysAreAddedUpOnce(t *testing.T) {
	const keys = 20
	s := dial(t, postgrestest.URL(t)+"&pool_max_conns=1", "one")
	a := storetest.MustCreate(t, s, "a", 0).ID
	if err := s.Exec(fmt.Sprintf(`INSERT INTO keys SELECT 'key_' || i, '%s', sha256(i::text::bytea), '', 0, 0, 0, 0, '[]', 0, 1000
		FROM generate_series(0, %d) i`, a, keys-1)); err != nil {
		t.Fatal(err)
	}
	var rows []account.Entry
	for i := range keys {
		e := storetest.Settlement(a, fmt.Sprint("r", i), -abi.Nano(i))
		e.KeyID = fmt.Sprint("key_", i)
		rows = append(rows, e)
	}
	storetest.MustAppend(t, s, rows...)
	var uses []account.KeyUse
	for who, read := range map[string]func() error{
		"an operator": func() (err error) {
			uses, err = s.KeysCharged(a, storetest.Moment)
			return err
		},
		"a batch": func() error {
			return s.view(func(ctx context.Context, tx pgx.Tx) error {
				w, loaded := &work{now: storetest.Moment, open: map[string]*request{}}, map[string]*limit.Loaded{}
				err := w.readWhole(ctx, tx, []string{a}, loaded)
				uses = loaded[a].Keys
				return err
			})
		},
	} {
		if scans, _ := readsOf(t, s, "usage", read); scans != 1 || len(uses) != keys {
			t.Errorf("%s reads the sums %d times for %d keys", who, scans, len(uses))
		}
		for _, u := range uses {
			if u.Budget != 1000 || u.KeyID != fmt.Sprint("key_", int64(u.Charged)) {
				t.Errorf("%s reads %+v", who, u)
			}
		}
	}
}

// TestRequestReadsItsOwnRows: a request is shown without a look at the adjustments of others.
func TestRequestReadsItsOwnRows(t *testing.T) {
	s := dial(t, postgrestest.URL(t)+"&pool_max_conns=1", "one")
	a := storetest.MustCreate(t, s, "a", 0).ID
	storetest.MustAppend(t, s, storetest.Hold(a, "mine", 10), storetest.Settlement(a, "mine", -5), storetest.RefundOf(a, "mine"))
	others, ids := make([]account.Entry, 2000), make([]int64, 2000)
	for i := range others {
		ids[i] = int64(100_000 + i)
		others[i] = account.Entry{Kind: account.Adjustment, AccountID: a, Time: storetest.Moment, Settles: ids[i]}
	}
	err := s.transaction(once, func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		queueNew(b, others, ids, 0)
		return tx.SendBatch(ctx, b).Close()
	})
	if err == nil {
		err = s.Exec(`ANALYZE ledger`)
	}
	if err != nil {
		t.Fatal(err)
	}
	var rows []account.Entry
	_, read := readsOf(t, s, "ledger", func() (err error) {
		rows, err = s.Request("mine")
		return err
	})
	if len(rows) != 3 || read > 20 {
		t.Errorf("%d rows were read for %v", read, requests(rows))
	}
}
