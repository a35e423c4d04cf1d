package sqlite

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"corenode/node/store/storetest"
)

// holdsByRequest is open_holds as binaries made it that looked for a request's account in an index.
const holdsByRequest = `
CREATE TABLE before (
  request_id    TEXT PRIMARY KEY,
  account_id    TEXT NOT NULL,
  held          INTEGER NOT NULL,
  hold_id       INTEGER NOT NULL,
  checkpoint_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO before SELECT request_id, account_id, held, hold_id, checkpoint_id FROM open_holds;
DROP TABLE open_holds;
ALTER TABLE before RENAME TO open_holds;
CREATE INDEX open_holds_account ON open_holds (account_id);`

// TestHoldsOfABinaryBefore: what is open in a folder stays open, with its checkpoint, where the binary before wrote it, and where that one
// made its index again after it was run on a folder of this one.
func TestHoldsOfABinaryBefore(t *testing.T) {
	for _, c := range []struct{ what, left string }{
		{"its table", holdsByRequest},
		{"its index", `CREATE INDEX IF NOT EXISTS open_holds_account ON open_holds (account_id)`},
	} {
		dir := t.TempDir()
		s := open(t, dir)
		a := storetest.MustCreate(t, s, "a", 1000).ID
		storetest.MustAppend(t, s, storetest.Hold(a, "r1", 10), storetest.Checkpoint(a, "r1", 4), storetest.Hold(a, "r2", 20))
		if err := errors.Join(s.Exec(c.left), s.Close()); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir)
		if n, err := s.write.number(`SELECT count(*) FROM sqlite_schema WHERE tbl_name LIKE 'open_holds%'`); n != 1 || err != nil {
			t.Errorf("%s: open_holds and its indexes are %d, want a table alone; %v", c.what, n, err)
		}
		holds, err := s.AccountHolds(a)
		if err != nil || len(holds) != 2 || holds[0].RequestID != "r1" || holds[0].Usage.Output != 4 || holds[1].Held != 20 {
			t.Errorf("%s: open are %+v, %v", c.what, holds, err)
		}
		storetest.MustAppend(t, s, storetest.Checkpoint(a, "r2", 5), storetest.Settlement(a, "r1", -4))
		storetest.WantBalance(t, s, a, 996, 20)
		if v, err := s.Verify(); err != nil || len(v.Findings) > 0 || v.OpenHolds != 1 {
			t.Errorf("%s: the ledger: %+v, %v", c.what, v, err)
		}
	}
}

// TestOpenBesideAWriter: a folder that needs no change is opened while somebody's shell has the lock.
func TestOpenBesideAWriter(t *testing.T) {
	dir := t.TempDir()
	open(t, dir).Close()
	shell, err := sqlite3.Open(filepath.Join(dir, DatabaseName))
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Close()
	if err := shell.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dir).Verify(); err != nil {
		t.Error(err)
	}
}

// TestOpenHoldsAreFound asks SQLite how it finds what one account has open and what one request has: it looks at no other's, also for a
// proof.
func TestOpenHoldsAreFound(t *testing.T) {
	s := open(t, t.TempDir())
	a := storetest.MustCreate(t, s, "a", 0).ID
	_, _, err := s.Balance(a)
	_, counted := s.Counters(a)
	_, listed := s.AccountHolds(a)
	if err := errors.Join(err, counted, listed); err != nil {
		t.Fatal(err)
	}
	storetest.MustAppend(t, s, storetest.Hold(a, "r1", 10), storetest.Checkpoint(a, "r1", 4), storetest.Settlement(a, "r1", -4))
	var texts []string
	for _, c := range []*conn{s.read, s.write} {
		for text := range c.stmts {
			texts = append(texts, text)
		}
	}
	for _, check := range ledgerChecks {
		if strings.HasPrefix(check.Rule, "a hold is open") {
			texts = append(texts, check.Query)
		}
	}
	c, err := dial(filepath.Join(s.dir, DatabaseName), readerPragmas)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	asked := 0
	for _, text := range texts {
		if !strings.Contains(text, "open_holds ") || text == openHold {
			continue
		}
		asked++
		var plan []string
		err = c.each(`EXPLAIN QUERY PLAN `+text, func(r row) error {
			plan = append(plan, r.text(3))
			return nil
		})
		all := strings.Join(plan, "; ")
		if err != nil || strings.Contains(all, "SCAN o") || !strings.Contains(all, "USING PRIMARY KEY (account_id=?") {
			t.Errorf("%s: %s, %v", text, all, err)
		}
	}
	if asked != 6 {
		t.Errorf("%d statements ask for what is open, want 6", asked)
	}
}
