package sqlite

import (
	"fmt"
	"strconv"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/rules"
)

// Settlement implements store.Store.
func (s *Store) Settlement(ref string) (e account.Entry, err error) {
	id, numeric := strconv.ParseInt(ref, 10, 64)
	where, arg := `request_id = ? AND kind = 'settlement'`, any(ref)
	if numeric == nil {
		where, arg = `id = ? AND kind = 'settlement'`, id
	}
	e, err = only(s.entries(`WHERE `+where, arg))
	return e, wrapped(err, "settlement %q", ref)
}

// Provisional implements store.Store.
func (s *Store) Provisional(after int64) ([]account.Entry, error) {
	entries, err := s.entries(`l WHERE provisional = 1 AND kind = 'settlement' AND id > ?
		AND NOT EXISTS (SELECT 1 FROM ledger a WHERE a.settles = l.id AND a.settles > 0) ORDER BY id LIMIT ?`,
		after, int64(store.EntriesMax))
	return entries, wrapped(err, "read provisional charges")
}

// Adjust implements store.Store.
func (s *Store) Adjust(e account.Entry) (done bool, err error) {
	e.Kind = account.Adjustment
	err = s.write.transaction(func() error {
		found, err := s.write.number(`SELECT count(*) FROM ledger WHERE settles = ? AND settles > 0`, e.Settles)
		if err != nil || found > 0 {
			return err
		}
		done = true
		return s.write.append([]account.Entry{e})
	})
	return done && err == nil, wrapped(err, "adjust settlement %d", e.Settles)
}

// Refund implements store.Store.
func (s *Store) Refund(settlement account.Entry, note string) (e account.Entry, done bool, err error) {
	if err := rules.Note(note); err != nil {
		return e, false, fmt.Errorf("refund settlement %d: %w", settlement.ID, err)
	}
	e = account.Entry{Kind: account.Adjustment, AccountID: settlement.AccountID, Time: s.now().UTC(),
		Settles: settlement.ID, Refund: true, Note: note}
	err = s.write.transaction(func() error {
		found, err := s.write.number(`SELECT count(*) FROM ledger WHERE settles = ? AND refund = 1`, settlement.ID)
		if err != nil {
			return err
		}
		done = found == 0
		rows := []account.Entry{e}
		err = s.write.append(rows)
		e = rows[0]
		return err
	})
	if err == nil && !done {
		e, err = only(s.entries(`WHERE id = ?`, e.ID))
	}
	if err != nil {
		return account.Entry{}, false, fmt.Errorf("refund settlement %d: %w", settlement.ID, err)
	}
	return e, done, nil
}
