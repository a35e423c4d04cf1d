package sqlite

import (
	"fmt"
	"math"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/rules"
)

// visitsMax bounds how many rows one page looks at of which few may have the model, key or kind that is asked for.
const visitsMax = 4096

// statementIndex is what the indexes ledger_account and ledger_time have of the ledger.
const statementIndex = ` FROM ledger WHERE kind <> 'hold' AND kind <> 'checkpoint' AND time BETWEEN ? AND ?`

// Statement implements store.Store.
func (s *Store) Statement(q store.StatementQuery) (page []account.Entry, next int64, err error) {
	if q.Limit <= 0 || q.Limit > store.EntriesMax {
		q.Limit = store.EntriesMax
	}
	err = s.asked.view(func() error {
		page, next, err = s.asked.statement(q)
		return err
	})
	return page, next, wrapped(err, "read statement")
}

func (c *conn) statement(q store.StatementQuery) (page []account.Entry, next int64, err error) {
	where, args, err := c.statementRange(q)
	if err != nil {
		return nil, 0, err
	}
	order := order(q)
	var last int64 // where the visits of this page end; 0 = at the last row
	if q.Model != "" || q.KeyID != "" || q.Kind != "" {
		if last, err = c.number(`SELECT id`+where+order+` LIMIT 1 OFFSET ?`, append(args, int64(visitsMax-1))...); err != nil {
			return nil, 0, err
		}
	}
	where += ` AND (? = '' OR model = ?) AND (? = '' OR key_id = ?) AND (? = '' OR kind = ?)`
	args = append(args, q.Model, q.Model, q.KeyID, q.KeyID, string(q.Kind), string(q.Kind))
	if last != 0 {
		at, err := c.number(`SELECT time FROM ledger WHERE id = ?`, last)
		if err != nil {
			return nil, 0, err
		}
		// The first two arguments bound the range of the index: without them a filter that finds
		// little would read it to its end.
		within := ` AND (time <> ? OR id <= ?)`
		if q.Newest {
			within, args[0] = ` AND (time <> ? OR id >= ?)`, max(args[0].(int64), at)
		} else {
			args[1] = min(args[1].(int64), at)
		}
		where, args = where+within, append(args, at, last)
	}
	err = c.each(`SELECT `+entryColumns+where+order+` LIMIT ?`, func(r row) error {
		page = append(page, scanEntry(r))
		return nil
	}, append(args, int64(q.Limit))...)
	if err == nil {
		err = c.withCounters(page)
	}
	if len(page) == q.Limit {
		last = page[len(page)-1].ID
	}
	return page, last, err
}

func order(q store.StatementQuery) string {
	if q.Newest {
		return ` ORDER BY time DESC, id DESC`
	}
	return ` ORDER BY time, id`
}

// statementRange is the part of an index that a page begins in.
func (c *conn) statementRange(q store.StatementQuery) (where string, args []any, err error) {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.Since.IsZero() {
		from = rules.FromTime(q.Since)
	}
	if !q.Until.IsZero() {
		to = rules.Before(q.Until)
	}
	where = statementIndex
	if q.After != 0 {
		found := false
		at := int64(0)
		err := c.each(`SELECT time FROM ledger WHERE id = ?`, func(r row) error {
			at, found = r.num(0), true
			return nil
		}, q.After)
		if err == nil && !found {
			err = fmt.Errorf("%w: no row has the id %d", store.ErrInvalid, q.After)
		}
		if err != nil {
			return "", nil, err
		}
		if q.Newest {
			to = min(to, at)
			where += ` AND (time <> ? OR id < ?)`
		} else {
			from = max(from, at)
			where += ` AND (time <> ? OR id > ?)`
		}
		args = append(args, at, q.After)
	}
	args = append([]any{from, to}, args...)
	if q.AccountID != "" {
		where, args = where+` AND account_id = ?`, append(args, q.AccountID)
	}
	return where, args, nil
}

// Request implements store.Store.
func (s *Store) Request(id string) (rows []account.Entry, err error) {
	err = s.asked.view(func() error {
		err := s.asked.each(`SELECT `+entryColumns+` FROM ledger WHERE request_id = ?1 AND (kind = 'hold' OR kind = 'settlement')
			UNION ALL SELECT `+entryColumns+` FROM ledger WHERE settles > 0 AND settles =
			(SELECT id FROM ledger WHERE request_id = ?1 AND kind = 'settlement') ORDER BY id`, func(r row) error {
			rows = append(rows, scanEntry(r))
			return nil
		}, id)
		if err == nil {
			err = s.asked.withCounters(rows)
		}
		return err
	})
	if err == nil && len(rows) == 0 {
		err = store.ErrNotFound
	}
	return rows, wrapped(err, "request %q", id)
}
