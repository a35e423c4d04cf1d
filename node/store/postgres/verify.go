package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"

	"corenode/node/store"
)

// ledgerChecks are the rules of the ledger that one query each can prove. A query
// returns a row for everything that breaks its rule: what it is about, and how.
var ledgerChecks = []struct{ rule, query string }{
	{"the balance of an account is the sum of its rows",
		`SELECT b.account_id, 'the balance says ' || b.amount || ', its rows add up to ' || coalesce(sum(l.amount), 0)
		 FROM balances b LEFT JOIN ledger l ON l.account_id = b.account_id GROUP BY b.account_id
		 HAVING b.amount <> coalesce(sum(l.amount), 0)`},
	{"sums of usage are those of the rows",
		`SELECT account_id, 'has a sum of day ' || day || ' that its rows do not give, or lacks one' FROM (
		 SELECT account_id, day, model, key_id, requests::numeric, input_uncached::numeric, cache_read::numeric, cache_write::numeric,
		 output::numeric, reasoning::numeric, charged::numeric FROM usage
		 UNION ALL SELECT account_id, time / 86400000000000, model, key_id, count(*) FILTER (WHERE kind = 'settlement'),
		 coalesce(sum(input_uncached) FILTER (WHERE kind = 'settlement'), 0), coalesce(sum(cache_read) FILTER (WHERE kind = 'settlement'), 0),
		 coalesce(sum(cache_write) FILTER (WHERE kind = 'settlement'), 0), coalesce(sum(output) FILTER (WHERE kind = 'settlement'), 0),
		 coalesce(sum(reasoning) FILTER (WHERE kind = 'settlement'), 0), -sum(amount)
		 FROM ledger WHERE kind = 'settlement' OR kind = 'adjustment' GROUP BY 1, 2, 3, 4) u
		 GROUP BY account_id, day, model, key_id, requests, input_uncached, cache_read, cache_write, output, reasoning, charged
		 HAVING count(*) <> 2`},
	{"what a row names is there",
		`SELECT 'row ' || id, 'names the account ' || account_id || ', which is missing' FROM ledger l
		 WHERE NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = l.account_id)`},
	{"every account has a balance",
		`SELECT id, 'has no balance' FROM accounts WHERE id NOT IN (SELECT account_id FROM balances)`},
	{"a request is settled once",
		`SELECT request_id, count(*) || ' settlements' FROM ledger WHERE kind = 'settlement' GROUP BY request_id HAVING count(*) > 1`},
	{"a settlement is of the account that held",
		`SELECT s.request_id, 'held by ' || h.account_id || ', charged to ' || s.account_id FROM ledger s JOIN ledger h
		 ON h.request_id = s.request_id AND h.kind = 'hold' WHERE s.kind = 'settlement' AND s.account_id <> h.account_id`},
	{"a hold is open until it is settled",
		`SELECT h.request_id, 'is neither open nor settled' FROM ledger h WHERE h.kind = 'hold'
		 AND NOT EXISTS (SELECT 1 FROM ledger s WHERE s.request_id = h.request_id AND s.kind = 'settlement')
		 AND NOT EXISTS (SELECT 1 FROM open_holds o WHERE o.request_id = h.request_id)`},
	{"an open hold is a hold without a settlement",
		`SELECT o.request_id, 'is listed as open' FROM open_holds o
		 WHERE EXISTS (SELECT 1 FROM ledger s WHERE s.request_id = o.request_id AND s.kind = 'settlement')
		 OR NOT EXISTS (SELECT 1 FROM ledger h WHERE h.id = o.hold_id AND h.kind = 'hold' AND h.request_id = o.request_id
		 AND h.held = o.held AND h.account_id = o.account_id)`},
	{"an open hold names its last checkpoint", // what it pays after a crash
		`SELECT o.request_id, 'names row ' || o.checkpoint_id || ', the last one is row ' || coalesce(c.last, 0)
		 FROM open_holds o LEFT JOIN (SELECT o.request_id, max(l.id) AS last FROM ledger l JOIN open_holds o
		 ON o.request_id = l.request_id WHERE l.kind = 'checkpoint' AND l.id > o.hold_id GROUP BY o.request_id) c
		 ON c.request_id = o.request_id WHERE o.checkpoint_id <> coalesce(c.last, 0)`},
	{"a settlement is re-rated once and refunded once",
		`SELECT 'row ' || settles, 'has ' || count(*) || CASE WHEN refund THEN ' refunds' ELSE ' re-ratings' END
		 FROM ledger WHERE settles > 0 GROUP BY settles, refund HAVING count(*) > 1`},
	{"a refund takes back all that was charged", // and nothing is charged after it
		`SELECT 'row ' || r.id, 'leaves ' || -(s.amount + sum(a.amount)) || ' of the charge in row ' || s.id FROM ledger r
		 JOIN ledger s ON s.id = r.settles JOIN ledger a ON a.settles = s.id AND a.settles > 0
		 WHERE r.refund GROUP BY r.id, s.id HAVING s.amount + sum(a.amount) <> 0`},
	{"nothing is re-rated after its refund",
		`SELECT 'row ' || a.id, 're-rates what row ' || r.id || ' refunded' FROM ledger r
		 JOIN ledger a ON a.settles = r.settles AND a.settles > 0 WHERE r.refund AND NOT a.refund AND a.id > r.id`},
	{"an idempotency key names its top-up", // or the next call with it does another one
		`SELECT 'row ' || i.entry_id, 'is not what was done under its key' FROM idempotency i WHERE NOT EXISTS
		 (SELECT 1 FROM ledger l WHERE l.id = i.entry_id AND l.kind = 'topup' AND l.account_id = i.account_id AND l.amount = i.amount)`},
	{"an adjustment names a settlement of its account; a re-rating names its module, a refund has none",
		`SELECT 'row ' || a.id, 'adjusts row ' || a.settles || ' by module "' || a.module_digest || '"' FROM ledger a
		 LEFT JOIN ledger s ON s.id = a.settles AND s.kind = 'settlement' AND s.account_id = a.account_id
		 WHERE a.kind = 'adjustment' AND (s.id IS NULL OR (a.module_digest = '') <> a.refund)`},
	{"only an adjustment is a refund",
		`SELECT 'row ' || id, 'is a ' || kind FROM ledger WHERE refund AND kind <> 'adjustment'`},
	{"a counter is the sum of what its account's rows took",
		`SELECT account_id || ' ' || name || ' ' || period, 'says ' || sum(used) || ', its rows add up to ' || sum(taken) FROM (
		 SELECT account_id, name, period, used, 0 AS taken FROM counters UNION ALL
		 SELECT l.account_id, n.name, n.period, 0, n.amount FROM ledger_counters n JOIN ledger l ON l.id = n.entry_id WHERE l.kind <> 'hold') c
		 GROUP BY account_id, name, period HAVING sum(used) <> sum(taken)`},
	{"nobody takes more of a counter than its limit",
		`SELECT account_id || ' ' || name || ' ' || period, used || ' used of ' || most FROM counters WHERE used > most`},
	{"a settlement takes of counters what its hold has",
		`SELECT 'row ' || s.id, 'takes ' || n.amount || ' of ' || n.name FROM ledger_counters n
		 JOIN ledger s ON s.id = n.entry_id AND s.kind = 'settlement'
		 JOIN ledger h ON h.request_id = s.request_id AND h.kind = 'hold'
		 LEFT JOIN ledger_counters o ON o.entry_id = h.id AND o.name = n.name AND o.period = n.period
		 WHERE n.amount > coalesce(o.amount, 0)`},
	{"a counter's row is of a hold, a settlement or an adjustment",
		`SELECT 'row ' || l.id, 'is a ' || l.kind FROM ledger_counters n JOIN ledger l ON l.id = n.entry_id
		 WHERE l.kind = 'topup' OR l.kind = 'checkpoint' OR (n.amount > 0) = (l.kind = 'adjustment')`},
	{"a charge that is final names its module",
		`SELECT 'row ' || id, 'charges ' || -amount || ' by no module' FROM ledger
		 WHERE kind = 'settlement' AND amount < 0 AND module_digest = '' AND NOT provisional`},
}

// Verify implements store.Store: the rules of ledgerChecks, and that every charge's input is
// what its hash says.
func (s *Store) Verify() (v store.Verification, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), verifyMax)
	defer cancel()
	err = s.viewWithin(ctx, func(ctx context.Context, tx pgx.Tx) error {
		v = store.Verification{Findings: []string{}}
		return verify(ctx, tx, &v)
	})
	return v, wrapped(err, "verify")
}

func verify(ctx context.Context, tx pgx.Tx, v *store.Verification) error {
	err := tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM ledger), (SELECT count(*) FROM accounts),
		(SELECT count(*) FROM ledger WHERE kind = 'settlement'), (SELECT count(*) FROM open_holds)`).
		Scan(&v.Rows, &v.Accounts, &v.Charges, &v.OpenHolds)
	if err != nil {
		return err
	}
	for _, check := range ledgerChecks {
		err := each(ctx, tx, check.query, func(r pgx.Rows) error {
			var what, how string
			err := r.Scan(&what, &how)
			v.Found(check.rule, what, how)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", check.rule, err)
		}
	}
	return each(ctx, tx, `SELECT id, charge_input, input_hash FROM ledger WHERE charge_input <> ''`, func(r pgx.Rows) error {
		var id int64
		var input []byte
		var text string
		if err := r.Scan(&id, &input, &text); err != nil {
			return err
		}
		hash := sha256.Sum256(input)
		if want, err := hex.DecodeString(text); err != nil || !bytes.Equal(hash[:], want) {
			v.Found("an input is what its hash says", fmt.Sprintf("row %d", id), "has another input")
		}
		return nil
	})
}
