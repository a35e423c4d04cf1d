package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

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

// budgeted makes an account whose keys have a budget of 1000 each, and were charged what the number in their id says on each of
// so many days and models.
func budgeted(t *testing.T, s *Store, keys, days, models int) (accountID string) {
	t.Helper()
	a := storetest.MustCreate(t, s, "a", 1_000_000).ID
	today := storetest.Moment.Unix() / 86400
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO keys SELECT 'key_' || i, '%s', sha256(i::text::bytea), '', 0, 0, 0, 0, '[]', 0, 1000
			FROM generate_series(0, %d) i`, a, keys-1),
		fmt.Sprintf(`INSERT INTO usage SELECT '%s', %d - d, 'model ' || m, 'key_' || k, 1, 0, 0, 0, 0, 0, k
			FROM generate_series(0, %d) d, generate_series(1, %d) m, generate_series(0, %d) k`, a, today, days-1, models, keys-1),
		`ANALYZE usage, keys`,
	} {
		if err := s.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// TestKeysAreAddedUpOnce: what was charged to the keys of an account is added up once, and not again for each that has a budget.
func TestKeysAreAddedUpOnce(t *testing.T) {
	const keys = 20
	s := dial(t, postgrestest.URL(t)+"&pool_max_conns=1", "one")
	a := budgeted(t, s, keys, 1, 1)
	var uses []account.KeyUse
	scans, _ := readsOf(t, s, "usage", func() (err error) {
		uses, err = s.KeysCharged(a, storetest.Moment)
		return err
	})
	if scans != 1 || len(uses) != keys {
		t.Errorf("the sums are read %d times for %d keys", scans, len(uses))
	}
	for _, u := range uses {
		if u.Budget != 1000 || u.KeyID != fmt.Sprint("key_", int64(u.Charged)) {
			t.Errorf("it reads %+v", u)
		}
	}
}

// TestBatchReadsItsKeys: a batch adds up what was charged to the keys that it decides about, and reads no row
// of another. It decides about a key that is asked for, and about one whose request is short of its budget.
func TestBatchReadsItsKeys(t *testing.T) {
	const keys, days, models = 1000, 10, 2
	s := node(t, postgrestest.URL(t)+"&pool_max_conns=1", "one")
	s.SetDatabaseClock(func() time.Time { return storetest.Moment })
	a := budgeted(t, s, keys, days, models)
	ask := func(key int, upper abi.Nano) (v limit.Verdict, rows int64) {
		id := fmt.Sprint("key_", key)
		_, rows = readsOf(t, s, "usage", func() error {
			p := limit.Proposal{AccountID: a, Hold: account.Entry{Time: storetest.Moment, Model: "m", KeyID: id}, Ask: limit.Ask{
				RequestID: "of " + id, Prompt: 1, Upper: upper, Minimum: 10, Key: account.LimitedKey{ID: id, Budget: 1000}}}
			verdicts, err := s.Commit(limit.Batch{Asks: []limit.Proposal{p}})
			if err == nil {
				v = verdicts[0]
			}
			return err
		})
		return v, rows
	}
	// Key 40 was charged 800, so it has 200 left; key 50 nothing.
	v, rows := ask(40, 300)
	if v.Refusal != nil || v.Reservation.KeyHold != 200 || rows > days*models {
		t.Errorf("%d rows for %+v, %v; want a hold of 200", rows, v.Reservation, v.Refusal)
	}
	used, err := s.count(`SELECT pg_stat_get_numscans(i) + coalesce(pg_stat_get_xact_numscans(i), 0)
		FROM (SELECT 'usage_key'::regclass::oid) t (i)`)
	if used != 1 || err != nil {
		t.Errorf("the index of keys was used %d times, %v; want once: another one leads to all keys of the account", used, err)
	}
	if v, rows = ask(50, 300); v.Refusal == nil || rows > 2*days*models {
		t.Errorf("%d rows for %+v beside a request that is short; want a refusal", rows, v.Reservation)
	}
	var held abi.Nano
	err = s.pool.QueryRow(t.Context(), `SELECT key_held FROM open_holds WHERE key_id = 'key_40'`).Scan(&held)
	if err != nil || held != 200 {
		t.Errorf("the request of key 40 has %d of its budget, %v; want what was left: 200", held, err)
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
