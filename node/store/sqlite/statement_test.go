package sqlite

import (
	"strings"
	"testing"

	"corenode/node/store"
	"corenode/node/store/storetest"
)

// TestStatementIsIndexed asks SQLite how it finds a page: by an index, in its order, without sorting.
func TestStatementIsIndexed(t *testing.T) {
	s := open(t, t.TempDir())
	a := storetest.MustCreate(t, s, "a", 1)
	for _, q := range []store.StatementQuery{{}, {AccountID: a.ID}, {AccountID: a.ID, After: 1, Newest: true}, {After: 1,
		Since: storetest.Moment}} {
		index := "ledger_time"
		if q.AccountID != "" {
			index = "ledger_account"
		}
		var plan []string
		err := s.read.view(func() error {
			where, args, err := s.read.statementRange(q)
			if err != nil {
				return err
			}
			return s.read.each(`EXPLAIN QUERY PLAN SELECT `+entryColumns+where+order(q)+` LIMIT 5`, func(r row) error {
				plan = append(plan, r.text(3))
				return nil
			}, args...)
		})
		if text := strings.Join(plan, "; "); err != nil || !strings.HasPrefix(text, "SEARCH ledger USING INDEX "+index) || len(plan) != 1 {
			t.Errorf("%+v: %s, %v", q, text, err)
		}
	}
}
