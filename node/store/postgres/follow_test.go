package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
)

func dial(t testing.TB, url, node string) *Store {
	t.Helper()
	s, err := Open(Config{URL: url, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// requests are those of a page.
func requests(page []account.Entry) (ids []string) {
	for _, e := range page {
		ids = append(ids, e.RequestID)
	}
	return ids
}

// TestFollowerMissesNoLateCommit: a transaction that began first and commits last is not
// passed over, whether its rows got their ids first or last.
func TestFollowerMissesNoLateCommit(t *testing.T) {
	for _, late := range []string{"takes its ids first", "takes its ids last"} {
		t.Run(late, func(t *testing.T) {
			s := dial(t, postgrestest.URL(t), "one")
			a := storetest.MustCreate(t, s, "a", 0).ID
			ctx := t.Context()
			tx, err := s.pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(ctx)
			write := func() {
				if err := s.append(ctx, tx, []account.Entry{storetest.Settlement(a, "late", -1)}); err != nil {
					t.Fatal(err)
				}
			}
			if late == "takes its ids first" {
				write()
			} else if _, err := tx.Exec(ctx, `SELECT place()`); err != nil {
				t.Fatal(err)
			}
			other := storetest.MustCreate(t, s, "b", 0).ID // whose balance nobody has locked
			storetest.MustAppend(t, s, storetest.Settlement(other, "early", -1))
			if page, err := s.Entries(store.Query{}); err != nil || len(page) != 0 {
				t.Errorf("while the late one is open a follower sees %v, %v", requests(page), err)
			}
			if late == "takes its ids last" {
				write()
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			first, err := s.Entries(store.Query{Limit: 1})
			if err != nil || len(first) != 1 {
				t.Fatal(first, err)
			}
			rest, err := s.Entries(store.Query{After: first[0].ID})
			if got := requests(append(first, rest...)); err != nil || !slices.Equal(got, []string{"late", "early"}) {
				t.Errorf("a follower sees %v, %v", got, err)
			}
		})
	}
}

// TestFollowerOfManyWriters: who reads page behind page beside writers that commit in any
// order sees every row once.
func TestFollowerOfManyWriters(t *testing.T) {
	url := postgrestest.URL(t)
	s := dial(t, url, "reader")
	const writers, batches = 4, 15
	var wg sync.WaitGroup
	for w := range writers {
		mine := dial(t, url, fmt.Sprint("writer", w))
		a := storetest.MustCreate(t, s, fmt.Sprint("a", w), 0).ID
		wg.Go(func() {
			for i := range batches {
				err := mine.transaction(once, func(ctx context.Context, tx pgx.Tx) error {
					time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
					if err := mine.append(ctx, tx, []account.Entry{storetest.Settlement(a, fmt.Sprint(w, "-", i), -1)}); err != nil {
						return err
					}
					time.Sleep(time.Duration(rand.IntN(8)) * time.Millisecond)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	seen := map[string]int{}
	var after int64
	for ended := false; ; {
		page, err := s.Entries(store.Query{After: after, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			seen[e.RequestID]++
			after = e.ID
		}
		if ended && len(page) == 0 {
			break
		}
		select {
		case <-done:
			ended = true
		default:
		}
	}
	for w := range writers {
		for i := range batches {
			if id := fmt.Sprint(w, "-", i); seen[id] != 1 {
				t.Errorf("row %s was seen %d times", id, seen[id])
			}
		}
	}
}

// TestPlacesAfterARestoredDump: where transactions are numbered from lower on than in the
// rows that a dump brought, new rows stand behind them and a follower sees both.
func TestPlacesAfterARestoredDump(t *testing.T) {
	url := postgrestest.URL(t)
	s := dial(t, url, "one")
	a := storetest.MustCreate(t, s, "a", 0).ID
	storetest.MustAppend(t, s, storetest.Settlement(a, "before", -1))
	if err := s.Exec(`ALTER TABLE ledger DISABLE TRIGGER USER; UPDATE ledger SET place = place + 1000000000000`); err != nil {
		t.Fatal(err)
	}
	s = dial(t, url, "one")
	storetest.MustAppend(t, s, storetest.Settlement(a, "behind", -1))
	if page, err := s.Entries(store.Query{}); err != nil || !slices.Equal(requests(page), []string{"before", "behind"}) {
		t.Errorf("a follower sees %v, %v", requests(page), err)
	}
}

// TestSequencesBehindTheirRows: where only rows were brought, as a replica does that takes no sequences, rows that get an id that is
// taken are no rows that are not valid: they stay with who has them. The next start makes the ids go on behind the rows.
func TestSequencesBehindTheirRows(t *testing.T) {
	url := postgrestest.URL(t)
	s := dial(t, url, "one")
	if n, err := s.count(`SELECT count(*) FROM pg_sequences WHERE schemaname = current_schema()`); err != nil || int(n) != len(numbered) {
		t.Errorf("there are %d sequences, %v, and %d tables that are numbered", n, err, len(numbered))
	}
	a := storetest.MustCreate(t, s, "a", 0).ID
	act := store.AuditRow{Operator: "root", Method: "POST", Path: "/", Status: 200}
	storetest.MustAppend(t, s, storetest.Settlement(a, "before", -1), storetest.Settlement(a, "too", -1))
	if err := s.Audit(act); err != nil {
		t.Fatal(err)
	}
	behind := []account.Entry{storetest.Settlement(a, "behind", -1)}
	for _, c := range []struct {
		table string
		write func() error
	}{
		{"ledger", func() error { return s.Append(slices.Clone(behind)) }},
		{"audit", func() error { return s.Audit(act) }},
		{"changes", func() error {
			_, err := s.CreateAccount(account.Account{Name: "b"}, 0)
			return err
		}},
	} {
		if err := s.Exec(`SELECT setval('` + numbered[c.table] + `', 1, false)`); err != nil {
			t.Fatal(err)
		}
		if err := c.write(); err == nil || store.Rejects(err) {
			t.Errorf("a row of %s that gets an id that is taken: %v, want an error that says nothing of the row", c.table, err)
		}
		s = dial(t, url, "one")
		if err := c.write(); err != nil {
			t.Errorf("a row of %s after a start: %v", c.table, err)
		}
	}
	last, err := s.count(`SELECT last_value FROM ledger_id`)
	if err == nil {
		err = s.Exec(`SELECT nextval('ledger_id')`) // as a transaction that fails does, or one that another node has open
	}
	s = dial(t, url, "one")
	if n, more := s.count(`SELECT last_value FROM ledger_id`); err != nil || more != nil || n != last+1 {
		t.Errorf("a start puts an id of %d at %d, %v, %v", last+1, n, err, more)
	}
}

// asRole makes a role that may change rows, and of sequences draw ids of the ledger, and returns the database's URL for it.
func asRole(t *testing.T, owner *Store, url string) (as, role string) {
	t.Helper()
	_, schema, _ := strings.Cut(url, "search_path=")
	role = "role_of_" + schema
	if err := owner.Exec(`CREATE ROLE ` + role + ` LOGIN; GRANT USAGE ON SCHEMA ` + schema + ` TO ` + role + `;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ` + schema + ` TO ` + role + `;
		GRANT USAGE ON SEQUENCE ledger_id TO ` + role); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(url, "corenode@", role+"@", 1), role
}

// TestRoleWithoutSequences: a node starts and writes by a role that may change rows, and whose rights on sequences are those that a
// row of the ledger needs.
func TestRoleWithoutSequences(t *testing.T) {
	url := postgrestest.URL(t)
	owner := dial(t, url, "one")
	a := storetest.MustCreate(t, owner, "a", 0).ID
	as, role := asRole(t, owner, url)
	s := dial(t, as, "two")
	storetest.MustAppend(t, s, storetest.Settlement(a, "r", -1))
	if err := s.Audit(store.AuditRow{Operator: "root", Method: "POST", Path: "/", Status: 200}); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ before, want string }{
		{`GRANT SELECT ON SEQUENCE ledger_id TO ` + role + `; SELECT setval('ledger_id', max(id) + 1, false) FROM ledger`, ""},
		{`SELECT setval('ledger_id', max(id), false) FROM ledger`, "may not set it"},
		{`REVOKE SELECT ON SEQUENCE ledger_id FROM ` + role + `; SELECT setval('ledger_id', 1, false)`, "may not set it"},
	} {
		if err := owner.Exec(c.before); err != nil {
			t.Fatal(err)
		}
		s, err := Open(Config{URL: as, Node: "three"})
		if err == nil {
			s.Close()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("after %s: %v, want %q", c.before, err, c.want)
		}
	}
}

// TestTransactionsAreTriedAgain: after a serialization failure or a deadlock always; after a
// lost connection unless the commit was asked for and twice is not once.
func TestTransactionsAreTriedAgain(t *testing.T) {
	lost := &pgconn.ConnectError{}
	for _, c := range []struct {
		err          error
		sure, unsure bool
	}{
		{&pgconn.PgError{Code: "40001"}, true, true},
		{&pgconn.PgError{Code: "40P01"}, true, true},
		{&pgconn.PgError{Code: "57P01"}, true, false},
		{&pgconn.PgError{Code: "23505"}, false, false},
		{&pgconn.PgError{Code: "53100"}, false, false}, // the disk is full: nobody waits for that here
		{lost, true, false},
		{store.ErrInvalid, false, false},
		{errors.New("a bug"), false, false},
	} {
		if sure, unsure := retryable(c.err, false), retryable(c.err, true); sure != c.sure || unsure != c.unsure {
			t.Errorf("%v: %t, and %t when the commit may be there; want %t, %t", c.err, sure, unsure, c.sure, c.unsure)
		}
	}
	s := dial(t, postgrestest.URL(t), "one")
	a := storetest.MustCreate(t, s, "a", 0).ID
	tries := 0
	err := s.transaction(once, func(ctx context.Context, tx pgx.Tx) error {
		if tries++; tries < 3 {
			_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE serialization_failure; END $$`)
			return err
		}
		return s.append(ctx, tx, []account.Entry{storetest.Settlement(a, "r", -7)})
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	storetest.WantBalance(t, s, a, -7, 0)
	// Every connection is cut: the next batch makes a new one.
	if err := s.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'corenode%' AND pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	storetest.MustAppend(t, s, storetest.Settlement(a, "r2", -1))
	storetest.WantBalance(t, s, a, -8, 0)
}

// TestNodesShareAccounts: what one node writes another sees; of two that begin at once one
// makes the first account; a hold belongs to the node that wrote it.
func TestNodesShareAccounts(t *testing.T) {
	url := postgrestest.URL(t)
	var nodes [3]*Store
	var opening sync.WaitGroup
	for i := range nodes { // at once: one of them makes the schema
		opening.Go(func() { nodes[i] = dial(t, url, fmt.Sprint("node", i)) })
	}
	if opening.Wait(); t.Failed() {
		return
	}
	a := storetest.MustCreate(t, nodes[0], "a", 100).ID
	for i, s := range nodes {
		storetest.MustAppend(t, s, storetest.Hold(a, fmt.Sprint("r", i), 10))
	}
	storetest.WantBalance(t, nodes[2], a, 100, 30)
	for i, s := range nodes {
		own, err := s.OwnHolds()
		if all, errAll := s.OpenHolds(); err != nil || errAll != nil || len(all) != 3 || len(own) != 1 ||
			own[0].RequestID != fmt.Sprint("r", i) {
			t.Errorf("node %d has %v of %v, %v, %v", i, requests(own), requests(all), err, errAll)
		}
	}
	// The same settlements from all nodes at once, in any order, charge once and do not deadlock.
	var wg sync.WaitGroup
	for i, s := range nodes {
		wg.Go(func() {
			for n := range 5 {
				rows := []account.Entry{storetest.Settlement(a, fmt.Sprint("s", n), -1), storetest.Settlement(a, fmt.Sprint("t", n), -1)}
				if i%2 == 1 {
					slices.Reverse(rows)
				}
				if err := s.Append(rows); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	storetest.WantBalance(t, nodes[0], a, 90, 30)
	if v, err := nodes[0].Verify(); err != nil || len(v.Findings) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestAnyTextIsKept: bytes that are no UTF-8, or zero, which a server elsewhere may send, cost
// no charge.
func TestAnyTextIsKept(t *testing.T) {
	s := dial(t, postgrestest.URL(t), "one")
	a := storetest.MustCreate(t, s, "a", 0).ID
	e := storetest.Settlement(a, "r\xff\x00", -3)
	e.Source = account.Source{Replica: "\x00", RequestID: "\xfe\xff"}
	storetest.MustAppend(t, s, storetest.Hold(a, "r\xff\x00", 5), e)
	storetest.MustAppend(t, s, e)
	storetest.WantBalance(t, s, a, -3, 0)
	if found, err := s.Settlement("r\xff\x00"); err != nil || found.Source.RequestID != "\uFFFD" {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestStepOfTheSchemaHoldsUpNobody: while a dump or a long read keeps a table from being altered, nodes that serve go on.
func TestStepOfTheSchemaHoldsUpNobody(t *testing.T) {
	s := dial(t, postgrestest.URL(t), "one")
	dump, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Rollback(context.Background())
	if _, err := dump.Exec(t.Context(), `SET LOCAL `+idleTimeout+` = 0; SELECT FROM balances`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.migrate(t.Context(), append(migrations(), migration{reader: 1, script: `ALTER TABLE balances ADD COLUMN colour text`}))
		done <- err
	}()
	for waiting := int64(0); waiting == 0; {
		if waiting, err = s.count(`SELECT count(*) FROM pg_locks WHERE relation = 'balances'::regclass AND NOT granted`); err != nil {
			t.Fatal(err)
		}
	}
	served, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.pool.Exec(served, `SELECT FROM balances`); err != nil {
		t.Errorf("who reads balances beside it: %v", err)
	}
	if err := dump.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestSchemaOfTheNextRelease: a database that a newer binary expanded is used by this one; one
// that it contracted is refused.
func TestSchemaOfTheNextRelease(t *testing.T) {
	url := postgrestest.URL(t)
	s := dial(t, url, "one")
	known := len(migrations())
	next := append(migrations(), migration{reader: known, script: `ALTER TABLE accounts ADD COLUMN colour text NOT NULL DEFAULT ''`})
	if _, err := s.migrate(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	old := dial(t, url, "two")
	a := storetest.MustCreate(t, old, "a", 5).ID
	storetest.WantBalance(t, old, a, 5, 0)
	after := append(next, migration{reader: known + 1, script: `ALTER TABLE accounts DROP COLUMN models`})
	if _, err := s.migrate(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{URL: url}); !errors.Is(err, store.ErrNewerSchema) || !strings.Contains(err.Error(), "version") {
		t.Errorf("opened with %v, want ErrNewerSchema", err)
	}
	broken := append(after, migration{reader: known + 1, script: `CREATE TABLE half (x int); CREATE TABLE ledger (x int)`})
	if _, err := s.migrate(t.Context(), broken); err == nil {
		t.Error("a broken migration succeeded")
	}
	if err := s.Exec(`SELECT * FROM half`); err == nil {
		t.Error("a failed migration left a table behind")
	}
}

// TestOpenAsItIs: what is asked of a store before Migrate leaves the schema of an older program. A new database has one at once.
func TestOpenAsItIs(t *testing.T) {
	url, last := postgrestest.URL(t), len(migrations())
	old := dial(t, url, "one")
	if err := old.Exec(fmt.Sprintf(`ALTER TABLE audit DROP COLUMN node; UPDATE schema_version SET version = %d`, last-1)); err != nil {
		t.Fatal(err)
	}
	s, err := OpenAsItIs(Config{URL: url, Node: "two"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if secret, err := s.Secret("node"); err != nil || len(secret) != 32 {
		t.Errorf("the secret is %x, %v", secret, err)
	}
	if n, err := old.count(`SELECT version FROM schema_version`); n != int64(last-1) || err != nil {
		t.Errorf("the schema is %d before Migrate, %v", n, err)
	}
	m, err := s.Migrate()
	if err != nil || m.From != last-1 || m.To != last || !m.Changed() || !strings.HasSuffix(m.String(), "a program that knows schema 3 goes on with it") {
		t.Errorf("Migrate: %+v: %v, %v", m, m, err)
	}
	if m, err := s.Migrate(); err != nil || m.Changed() {
		t.Errorf("Migrate again: %+v, %v", m, err)
	}
	fresh, err := OpenAsItIs(Config{URL: postgrestest.URL(t), Node: "one"})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if m, err := fresh.Migrate(); err != nil || m.Changed() || m.To != last {
		t.Errorf("Migrate of a new database: %+v, %v", m, err)
	}
}
