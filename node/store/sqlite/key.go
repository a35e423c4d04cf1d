package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

const keyColumns = `id, account_id, hash, hint, created, expires, revoked, last_used, models, tokens_per_minute, budget`

// CreateKey implements store.Store.
func (s *Store) CreateKey(accountID string, limits account.KeyLimits, expires time.Time) (account.Key, string, error) {
	now := s.now()
	if err := errors.Join(rules.KeyLimits(limits), rules.Expiry(expires, now)); err != nil {
		return account.Key{}, "", fmt.Errorf("create key: %w", err)
	}
	key, secret := rules.NewKey(accountID, now, expires)
	key.KeyLimits = limits
	err := s.write.transaction(func() error { return s.write.insertKey(key) })
	if err != nil {
		return account.Key{}, "", fmt.Errorf("create key for %s: %w", accountID, err)
	}
	return key, secret, nil
}

func (c *conn) insertKey(k account.Key) error {
	err := c.exec(`INSERT INTO keys (`+keyColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		k.ID, k.AccountID, k.Hash[:], k.Hint, k.Created, k.Expires, k.Revoked, k.LastUsed,
		rules.ModelsText(k.Models), k.TokensPerMinute, int64(k.Budget))
	return unknownAccount(err, k.AccountID)
}

// UpdateKey implements store.Store.
func (s *Store) UpdateKey(id string, edit func(*account.KeyLimits)) (key account.Key, err error) {
	err = s.write.transaction(func() error {
		if key, err = only(s.write.keys(`WHERE id = ?`, id)); err != nil {
			return err
		}
		if key.KeyLimits, err = rules.EditKey(key.KeyLimits, edit); err != nil {
			return err
		}
		return s.write.exec(`UPDATE keys SET models = ?, tokens_per_minute = ?, budget = ? WHERE id = ?`,
			rules.ModelsText(key.Models), key.TokensPerMinute, int64(key.Budget), id)
	})
	return key, wrapped(err, "update key %q", id)
}

// Key implements store.Store.
func (s *Store) Key(id string) (found account.Key, err error) {
	err = s.read.view(func() error {
		found, err = only(s.read.keys(`WHERE id = ?`, id))
		return err
	})
	return found, wrapped(err, "key %q", id)
}

// KeysCharged implements store.Store.
func (s *Store) KeysCharged(accountID string, at time.Time) (all []account.KeyUse, err error) {
	from, to := rules.Month(at)
	err = s.read.view(func() error {
		found, err := s.read.number(`SELECT count(*) FROM keys WHERE account_id = ? AND budget > 0`, accountID)
		if err != nil || found == 0 {
			return err
		}
		return s.read.each(`SELECT k.id, k.budget, coalesce(u.charged, 0) FROM keys k LEFT JOIN (SELECT key_id, sum(charged) AS charged
			FROM usage WHERE account_id = ?1 AND day >= ?2 AND day < ?3 GROUP BY key_id) u ON u.key_id = k.id
			WHERE k.account_id = ?1 AND k.budget > 0 ORDER BY k.id`, func(r row) error {
			all = append(all, account.KeyUse{KeyID: r.text(0), Budget: abi.Nano(r.num(1)), Charged: abi.Nano(r.num(2))})
			return nil
		}, accountID, from, to)
	})
	return all, wrapped(err, "charges of the keys of %q", accountID)
}

// Keys implements store.Store.
func (s *Store) Keys(accountID string) (all []account.Key, err error) {
	where, args := ``, []any{}
	if accountID != "" {
		where, args = `WHERE account_id = ? `, append(args, accountID)
	}
	err = s.asked.view(func() error {
		all, err = s.asked.keys(where+`ORDER BY created, id`, args...)
		return err
	})
	return all, err
}

// RevokeKey implements store.Store.
func (s *Store) RevokeKey(id string) (key account.Key, err error) {
	err = s.write.transaction(func() error {
		err := s.write.exec(`UPDATE keys SET revoked = ? WHERE id = ? AND revoked = 0`, s.now(), id)
		if err != nil {
			return err
		}
		key, err = only(s.write.keys(`WHERE id = ?`, id))
		return err
	})
	return key, wrapped(err, "revoke key %q", id)
}

// TouchKeys implements store.Store. Ledger rows wait for it.
func (s *Store) TouchKeys(used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	err := s.write.transaction(func() error {
		for id, at := range used {
			err := s.write.exec(`UPDATE keys SET last_used = max(last_used, ?) WHERE id = ?`, at, id)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return wrapped(err, "record key use")
}

// Scan implements store.Store. Others who read wait for it.
func (s *Store) Scan(visitAccount func(account.Account) error, visitKey func(account.Key) error) error {
	err := s.read.view(func() error {
		if err := s.read.eachAccount(visitAccount, `SELECT `+accountColumns+` FROM accounts`); err != nil {
			return err
		}
		return s.read.eachKey(visitKey, `WHERE revoked = 0`)
	})
	return wrapped(err, "read accounts and keys")
}

// AccountKeys implements store.Store.
func (s *Store) AccountKeys(id string) (a account.Account, keys []account.Key, err error) {
	err = s.read.view(func() error {
		if a, err = only(s.read.accounts(`WHERE id = ?`, id)); err != nil {
			return err
		}
		keys, err = s.read.keys(`WHERE account_id = ? ORDER BY created, id`, id)
		return err
	})
	return a, keys, wrapped(err, "account %q and its keys", id)
}

func (c *conn) keys(where string, args ...any) (all []account.Key, err error) {
	err = c.eachKey(func(k account.Key) error {
		all = append(all, k)
		return nil
	}, where, args...)
	return slices.Clip(all), err
}

func (c *conn) eachKey(visit func(account.Key) error, where string, args ...any) error {
	var hash []byte
	models := rules.ModelLists{}
	return c.each(`SELECT `+keyColumns+` FROM keys `+where, func(r row) error {
		k := account.Key{
			ID: r.text(0), AccountID: r.text(1), Hint: r.text(3),
			Created: r.time(4), Expires: r.time(5), Revoked: r.time(6), LastUsed: r.time(7),
		}
		hash = r.sql.ColumnBlob(2, hash[:0]) // it appends
		copy(k.Hash[:], hash)
		k.TokensPerMinute, k.Budget = r.num(9), abi.Nano(r.num(10))
		var err error
		if k.Models, err = models.Of(k.ID, r.text(8)); err != nil {
			return err
		}
		return visit(k)
	}, args...)
}

// unknownAccount turns a broken reference into ErrNotFound.
func unknownAccount(err error, accountID string) error {
	if errors.Is(err, sqlite3.CONSTRAINT_FOREIGNKEY) {
		return fmt.Errorf("account %q: %w", accountID, store.ErrNotFound)
	}
	return err
}
