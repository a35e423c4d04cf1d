package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"corenode/node/store"
	"corenode/node/store/rules"
)

// ledgerChecks are the rules that SQLite proves.
var ledgerChecks = rules.Checks([]rules.Check{
	{"the balance of an account is the sum of its rows",
		`SELECT b.account_id, 'the balance says ' || b.amount || ', its rows add up to ' || total(l.amount)
		 FROM balances b LEFT JOIN ledger l ON l.account_id = b.account_id GROUP BY b.account_id
		 HAVING b.amount <> coalesce(sum(l.amount), 0)`},
	{"sums of usage are those of the rows",
		`SELECT account_id, 'has a sum of day ' || day || ' that its rows do not give, or lacks one' FROM (
		 SELECT *, 1 AS side FROM usage UNION ALL SELECT account_id, time / 86400000000000 AS day, model, key_id, sum(kind = 'settlement'),
		 sum(iif(kind = 'settlement', input_uncached, 0)), sum(iif(kind = 'settlement', cache_read, 0)),
		 sum(iif(kind = 'settlement', cache_write, 0)), sum(iif(kind = 'settlement', output, 0)),
		 sum(iif(kind = 'settlement', reasoning, 0)), -sum(amount), 2
		 FROM ledger WHERE ` + rules.UsedRows + ` GROUP BY account_id, day, model, key_id)
		 GROUP BY account_id, day, model, key_id, requests, input_uncached, cache_read, cache_write, output, reasoning, charged
		 HAVING count(*) <> 2`},
	{"what a row names is there",
		`SELECT count(*) || ' rows of ' || "table", 'name a row of ' || parent || ' that is missing'
		 FROM pragma_foreign_key_check GROUP BY "table", parent`},
	{"the ledger has no gaps",
		`SELECT 'row ' || a.id, 'the row before it is missing' FROM ledger a
		 WHERE a.id > 1 AND NOT EXISTS (SELECT 1 FROM ledger b WHERE b.id = a.id - 1)`},
	{"a settlement is re-rated once and refunded once",
		`SELECT 'row ' || settles, 'has ' || count(*) || iif(refund, ' refunds', ' re-ratings')
		 FROM ledger WHERE settles > 0 GROUP BY settles, refund HAVING count(*) > 1`},
	{"a refund takes back all that was charged", // and nothing is charged after it
		`SELECT 'row ' || r.id, 'leaves ' || -(s.amount + total(a.amount)) || ' of the charge in row ' || s.id FROM ledger r
		 JOIN ledger s ON s.id = r.settles LEFT JOIN ledger a ON a.settles = s.id AND a.settles > 0
		 WHERE r.refund = 1 GROUP BY r.id HAVING s.amount + coalesce(sum(a.amount), 0) <> 0`},
	{"nothing is re-rated after its refund",
		`SELECT 'row ' || a.id, 're-rates what row ' || r.id || ' refunded' FROM ledger r
		 JOIN ledger a ON a.settles = r.settles AND a.settles > 0 WHERE r.refund = 1 AND a.refund = 0 AND a.id > r.id`},
	{"an adjustment names a settlement of its account; a re-rating names its module, a refund has none",
		`SELECT 'row ' || a.id, 'adjusts row ' || a.settles || ' by module "' || a.module_digest || '"' FROM ledger a
		 LEFT JOIN ledger s ON s.id = a.settles AND s.kind = 'settlement' AND s.account_id = a.account_id
		 WHERE a.kind = 'adjustment' AND (s.id IS NULL OR (a.module_digest = '') <> (a.refund = 1))`},
	{"only an adjustment is a refund",
		`SELECT 'row ' || id, 'is a ' || kind FROM ledger WHERE refund = 1 AND kind <> 'adjustment'`},
	{"a counter is the sum of what its account's rows took",
		`SELECT account_id || ' ' || name || ' ' || period, 'says ' || sum(used) || ', its rows add up to ' || sum(rows) FROM (
		 SELECT account_id, name, period, used, 0 AS rows FROM counters UNION ALL
		 SELECT l.account_id, n.name, n.period, 0, n.amount FROM ledger_counters n JOIN ledger l ON l.id = n.entry_id WHERE l.kind <> 'hold')
		 GROUP BY account_id, name, period HAVING sum(used) <> sum(rows)`},
	{"a charge that is final names its module",
		`SELECT 'row ' || id, 'charges ' || -amount || ' by no module' FROM ledger
		 WHERE kind = 'settlement' AND amount < 0 AND module_digest = '' AND provisional = 0`},
})

// Verify proves the ledger: the rules of ledgerChecks, SQLite's own integrity,
// and that every charge's input is what its hash says. It reads one
// consistent state beside a running node and holds up nobody. Meanwhile the WAL
// grows by all that is written: see endsLongRead.
func (s *Store) Verify() (store.Verification, error) { return s.VerifyWithin(context.Background()) }

// VerifyWithin implements store.Store.
func (s *Store) VerifyWithin(ctx context.Context) (v store.Verification, err error) {
	c, err := dialLong(filepath.Join(s.dir, DatabaseName), readerPragmas)
	if err != nil {
		return v, fmt.Errorf("verify: %w", err)
	}
	defer c.close()
	v.Findings = []string{}
	err = s.readLong(ctx, c, func() error {
		return c.view(func() error { return c.verify(&v) })
	})
	return v, wrapped(err, "verify")
}

func (c *conn) verify(v *store.Verification) error {
	for _, n := range []struct {
		to    *int64
		query string
	}{
		{&v.Rows, `SELECT count(*) FROM ledger`}, {&v.Accounts, `SELECT count(*) FROM accounts`},
		{&v.Charges, `SELECT count(*) FROM ledger WHERE kind = 'settlement'`}, {&v.OpenHolds, `SELECT count(*) FROM open_holds`},
	} {
		var err error
		if *n.to, err = c.number(n.query); err != nil {
			return err
		}
	}
	err := c.each(`PRAGMA integrity_check(10)`, func(r row) error {
		if text := r.text(0); text != "ok" {
			v.Found("the database is sound", "SQLite says", text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, check := range ledgerChecks {
		err := c.each(check.Query, func(r row) error {
			v.Found(check.Rule, r.text(0), r.text(1))
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", check.Rule, err)
		}
	}
	return c.verifyInputs(v)
}

// verifyInputs hashes every recorded input again.
func (c *conn) verifyInputs(v *store.Verification) error {
	return c.each(`SELECT id, charge_input, input_hash FROM ledger WHERE input_hash <> '' OR charge_input <> x''`, func(r row) error {
		input := r.blob(1)
		if len(input) == 0 {
			return nil // charged before inputs were recorded
		}
		hash := sha256.Sum256(input)
		if want, err := hex.DecodeString(r.text(2)); err != nil || !bytes.Equal(hash[:], want) {
			v.Found("an input is what its hash says", fmt.Sprintf("row %d", r.num(0)), "has another input")
		}
		return nil
	})
}
