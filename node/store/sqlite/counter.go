package sqlite

import (
	"fmt"

	"corenode/actors/account"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// insertCounters adds what a row that was just inserted has of counters.
func (c *conn) insertCounters(e *account.Entry) error {
	for _, n := range e.Counters {
		if n.Amount == 0 {
			continue
		}
		err := c.exec(`INSERT INTO ledger_counters (entry_id, name, period, most, amount) VALUES (?, ?, ?, ?, ?)`,
			e.ID, n.Name, n.Period, n.Limit, n.Amount)
		if err != nil {
			return fmt.Errorf("counter %s of %s: %w", n.Name, n.Period, err)
		}
	}
	return nil
}

// addCounters writes what a batch takes of counters.
func (c *conn) addCounters(sums map[rules.CounterGroup]*rules.CounterSum) error {
	for n, sum := range sums {
		err := c.exec(`INSERT INTO counters (account_id, name, period, used, most) VALUES (?, ?, ?, 0, 0) ON CONFLICT DO NOTHING`,
			n.AccountID, n.Name, n.Period)
		if err == nil {
			err = c.exec(`UPDATE counters SET used = used + ?, most = max(most, ?) WHERE account_id = ? AND name = ? AND period = ?`,
				sum.Used, sum.Limit, n.AccountID, n.Name, n.Period)
		}
		if err != nil {
			return fmt.Errorf("counter %s of %s of %s: %w", n.Name, n.Period, n.AccountID, invalidRow(err))
		}
	}
	return nil
}

// refundCounters is what takes back all that a settlement and its re-rating took.
func (c *conn) refundCounters(settlement int64) (back []abi.Counter, err error) {
	err = c.each(`SELECT n.name, n.period, max(n.most), sum(n.amount) FROM ledger_counters n JOIN ledger l ON l.id = n.entry_id
		WHERE l.id = ?1 OR (l.settles = ?1 AND l.settles > 0) GROUP BY n.name, n.period`, func(r row) error {
		back = append(back, abi.Counter{Name: r.text(0), Period: r.text(1), Limit: r.num(2), Amount: -r.num(3)})
		return nil
	}, settlement)
	return back, err
}

// withCounters completes rows that were read. Of rows between them, which may be millions, it reads nothing.
func (c *conn) withCounters(entries []account.Entry) error {
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && entries[n].ID == entries[n-1].ID+1 {
			n++
		}
		run, first := entries[:n], entries[0].ID
		err := c.each(`SELECT entry_id, name, period, most, amount FROM ledger_counters WHERE entry_id BETWEEN ? AND ?
			ORDER BY entry_id, name`, func(r row) error {
			e := &run[r.num(0)-first]
			e.Counters = append(e.Counters, abi.Counter{Name: r.text(1), Period: r.text(2), Limit: r.num(3), Amount: r.num(4)})
			return nil
		}, first, run[n-1].ID)
		if err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// Counters implements store.Store.
func (s *Store) Counters(accountID string) (all []account.CounterUse, err error) {
	err = s.read.viewEach(`SELECT name, period, sum(used), sum(held), max(most) FROM (
			SELECT name, period, used, 0 AS held, most FROM counters WHERE account_id = ?1 AND period >= ?2
			UNION ALL SELECT n.name, n.period, 0, n.amount, n.most FROM open_holds o JOIN ledger_counters n ON n.entry_id = o.hold_id
			WHERE o.account_id = ?1 AND n.period >= ?2)
		GROUP BY period, name ORDER BY period, name`, func(r row) error {
		all = append(all, account.CounterUse{Name: r.text(0), Period: r.text(1), Used: r.num(2), Held: r.num(3), Limit: r.num(4)})
		return nil
	}, accountID, account.OldestPeriod(s.now()))
	return all, wrapped(err, "counters of %q", accountID)
}
