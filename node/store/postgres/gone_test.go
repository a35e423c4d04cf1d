package postgres

import (
	"errors"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/store"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// TestStoppedNodeKeepsNothing: what a node has open as it stops is taken back and settled as after a crash,
// though it never comes back.
func TestStoppedNodeKeepsNothing(t *testing.T) {
	c := newCluster(t, 2, account.Account{Concurrency: 4}, 9000)
	free := limit.Proposal{AccountID: c.id, Ask: limit.Ask{RequestID: "free", Free: true}}
	c.commit(0, limit.Batch{Asks: []limit.Proposal{c.ask("r", 100, limit.Part{}), free}})
	survivor := c.nodes[1]
	if err := c.nodes[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := survivor.Exec(`UPDATE nodes SET fenced = fenced - interval '1 hour' WHERE id = 'node0'`); err != nil {
		t.Fatal(err)
	}
	c.nodes = c.nodes[1:]
	if _, err := survivor.Sweep(); err != nil {
		t.Fatal(err)
	}
	c.wantRow(0, 100, 2)
	rate := func(*account.Entry, map[string]abi.Prices) error { return nil }
	none := func(e account.Entry, err error) { t.Errorf("left out %+v: %v", e, err) }
	if settled, err := survivor.SettleDead(time.Minute, rate, none); err != nil || len(settled) != 1 {
		t.Errorf("settled %+v, %v", settled, err)
	}
	c.wantRow(0, 0, 2)
	storetest.WantBalance(t, survivor, c.id, 9000, 0)
	c.wantSound()
}

// TestCloseEndsReads: a stop does not wait for what reads all, which may take minutes.
func TestCloseEndsReads(t *testing.T) {
	url := postgrestest.URL(t)
	s, other := dial(t, url, "one"), dial(t, url, "other")
	tx, err := other.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `LOCK TABLE accounts, ledger`); err != nil {
		t.Fatal(err)
	}
	reads, closed := make(chan error, 4), make(chan error, 1)
	go func() {
		_, err := s.Verify()
		reads <- err
	}()
	go func() { reads <- s.Scan(nil, nil) }()
	go func() {
		_, err := s.Entries(store.Query{Since: time.Now()})
		reads <- err
	}()
	go func() {
		_, err := s.Provisional(0)
		reads <- err
	}()
	awaitLocks(t, other, 3) // of the two long reads one waits for the other
	go func() { closed <- s.Close() }()
	select {
	case err = <-closed:
	case <-time.After(30 * time.Second):
		err = errors.New("it waits for reads")
	}
	if err != nil {
		t.Error(err)
	}
	_ = tx.Rollback(t.Context())
	for range cap(reads) {
		if err := <-reads; !errors.Is(err, store.ErrClosed) {
			t.Errorf("%v, want store.ErrClosed", err)
		}
	}
}
