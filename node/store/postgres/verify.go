package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"

	"corenode/node/store"
	"corenode/node/store/rules"
)

// ledgerChecks are the rules that PostgreSQL proves. The last ones are of what many nodes have.
var ledgerChecks = rules.Checks([]rules.Check{
	{"the balance of an account is the sum of its rows",
		`SELECT b.account_id, 'the balance says ' || b.amount || ', its rows add up to ' || coalesce(sum(l.amount), 0)
		 FROM balances b LEFT JOIN ledger l ON l.account_id = b.account_id GROUP BY b.account_id
		 HAVING b.amount <> coalesce(sum(l.amount), 0)`},
	{"sums of usage are those of the rows",
		`SELECT account_id, 'has a sum of day ' || day || ' that its rows do not give, or lacks one' FROM (
		 SELECT account_id, day, model, key_id, requests::numeric, input_uncached::numeric, cache_read::numeric, cache_write::numeric,
		 output::numeric, reasoning::numeric, charged::numeric FROM usage
		 UNION ALL SELECT account_id, day, model, key_id, sum(requests), sum(input_uncached), sum(cache_read), sum(cache_write), sum(output),
		 sum(reasoning), sum(charged) FROM (
		 SELECT account_id, time / 86400000000000 AS day, model, key_id, count(*) FILTER (WHERE kind = 'settlement') AS requests,
		 coalesce(sum(input_uncached) FILTER (WHERE kind = 'settlement'), 0) AS input_uncached,
		 coalesce(sum(cache_read) FILTER (WHERE kind = 'settlement'), 0) AS cache_read,
		 coalesce(sum(cache_write) FILTER (WHERE kind = 'settlement'), 0) AS cache_write,
		 coalesce(sum(output) FILTER (WHERE kind = 'settlement'), 0) AS output,
		 coalesce(sum(reasoning) FILTER (WHERE kind = 'settlement'), 0) AS reasoning, -sum(amount) AS charged
		 FROM ledger WHERE ` + rules.UsedRows + ` GROUP BY 1, 2, 3, 4
		 UNION ALL SELECT l.account_id, l.time / 86400000000000, l.model, l.key_id, 0, l.input_uncached - s.input_uncached,
		 l.cache_read - s.cache_read, l.cache_write - s.cache_write, l.output - s.output, l.reasoning - s.reasoning, 0
		 FROM (SELECT * FROM ledger WHERE ` + countsTokens + `) l JOIN ledger s ON s.id = l.settles) r GROUP BY 1, 2, 3, 4) u
		 GROUP BY account_id, day, model, key_id, requests, input_uncached, cache_read, cache_write, output, reasoning, charged
		 HAVING count(*) <> 2`},
	{"what a row names is there",
		`SELECT 'row ' || id, 'names the account ' || account_id || ', which is missing' FROM ledger l
		 WHERE NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = l.account_id)`},
	{"a settlement is re-rated once, corrected once by a late one, and refunded once",
		`SELECT 'row ' || settles, 'has ' || count(*) || CASE WHEN refund THEN ' refunds' ELSE ' re-ratings' END
		 FROM ledger WHERE settles > 0 GROUP BY settles, refund, note = '` + lateNote + `' AND NOT refund
		 HAVING count(*) > 1`},
	{"a refund takes back all that was charged", // and nothing is charged after it
		`SELECT 'row ' || r.id, 'leaves ' || -(s.amount + sum(a.amount)) || ' of the charge in row ' || s.id FROM ledger r
		 JOIN ledger s ON s.id = r.settles JOIN ledger a ON a.settles = s.id AND a.settles > 0
		 WHERE r.refund GROUP BY r.id, s.id HAVING s.amount + sum(a.amount) <> 0`},
	{"nothing is re-rated after its refund",
		`SELECT 'row ' || a.id, 're-rates what row ' || r.id || ' refunded' FROM ledger r
		 JOIN ledger a ON a.settles = r.settles AND a.settles > 0 WHERE r.refund AND NOT a.refund AND a.id > r.id`},
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
	{"a charge that is final names its module",
		`SELECT 'row ' || id, 'charges ' || -amount || ' by no module' FROM ledger
		 WHERE kind = 'settlement' AND amount < 0 AND module_digest = '' AND NOT provisional`},
	{"what an account's requests have is kept with it",
		`SELECT b.account_id, 'has ' || b.permits || ' permits, ' || b.held || ' held and ' || b.shorts || ' short; its requests have ' ||
		 coalesce(o.permits, 0) + coalesce(p.permits, 0) || ', ' || coalesce(o.held, 0) || ', ' || coalesce(o.shorts, 0) FROM balances b
		 LEFT JOIN (SELECT account_id, count(*) FILTER (WHERE permit) AS permits, sum(reserved) AS held,
		 count(*) FILTER (WHERE reserved < upper OR key_id <> '' AND key_held < upper) AS shorts FROM open_holds GROUP BY 1) o
		 ON o.account_id = b.account_id
		 LEFT JOIN (SELECT account_id, count(*) AS permits FROM open_permits GROUP BY 1) p ON p.account_id = b.account_id
		 WHERE b.permits <> coalesce(o.permits, 0) + coalesce(p.permits, 0) OR b.held <> coalesce(o.held, 0)
		 OR b.shorts <> coalesce(o.shorts, 0)`},
	{"a request has at least its hold and at most its upper bound",
		`SELECT request_id, 'has ' || reserved || ' of ' || upper || ', its hold is ' || held FROM open_holds
		 WHERE reserved NOT BETWEEN held AND upper OR key_held > upper`},
	{"nothing is taken of a grant that it does not have",
		`SELECT 'grant ' || number, 'of ' || account_id || ' to ' || node || ' has less than nothing left' FROM grants
		 WHERE least(given_permits - moved_permits - back_permits, given_tokens - moved_tokens - back_tokens,
		 given_money - moved_money - back_money, moved_permits, moved_tokens, moved_money, back_permits, back_tokens, back_money) < 0`},
	{"nothing has a fence that its node never had",
		`SELECT what, 'has fence ' || o.fence || ' of ' || node || ', which had ' || coalesce(n.fence, 0) FROM (
		 SELECT request_id AS what, node, fence FROM open_holds UNION ALL SELECT request_id, node, fence FROM open_permits UNION ALL
		 SELECT 'grant ' || number, node, fence FROM grants) o LEFT JOIN nodes n ON n.id = o.node WHERE o.fence > coalesce(n.fence, 0)`},
})

// Verify implements store.Store: the rules of ledgerChecks, and that every charge's input is
// what its hash says.
func (s *Store) Verify() (store.Verification, error) { return s.VerifyWithin(context.Background()) }

// VerifyWithin implements store.Store, on a connection of its own: it takes long, and renewals and charges use the pool.
func (s *Store) VerifyWithin(ctx context.Context) (v store.Verification, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.reading, cancel)()
	v.Findings = []string{}
	err = s.viewApart(ctx, func(ctx context.Context, tx pgx.Tx) error { return verify(ctx, tx, &v) })
	return v, wrapped(err, "verify")
}

func verify(ctx context.Context, tx pgx.Tx, v *store.Verification) error {
	err := tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM ledger), (SELECT count(*) FROM accounts),
		(SELECT count(*) FROM ledger WHERE kind = 'settlement'), (SELECT count(*) FROM open_holds),
		(SELECT coalesce(sum(overshot), 0)::bigint FROM balances)`).
		Scan(&v.Rows, &v.Accounts, &v.Charges, &v.OpenHolds, &v.Overshot)
	if err != nil {
		return err
	}
	for _, check := range ledgerChecks {
		err := each(ctx, tx, check.Query, func(r pgx.Rows) error {
			var what, how string
			err := r.Scan(&what, &how)
			v.Found(check.Rule, what, how)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", check.Rule, err)
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
