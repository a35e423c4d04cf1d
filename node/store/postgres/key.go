package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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
	err := s.transaction(once, func(ctx context.Context, tx pgx.Tx) error {
		if err := insertKey(ctx, tx, key); err != nil {
			return err
		}
		return change(ctx, tx, accountID)
	})
	if err != nil {
		return account.Key{}, "", fmt.Errorf("create key for %s: %w", accountID, err)
	}
	return key, secret, nil
}

func insertKey(ctx context.Context, tx pgx.Tx, k account.Key) error {
	_, err := tx.Exec(ctx, `INSERT INTO keys (`+keyColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		k.ID, clean(k.AccountID), k.Hash[:], k.Hint, rules.FromTime(k.Created), rules.FromTime(k.Expires), rules.FromTime(k.Revoked),
		rules.FromTime(k.LastUsed), rules.ModelsText(k.Models), k.TokensPerMinute, int64(k.Budget))
	return err
}

// UpdateKey implements store.Store.
func (s *Store) UpdateKey(id string, edit func(*account.KeyLimits)) (key account.Key, err error) {
	err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) (err error) {
		if key, err = findKey(ctx, tx, id, ` FOR NO KEY UPDATE`); err != nil {
			return err
		}
		if key.KeyLimits, err = rules.EditKey(key.KeyLimits, edit); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE keys SET models = $2, tokens_per_minute = $3, budget = $4 WHERE id = $1`,
			key.ID, rules.ModelsText(key.Models), key.TokensPerMinute, int64(key.Budget))
		if err == nil {
			err = change(ctx, tx, key.AccountID)
		}
		return err
	})
	return key, wrapped(err, "update key %q", id)
}

// Key implements store.Store.
func (s *Store) Key(id string) (key account.Key, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		key, err = findKey(ctx, tx, id, ``)
		return err
	})
	return key, wrapped(err, "key %q", id)
}

// KeysCharged implements store.Store.
func (s *Store) KeysCharged(accountID string, at time.Time) (all []account.KeyUse, err error) {
	from, to := rules.Month(at)
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		all = nil
		b := &pgx.Batch{}
		queueKeysCharged(b, clean(accountID), from, to, func(n account.KeyUse) { all = append(all, n) })
		return tx.SendBatch(ctx, b).Close()
	})
	return all, wrapped(err, "charges of the keys of %q", accountID)
}

// queueKeysCharged reads the keys of an account that have a budget, in the order of their ids, and what was charged to them from one day
// to before another. Usage is added up once for all keys, and the sums are joined here: a plan that takes an account for one of few keys
// would add up again for each. The keys come first, so that no sum of a key that is there is missing.
func queueKeysCharged(b *pgx.Batch, accountID string, from, to int64, visit func(account.KeyUse)) {
	var keys []account.KeyUse
	b.Queue(`SELECT id, budget FROM keys WHERE account_id = $1 AND budget > 0 ORDER BY id`, accountID).
		Query(func(rows pgx.Rows) error {
			var k account.KeyUse
			_, err := pgx.ForEachRow(rows, []any{&k.KeyID, &k.Budget}, func() error {
				keys = append(keys, k)
				return nil
			})
			return err
		})
	b.Queue(`SELECT key_id, sum(charged)::bigint FROM usage WHERE account_id = (SELECT account_id FROM keys WHERE account_id = $1 AND budget > 0
			LIMIT 1) AND day >= $2 AND day < $3 GROUP BY key_id`, accountID, from, to).
		Query(func(rows pgx.Rows) error {
			sums := map[string]abi.Nano{}
			var id string
			var sum abi.Nano
			_, err := pgx.ForEachRow(rows, []any{&id, &sum}, func() error {
				sums[id] = sum
				return nil
			})
			for _, k := range keys {
				k.Charged = sums[k.KeyID]
				visit(k)
			}
			return err
		})
}

// queueKeysDecided reads those keys with a budget that a batch decides about, of accounts that it has locked, and what was charged to
// them: the keys that are asked for, and in accounts where a request is short of something those whose requests are short of their budget.
// What other keys were charged is not read, however many the account has.
func queueKeysDecided(b *pgx.Batch, accounts, asked, short []string, from, to int64, visit func(accountID string, n account.KeyUse)) {
	b.Queue(`SELECT k.account_id, k.id, k.budget, (SELECT coalesce(sum(u.charged), 0)::bigint FROM usage u
			WHERE u.account_id = k.account_id AND u.key_id = k.id AND u.day >= $4 AND u.day < $5)
		FROM keys k WHERE k.account_id = ANY ($1) AND k.budget > 0 AND k.id = ANY (ARRAY (SELECT unnest($2::text[]) COLLATE "C"
			UNION ALL SELECT key_id FROM open_holds WHERE account_id = ANY ($3) AND key_held < upper))
		ORDER BY k.id`, accounts, asked, short, from, to).Query(func(rows pgx.Rows) error {
		var id string
		var n account.KeyUse
		_, err := pgx.ForEachRow(rows, []any{&id, &n.KeyID, &n.Budget, &n.Charged}, func() error {
			visit(id, n)
			return nil
		})
		return err
	})
}

// Keys implements store.Store.
func (s *Store) Keys(accountID string) (all []account.Key, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		all, err = keysOf(ctx, tx, accountID)
		return err
	})
	return all, wrapped(err, "keys of %q", accountID)
}

// RevokeKey implements store.Store.
func (s *Store) RevokeKey(id string) (key account.Key, err error) {
	err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE keys SET revoked = $2 WHERE id = $1 AND revoked = 0`, clean(id), rules.FromTime(s.now()))
		if err == nil {
			key, err = findKey(ctx, tx, id, ``)
		}
		if err == nil {
			err = change(ctx, tx, key.AccountID)
		}
		return err
	})
	return key, wrapped(err, "revoke key %q", id)
}

// TouchKeys implements store.Store. Keys are changed in the order of their ids, so that two
// nodes wait for each other and never in a circle.
func (s *Store) TouchKeys(used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(used))
	times := make([]int64, len(ids))
	for i, id := range ids {
		times[i] = rules.FromTime(used[id])
	}
	err := s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE keys SET last_used = greatest(last_used, t.at) FROM unnest($1::text[], $2::bigint[]) AS t (id, at)
			WHERE keys.id = t.id AND keys.id IN (SELECT id FROM keys WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE)`, ids, times)
		return err
	})
	return wrapped(err, "record key use")
}

// Scan implements store.Store.
func (s *Store) Scan(visitAccount func(account.Account) error, visitKey func(account.Key) error) error {
	ctx, cancel := context.WithTimeout(s.reading, scanMax)
	defer cancel()
	// It is not tried again: what was visited cannot be taken back.
	err := s.viewOnce(ctx, func(ctx context.Context, tx pgx.Tx) error {
		models := rules.ModelLists{}
		err := each(ctx, tx, `SELECT `+accountColumns+` FROM accounts`, func(r pgx.Rows) error {
			a, err := scanAccount(r, models)
			if err != nil {
				return err
			}
			return visitAccount(a)
		})
		if err != nil {
			return err
		}
		return eachKey(ctx, tx, visitKey, `WHERE revoked = 0`)
	})
	return wrapped(known(err), "read accounts and keys")
}

// AccountKeys implements store.Store.
func (s *Store) AccountKeys(id string) (a account.Account, keys []account.Key, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		if a, err = findAccount(ctx, tx, `id = $1`, id); err == nil {
			keys, err = keysOf(ctx, tx, id)
		}
		return err
	})
	return a, keys, wrapped(err, "account %q and its keys", id)
}

func keysOf(ctx context.Context, tx pgx.Tx, accountID string) (all []account.Key, err error) {
	err = eachKey(ctx, tx, func(k account.Key) error {
		all = append(all, k)
		return nil
	}, `WHERE $1 = '' OR account_id = $1 ORDER BY created, id`, clean(accountID))
	return slices.Clip(all), err
}

// findKey reads a key, and locks it where that is asked for.
func findKey(ctx context.Context, tx pgx.Tx, id, lock string) (found account.Key, err error) {
	there := false
	err = eachKey(ctx, tx, func(k account.Key) error {
		found, there = k, true
		return nil
	}, `WHERE id = $1`+lock, clean(id))
	if err == nil && !there {
		err = store.ErrNotFound
	}
	return found, err
}

func eachKey(ctx context.Context, tx pgx.Tx, visit func(account.Key) error, where string, args ...any) error {
	models := rules.ModelLists{}
	return each(ctx, tx, `SELECT `+keyColumns+` FROM keys `+where, func(r pgx.Rows) error {
		var k account.Key
		var hash []byte
		var list string
		var created, expires, revoked, used int64
		err := r.Scan(&k.ID, &k.AccountID, &hash, &k.Hint, &created, &expires, &revoked, &used, &list, &k.TokensPerMinute, &k.Budget)
		if err != nil {
			return err
		}
		copy(k.Hash[:], hash)
		k.Created, k.Expires = rules.ToTime(created), rules.ToTime(expires)
		k.Revoked, k.LastUsed = rules.ToTime(revoked), rules.ToTime(used)
		if k.Models, err = models.Of(k.ID, list); err != nil {
			return err
		}
		return visit(k)
	}, args...)
}
