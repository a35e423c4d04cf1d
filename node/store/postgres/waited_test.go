package postgres

import (
	"testing"

	"corenode/actors/account"
	"corenode/actors/limit"
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
	waits := `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	for n := 0; n == 0; {
		if err := c.nodes[0].pool.QueryRow(t.Context(), waits).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := <-answer; len(v) != 1 || v[0].Refusal == nil || v[0].Refusal.Kind != abi.Unauthenticated {
		t.Errorf("%+v", v)
	}
}
