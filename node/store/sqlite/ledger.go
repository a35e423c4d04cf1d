package sqlite

import (
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// Append implements store.Store.
func (s *Store) Append(entries []account.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	err := s.write.transaction(func() error { return s.write.append(entries) })
	return wrapped(err, "append to ledger")
}

// append runs inside a transaction. Sums are written once per account and batch.
func (c *conn) append(entries []account.Entry) error {
	sums := rules.NewSums()
	for i := range entries {
		e := &entries[i]
		inserted, err := c.appendOne(e)
		if err == nil && inserted {
			err = sums.Add(e)
		}
		if err != nil {
			return rules.About(e, invalidRow(err))
		}
	}
	for id, amount := range sums.Balances {
		err := c.exec(`UPDATE balances SET amount = amount + ? WHERE account_id = ?`, int64(amount), id)
		if err == nil {
			err = c.changedOne("account " + id)
		}
		if err != nil {
			return fmt.Errorf("balance of %s: %w", id, invalidRow(err))
		}
	}
	if err := c.addCounters(sums.Counters); err != nil {
		return err
	}
	return c.addUsage(sums.Usage)
}

// invalidRow makes ErrInvalid of what SQLite has against a row: the database is
// well, and takes others. A sum beyond an int64 is such a case: it would be a
// REAL, which a strict table does not take for an INTEGER.
func invalidRow(err error) error {
	if errors.Is(err, sqlite3.CONSTRAINT) || errors.Is(err, sqlite3.MISMATCH) || errors.Is(err, sqlite3.TOOBIG) {
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return err
}

// openHold opens a hold, unless its settlement came first. OR FAIL spares SQLite the copies of pages by which it could undo some of
// several rows: here it is one, and the transaction ends with its failure.
const openHold = `INSERT OR FAIL INTO open_holds (request_id, account_id, held, hold_id, checkpoint_id)
	SELECT ?1, ?2, ?3, ?4, 0 WHERE NOT EXISTS (SELECT 1 FROM ledger WHERE request_id = ?1 AND kind = 'settlement')`

// appendOne inserts a row with what its kind brings along, unless it was there already.
func (c *conn) appendOne(e *account.Entry) (inserted bool, err error) {
	if err := rules.Entry(e); err != nil {
		return false, err
	}
	if e.Refund {
		if there, err := c.completeRefund(e); there || err != nil {
			return false, err
		}
	}
	if inserted, err = c.insertEntry(e); err != nil {
		return false, unknownAccount(err, e.AccountID)
	}
	if inserted && len(e.Counters) > 0 {
		if err := c.insertCounters(e); err != nil {
			return false, err
		}
	}
	switch e.Kind {
	case account.Hold:
		if inserted {
			err = c.exec(openHold, e.RequestID, e.AccountID, int64(e.Held), e.ID)
		}
	case account.Checkpoint:
		err = c.exec(`UPDATE open_holds SET checkpoint_id = ? WHERE account_id = ? AND request_id = ?`, e.ID, e.AccountID, e.RequestID)
	case account.Settlement: // also one that was there: nothing of a settled request stays open
		if !e.NeverHeld {
			err = c.closeHold(e)
		}
	case account.Adjustment:
		err = c.checkSettles(e)
	}
	return inserted, err
}

// closeHold ends what a settlement settles. One that finds nothing open of its account may be another account's, and is refused then.
func (c *conn) closeHold(e *account.Entry) error {
	err := c.exec(`DELETE FROM open_holds WHERE account_id = ? AND request_id = ?`, e.AccountID, e.RequestID)
	if err != nil || c.db.Changes() > 0 {
		return err
	}
	others, err := c.number(`SELECT count(*) FROM ledger h JOIN open_holds o ON o.account_id = h.account_id AND o.request_id = h.request_id
		WHERE h.request_id = ? AND h.kind = 'hold' AND (h.kind = 'hold' OR h.kind = 'settlement')`, e.RequestID)
	if err == nil && others > 0 {
		err = rules.ErrOthersHold
	}
	return err
}

// insertEntry adds the row unless it is a second hold or settlement, and sets the ID.
func (c *conn) insertEntry(e *account.Entry) (inserted bool, err error) {
	kind := kindOf(e)
	s, err := c.prepare(kind.insert)
	if err != nil {
		return false, err
	}
	for i, column := range kind.columns {
		column.bind(s, i+1, e)
	}
	if err := s.run(nil); err != nil {
		return false, err
	}
	if !kind.once || c.db.Changes() == 1 {
		e.ID = c.db.LastInsertRowID()
		return true, nil
	}
	e.ID, err = c.number(`SELECT id FROM ledger WHERE request_id = ? AND kind = ? AND (kind = 'hold' OR kind = 'settlement')`,
		e.RequestID, string(e.Kind))
	return false, err
}

// checkSettles makes sure that an adjustment names a settlement of its account.
func (c *conn) checkSettles(e *account.Entry) error {
	found, err := c.number(`SELECT count(*) FROM ledger WHERE id = ? AND kind = 'settlement' AND account_id = ?`,
		e.Settles, e.AccountID)
	if err == nil && found == 0 {
		err = fmt.Errorf("settlement %d of the account: %w", e.Settles, store.ErrNotFound)
	}
	return err
}

// completeRefund finds the settlement that a refund names, by its ID or its
// request, and computes the amount. there says that it was refunded before.
func (c *conn) completeRefund(e *account.Entry) (there bool, err error) {
	where, arg := `request_id = ? AND kind = 'settlement'`, any(e.RequestID)
	if e.Settles != 0 {
		where, arg = `id = ? AND kind = 'settlement'`, e.Settles
	}
	e.Settles = 0
	err = c.each(`SELECT id, request_id, key_id, model FROM ledger WHERE `+where+` AND account_id = ?`, func(r row) error {
		e.Settles, e.RequestID, e.KeyID, e.Model = r.num(0), r.text(1), r.text(2), r.text(3)
		return nil
	}, arg, e.AccountID)
	if err == nil && e.Settles == 0 {
		err = fmt.Errorf("%w: there is no settlement to refund", store.ErrInvalid)
	}
	if err != nil {
		return false, err
	}
	e.ID, err = c.number(`SELECT coalesce(max(id), 0) FROM ledger WHERE settles = ? AND refund = 1`, e.Settles)
	if e.ID != 0 || err != nil {
		return e.ID != 0, err
	}
	if e.Counters, err = c.refundCounters(e.Settles); err != nil {
		return false, err
	}
	charged, err := c.number(`SELECT sum(amount) FROM ledger WHERE id = ?1 OR (settles = ?1 AND settles > 0)`, e.Settles)
	e.Amount = -abi.Nano(charged)
	return false, err
}

// Balance implements store.Store.
func (s *Store) Balance(accountID string) (balance, held abi.Nano, err error) {
	err = s.read.view(func() error {
		found := false
		err := s.read.each(`SELECT amount, (SELECT coalesce(sum(held), 0) FROM open_holds WHERE account_id = ?1)
			FROM balances WHERE account_id = ?1`, func(r row) error {
			balance, held, found = abi.Nano(r.num(0)), abi.Nano(r.num(1)), true
			return nil
		}, accountID)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	return balance, held, wrapped(err, "balance of %q", accountID)
}

// Entries implements store.Store.
func (s *Store) Entries(q store.Query) ([]account.Entry, error) {
	if q.Limit <= 0 || q.Limit > store.EntriesMax {
		q.Limit = store.EntriesMax
	}
	entries, err := s.entries(`WHERE id > ? AND time >= ? ORDER BY id LIMIT ?`, q.After, q.Since, int64(q.Limit))
	return entries, wrapped(err, "read ledger")
}

// Entry implements store.Store.
func (s *Store) Entry(id int64) (account.Entry, error) {
	e, err := only(s.entries(`WHERE id = ?`, id))
	return e, wrapped(err, "row %d", id)
}

// entries reads the rows of the ledger that a condition selects.
func (s *Store) entries(where string, args ...any) (all []account.Entry, err error) {
	err = s.asked.view(func() error {
		err := s.asked.each(`SELECT `+entryColumns+` FROM ledger `+where, func(r row) error {
			all = append(all, scanEntry(r))
			return nil
		}, args...)
		if err != nil {
			return err
		}
		return s.asked.withCounters(all)
	})
	return all, err
}
