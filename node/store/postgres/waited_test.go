package postgres

import (
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// TestBatchThatWaitedDecidesByTodaysLimits: a batch that waits for an operator's change goes by what that says.
func TestBatchThatWaitedDecidesByTodaysLimits(t *testing.T) {
	c := newCluster(t, 1, account.Account{Unlimited: true}, 0)
	tx, err := c.nodes[0].pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	for _, change := range []string{`SELECT 1 FROM balances WHERE account_id = $1 FOR NO KEY UPDATE`,
		`UPDATE accounts SET disabled = true WHERE id = $1`} {
		if _, err := tx.Exec(t.Context(), change, c.id); err != nil {
			t.Fatal(err)
		}
	}
	answer := make(chan []limit.Verdict, 1)
	go func() {
		verdicts, _ := c.nodes[0].Commit(limit.Batch{Asks: []limit.Proposal{c.ask("r", 1, limit.Part{})}})
		answer <- verdicts
	}()
	c.awaitLock()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := <-answer; len(v) != 1 || v[0].Refusal == nil || v[0].Refusal.Kind != abi.Unauthenticated {
		t.Errorf("%+v", v)
	}
}

// awaitLock returns when a session waits for a lock.
func (c *cluster) awaitLock() {
	c.t.Helper()
	awaitLocks(c.t, c.nodes[0], 1)
}

// awaitLocks returns when so many sessions wait for locks.
func awaitLocks(t *testing.T, s *Store, sessions int) {
	t.Helper()
	waits := `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	end := time.Now().Add(time.Minute)
	for n := 0; n < sessions; {
		if err := s.pool.QueryRow(t.Context(), waits).Scan(&n); err != nil || time.Now().After(end) {
			t.Fatal(n, "wait for locks:", err)
		}
	}
}

// TestRefundLocksAsABatchDoes: an operator's refund and a batch that adjusts the same settlement do not wait for each other.
func TestRefundLocksAsABatchDoes(t *testing.T) {
	c := newCluster(t, 1, account.Account{}, 1000)
	rows := []account.Entry{storetest.Hold(c.id, "r", 10), storetest.Settlement(c.id, "r", -5)}
	c.commit(0, limit.Batch{Rows: rows})
	tx, err := c.nodes[0].pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM balances WHERE account_id = $1 FOR NO KEY UPDATE`, c.id); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, _, err := c.nodes[0].Refund(rows[1], "why")
		answer <- err
	}()
	c.awaitLock()
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM ledger WHERE id = $1 FOR NO KEY UPDATE NOWAIT`, rows[1].ID); err != nil {
		t.Errorf("the refund has what a batch locks behind its account: %v", err)
	}
	_ = tx.Rollback(t.Context())
	if err := <-answer; err != nil {
		t.Error(err)
	}
}
