package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
)

// TestProofTakesNoConnectionOfThePool: a node whose ledger is proved renews and charges meanwhile, however few connections
// it has. A proof whose caller left ends, on the server too.
func TestProofTakesNoConnectionOfThePool(t *testing.T) {
	url := postgrestest.URL(t)
	s, other := dial(t, url+"&pool_max_conns=1", "one"), dial(t, url, "other")
	tx, err := other.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `LOCK TABLE accounts`); err != nil {
		t.Fatal(err)
	}
	caller, leave := context.WithCancel(t.Context())
	defer leave()
	proof := make(chan error, 1)
	go func() {
		_, err := s.VerifyWithin(caller)
		proof <- err
	}()
	awaitLocks(t, other, 1)
	if _, err := s.Secret("meanwhile"); err != nil {
		t.Error(err)
	}
	leave()
	if err := <-proof; !errors.Is(err, context.Canceled) {
		t.Errorf("whose caller left: %v", err)
	}
	const waits = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	for n := int64(1); n > 0; {
		if n, err = other.count(waits); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLongReadsTakeNoConnectionOfThePool: what passes rows that nothing bounds leaves the pool to renewals and charges.
func TestLongReadsTakeNoConnectionOfThePool(t *testing.T) {
	s := dial(t, postgrestest.URL(t)+"&pool_max_conns=1", "one")
	storetest.MustAppend(t, s, storetest.Settlement(storetest.MustCreate(t, s, "a", 0).ID, "r", -1))
	only, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer only.Release()
	for name, read := range map[string]func() ([]account.Entry, error){
		"rows since a time":         func() ([]account.Entry, error) { return s.Entries(store.Query{Since: storetest.Moment}) },
		"charges to be rated again": func() ([]account.Entry, error) { return s.Provisional(0) },
	} {
		if page, err := read(); err != nil || len(page) != 1 {
			t.Errorf("%s: %v, %v", name, requests(page), err)
		}
	}
}

// TestNoCheckLooksThroughAList: no rule is proved by a list that is looked through for each row, as NOT IN is where the list
// does not fit into memory.
func TestNoCheckLooksThroughAList(t *testing.T) {
	s := dial(t, postgrestest.URL(t), "one")
	for _, check := range ledgerChecks {
		err := s.view(func(ctx context.Context, tx pgx.Tx) error {
			return each(ctx, tx, `EXPLAIN `+check.Query, func(r pgx.Rows) error {
				var line string
				err := r.Scan(&line)
				if strings.Contains(line, "Filter: (NOT (") && strings.Contains(line, "SubPlan") {
					err = fmt.Errorf("its plan has %s", strings.TrimSpace(line))
				}
				return err
			})
		})
		if err != nil {
			t.Errorf("%s: %v", check.Rule, err)
		}
	}
}
