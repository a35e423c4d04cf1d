package postgres

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"corenode/node/store"
	"corenode/node/store/postgrestest"
)

// TestLostLinkEndsInTime: a transaction whose link is lost without a word ends with its context,
// also when it is to be rolled back.
func TestLostLinkEndsInTime(t *testing.T) {
	proxy, url := postgrestest.NewProxy(t, postgrestest.URL(t))
	s := dial(t, url, "one")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.try(ctx, pgx.TxOptions{}, func(context.Context, pgx.Tx) error {
			proxy.Lose()
			time.AfterFunc(300*time.Millisecond, cancel)
			return store.ErrNotFound
		})
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it waits for ever")
	}
	proxy.Cut() // for the end of the test: closing waits for a goodbye
}

// TestReadOnlyConnectionsAreLeft: a connection that takes no changes, as of a server that was failed over from, is not kept until
// its hour is over, and none is made to such a server.
func TestReadOnlyConnectionsAreLeft(t *testing.T) {
	url := postgrestest.URL(t)
	s := joined(t, url, "one")
	spoil := func() {
		t.Helper()
		idle := s.pool.AcquireAllIdle(t.Context())
		if len(idle) == 0 {
			t.Fatal("the pool has no connection")
		}
		for _, c := range idle {
			if _, err := c.Exec(t.Context(), `SET default_transaction_read_only = on`); err != nil {
				t.Fatal(err)
			}
			c.Release()
		}
	}
	spoil()
	if err := s.KeepPrices(nil); err != nil {
		t.Errorf("a change: %v", err)
	}
	spoil()
	if err := renew(t, s); err == nil {
		t.Error("a renewal passed on a connection that takes no changes")
	}
	if err := renew(t, s); err != nil {
		t.Errorf("the renewal after that: %v", err)
	}
	if other, err := Open(Config{URL: url + "&default_transaction_read_only=on", Node: "other"}); !errors.Is(err, pgconn.ErrReadOnlyConnection) {
		t.Errorf("a database that takes no changes: %v", err)
		other.Close()
	}
}

// TestLocksOfALostNodeEnd: the server ends a transaction that a node left open when its machine
// was lost, so that the other nodes get its locks.
func TestLocksOfALostNodeEnd(t *testing.T) {
	url := postgrestest.URL(t)
	lost, other := dial(t, url, "lost"), dial(t, url, "other")
	if err := other.KeepPrices(nil); err != nil {
		t.Fatal(err)
	}
	c, err := lost.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	leaves := `BEGIN; SET LOCAL ` + idleTimeout + ` = 500; UPDATE settings SET value = '{}'` // at once: it cannot end in between
	if _, err := c.Exec(t.Context(), leaves, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	if err := other.KeepPrices(nil); err != nil {
		t.Error(err)
	}
	var says string
	if err := other.pool.QueryRow(t.Context(), `SHOW `+idleTimeout).Scan(&says); err != nil || says != "20s" {
		t.Errorf("a node that says nothing of it has %q, %v", says, err)
	}
}

// TestAuditDoesNotWaitForTheDatabase: what needs no database, such as to drain, is answered soon when its row cannot be written.
func TestAuditDoesNotWaitForTheDatabase(t *testing.T) {
	proxy, url := postgrestest.NewProxy(t, postgrestest.URL(t))
	s := dial(t, url, "one")
	proxy.Lose()
	first := make(chan string, 2)
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.KeepPrices(nil); err == nil {
			t.Error("a change passed on a link that is lost")
		}
		first <- "a change"
	})
	for s.pool.Stat().AcquiredConns() == 0 { // it has begun
		runtime.Gosched()
	}
	all.Go(func() {
		if err := s.Audit(store.AuditRow{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		first <- "the audit"
	})
	if ended := <-first; ended != "the audit" {
		t.Errorf("%s ended first", ended)
	}
	proxy.Cut() // for the end of the test
	all.Wait()
}
