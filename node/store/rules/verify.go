package rules

import "slices"

// Check is a rule of the ledger that one query can prove. It returns a row for everything that
// breaks the rule: what it is about, and how.
type Check = struct{ Rule, Query string }

// Checks are those that every store proves with the same words, and a store's own.
func Checks(own []Check) []Check { return slices.Concat(shared, own) }

var shared = []Check{
	{"every account has a balance",
		`SELECT id, 'has no balance' FROM accounts a WHERE NOT EXISTS (SELECT 1 FROM balances b WHERE b.account_id = a.id)`},
	{"a request is settled once",
		`SELECT request_id, count(*) || ' settlements' FROM ledger WHERE kind = 'settlement' GROUP BY request_id HAVING count(*) > 1`},
	{"a settlement is of the account that held",
		`SELECT s.request_id, 'held by ' || h.account_id || ', charged to ' || s.account_id FROM ledger s JOIN ledger h
		 ON h.request_id = s.request_id AND h.kind = 'hold' WHERE s.kind = 'settlement' AND s.account_id <> h.account_id`},
	{"a hold is open until it is settled",
		`SELECT h.request_id, 'is neither open nor settled' FROM ledger h WHERE h.kind = 'hold'
		 AND NOT EXISTS (SELECT 1 FROM ledger s WHERE s.request_id = h.request_id AND s.kind = 'settlement')
		 AND NOT EXISTS (SELECT 1 FROM open_holds o WHERE o.account_id = h.account_id AND o.request_id = h.request_id)`},
	{"an open hold is a hold without a settlement",
		`SELECT o.request_id, 'is listed as open' FROM open_holds o
		 WHERE EXISTS (SELECT 1 FROM ledger s WHERE s.request_id = o.request_id AND s.kind = 'settlement')
		 OR NOT EXISTS (SELECT 1 FROM ledger h WHERE h.id = o.hold_id AND h.kind = 'hold' AND h.request_id = o.request_id
		 AND h.held = o.held AND h.account_id = o.account_id)`},
	{"an open hold names its last checkpoint", // what it pays after a crash
		`SELECT o.request_id, 'names row ' || o.checkpoint_id || ', the last one is row ' || coalesce(c.last, 0)
		 FROM open_holds o LEFT JOIN (SELECT o.request_id, max(l.id) AS last FROM ledger l JOIN open_holds o
		 ON o.account_id = l.account_id AND o.request_id = l.request_id WHERE l.kind = 'checkpoint' AND l.id > o.hold_id GROUP BY o.request_id) c
		 ON c.request_id = o.request_id WHERE o.checkpoint_id <> coalesce(c.last, 0)`},
	{"an idempotency key names its top-up", // or the next call with it does another one
		`SELECT 'row ' || i.entry_id, 'is not what was done under its key' FROM idempotency i WHERE NOT EXISTS
		 (SELECT 1 FROM ledger l WHERE l.id = i.entry_id AND l.kind = 'topup' AND l.account_id = i.account_id AND l.amount = i.amount)`},
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
}
