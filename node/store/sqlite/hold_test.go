package sqlite

import (
	"errors"
	"strings"
	"testing"

	"corenode/node/store/storetest"
)

// TestOpenHoldsOfAnAccountAreIndexed asks SQLite how it finds what one account has open: it looks at no other account's. The index
// is of no schema version: a database without it gets it as it is opened, and a binary that does not know it opens the database.
func TestOpenHoldsOfAnAccountAreIndexed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	a := storetest.MustCreate(t, s, "a", 0).ID
	if err := errors.Join(s.Exec(`DROP INDEX IF EXISTS open_holds_account`), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	_, _, err := s.Balance(a)
	_, counted := s.Counters(a)
	_, listed := s.AccountHolds(a)
	if err := errors.Join(err, counted, listed); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for text := range s.read.stmts {
		if !strings.Contains(text, "open_holds") {
			continue
		}
		asked++
		c, err := dial(s.dir+"/"+DatabaseName, readerPragmas)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		err = c.each(`EXPLAIN QUERY PLAN `+text, func(r row) error {
			plan = append(plan, r.text(3))
			return nil
		})
		if all := strings.Join(plan, "; "); err != nil || strings.Contains(all, "SCAN o") || !strings.Contains(all, "open_holds_account") {
			t.Errorf("%s: %s, %v", text, all, err)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}
	if asked != 3 {
		t.Errorf("%d statements ask for what is open, want 3", asked)
	}
}
