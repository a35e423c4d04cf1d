package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

const accountColumns = `id, name, unlimited, disabled, concurrency, tokens_per_minute, models, created`

// CreateAccount implements store.Store.
func (s *Store) CreateAccount(a account.Account, initial abi.Nano) (account.Account, error) {
	a = rules.NewAccount(a, s.now())
	if err := errors.Join(rules.Account(a), rules.Amount(initial)); err != nil {
		return account.Account{}, fmt.Errorf("create account: %w", err)
	}
	err := s.transaction(once, func(ctx context.Context, tx pgx.Tx) error {
		err := insertAccount(ctx, tx, a)
		if err == nil {
			err = change(ctx, tx, a.ID)
		}
		if err != nil || initial == 0 {
			return err
		}
		return s.append(ctx, tx, []account.Entry{topUp(a.ID, initial, "initial balance", a.Created)})
	})
	if err != nil {
		return account.Account{}, fmt.Errorf("create account %q: %w", a.Name, err)
	}
	return a, nil
}

func topUp(accountID string, amount abi.Nano, note string, at time.Time) account.Entry {
	return account.Entry{Kind: account.TopUp, AccountID: accountID, Amount: amount, Note: note, Time: at}
}

func insertAccount(ctx context.Context, tx pgx.Tx, a account.Account) error {
	_, err := tx.Exec(ctx, `INSERT INTO accounts (`+accountColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		a.ID, a.Name, a.Unlimited, a.Disabled, int64(a.Concurrency), a.TokensPerMinute, rules.ModelsText(a.Models),
		rules.FromTime(a.Created))
	if err == nil {
		_, err = tx.Exec(ctx, `INSERT INTO balances (account_id, amount) VALUES ($1, 0)`, a.ID)
	}
	return err
}

// UpdateAccount implements store.Store.
func (s *Store) UpdateAccount(id string, edit func(*account.Account)) (a account.Account, err error) {
	err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		w, err := s.lock(ctx, tx, limit.Batch{Returns: []limit.Return{{AccountID: id}}}) // its bucket refills by the old limit until now
		if err == nil {
			a, err = findAccount(ctx, tx, `id = $1`, id) // behind the lock: no change that is under way is undone
		}
		if err == nil {
			a, err = rules.EditAccount(a, edit)
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE accounts SET name = $2, unlimited = $3, disabled = $4, concurrency = $5,
			tokens_per_minute = $6, models = $7 WHERE id = $1`,
			a.ID, a.Name, a.Unlimited, a.Disabled, int64(a.Concurrency), a.TokensPerMinute, rules.ModelsText(a.Models))
		if l := w.accounts[a.ID]; err == nil && l != nil {
			l.state.Change(a, w.now)
			err = w.write(ctx, tx, oneByOne)
		}
		if err == nil {
			err = change(ctx, tx, a.ID)
		}
		return err
	})
	return a, wrapped(err, "update account %q", id)
}

const selectHolders = `SELECT ` + accountColumns + `, b.amount, coalesce(h.held, 0)
	FROM accounts JOIN balances b ON b.account_id = accounts.id
	LEFT JOIN (SELECT account_id, sum(held)::bigint AS held FROM open_holds GROUP BY account_id) h ON h.account_id = accounts.id
	WHERE name > $1 ORDER BY name LIMIT $2`

// Holders implements store.Store.
func (s *Store) Holders(after string, limit int) (page []store.Holder, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		page = nil
		models := rules.ModelLists{}
		return each(ctx, tx, selectHolders, func(r pgx.Rows) error {
			var h store.Holder
			a, err := scanAccount(r, models, &h.Money.Balance, &h.Money.Held)
			h.Account = a
			page = append(page, h)
			return err
		}, after, min(max(limit, 1), store.HoldersMax))
	})
	return page, wrapped(err, "list accounts")
}

// Account implements store.Store.
func (s *Store) Account(idOrName string) (found account.Account, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		found, err = findAccount(ctx, tx, `id = $1 OR name = $1`, idOrName)
		return err
	})
	return found, wrapped(err, "account %q", idOrName)
}

func findAccount(ctx context.Context, tx pgx.Tx, where, arg string) (found account.Account, err error) {
	there := false
	err = each(ctx, tx, `SELECT `+accountColumns+` FROM accounts WHERE `+where, func(r pgx.Rows) error {
		there = true
		found, err = scanAccount(r, rules.ModelLists{})
		return err
	}, clean(arg))
	if err == nil && !there {
		err = store.ErrNotFound
	}
	return found, err
}

// scanAccount reads a row that begins with accountColumns.
func scanAccount(r pgx.Rows, lists rules.ModelLists, more ...any) (a account.Account, err error) {
	var models string
	var created, concurrency int64
	to := append([]any{&a.ID, &a.Name, &a.Unlimited, &a.Disabled, &concurrency, &a.TokensPerMinute, &models, &created}, more...)
	if err := r.Scan(to...); err != nil {
		return a, err
	}
	a.Concurrency, a.Created = int(concurrency), rules.ToTime(created)
	a.Models, err = lists.Of(a.ID, models)
	return a, err
}

// TopUp implements store.Store.
func (s *Store) TopUp(accountID string, amount abi.Nano, note, idempotencyKey string) (balance abi.Nano, err error) {
	if err := rules.TopUp(amount, note, idempotencyKey); err != nil {
		return 0, fmt.Errorf("top up: %w", err)
	}
	err = s.transaction(repeat(idempotencyKey != ""), func(ctx context.Context, tx pgx.Tx) error {
		rows := []account.Entry{topUp(accountID, amount, note, s.now())}
		done, err := toppedUp(ctx, tx, &rows[0], clean(idempotencyKey))
		if err == nil && !done {
			err = s.append(ctx, tx, rows)
		}
		if err == nil && !done {
			err = change(ctx, tx, accountID)
		}
		if err == nil && !done && idempotencyKey != "" {
			_, err = tx.Exec(ctx, `UPDATE idempotency SET entry_id = $2 WHERE key = $1`, clean(idempotencyKey), rows[0].ID)
		}
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT amount FROM balances WHERE account_id = $1`, accountID).Scan(&balance)
	})
	return balance, wrapped(err, "top up %s", accountID)
}

// toppedUp takes the idempotency key, or says that a top-up was done under it before. Another
// transaction with the key is waited for.
func toppedUp(ctx context.Context, tx pgx.Tx, e *account.Entry, key string) (done bool, err error) {
	if key == "" {
		return false, nil
	}
	tag, err := tx.Exec(ctx, `INSERT INTO idempotency (key, account_id, amount, entry_id) VALUES ($1, $2, $3, 0) ON CONFLICT DO NOTHING`,
		key, clean(e.AccountID), int64(e.Amount))
	if err != nil || tag.RowsAffected() == 1 {
		return false, err
	}
	var accountID string
	var amount abi.Nano
	err = tx.QueryRow(ctx, `SELECT account_id, amount FROM idempotency WHERE key = $1`, key).Scan(&accountID, &amount)
	if err == nil && (accountID != e.AccountID || amount != e.Amount) {
		err = store.ErrIdempotencyMismatch
	}
	return true, err
}

// Balance implements store.Store.
func (s *Store) Balance(accountID string) (balance, held abi.Nano, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT amount, (SELECT coalesce(sum(held), 0)::bigint FROM open_holds WHERE account_id = $1)
			FROM balances WHERE account_id = $1`, clean(accountID)).Scan(&balance, &held)
		if errors.Is(err, pgx.ErrNoRows) {
			err = store.ErrNotFound
		}
		return err
	})
	return balance, held, wrapped(err, "balance of %q", accountID)
}

// Counters implements store.Store.
func (s *Store) Counters(accountID string) (all []account.CounterUse, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		all = nil
		return each(ctx, tx, `SELECT name, period, sum(used)::bigint, sum(held)::bigint, max(most) FROM (
				SELECT name, period, used, 0 AS held, most FROM counters WHERE account_id = $1 AND period >= $2
				UNION ALL SELECT n.name, n.period, 0, n.amount, n.most FROM open_holds o JOIN ledger_counters n ON n.entry_id = o.hold_id
				WHERE o.account_id = $1 AND n.period >= $2) c
			GROUP BY period, name ORDER BY period, name`, func(r pgx.Rows) error {
			var n account.CounterUse
			err := r.Scan(&n.Name, &n.Period, &n.Used, &n.Held, &n.Limit)
			all = append(all, n)
			return err
		}, clean(accountID), account.OldestPeriod(s.now()))
	})
	return all, wrapped(err, "counters of %q", accountID)
}

// pricesKept is the setting with the prices of a node: another one may have others, and what
// a crash left open of each is charged at its own.
func pricesKept(node string) string { return "prices:" + node }

// KeptPrices implements store.Store.
func (s *Store) KeptPrices() (map[string]abi.Prices, error) { return s.keptPrices(s.node) }

func (s *Store) keptPrices(node string) (prices map[string]abi.Prices, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		var text []byte
		err := tx.QueryRow(ctx, `SELECT value FROM settings WHERE name = $1`, pricesKept(node)).Scan(&text)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			prices = nil
			err = json.Unmarshal(text, &prices)
		}
		return err
	})
	return prices, wrapped(err, "read the kept prices")
}

// KeepPrices implements store.Store.
func (s *Store) KeepPrices(prices map[string]abi.Prices) error {
	text, err := json.Marshal(prices)
	if err == nil {
		err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO settings (name, value) VALUES ($1, $2)
				ON CONFLICT (name) DO UPDATE SET value = excluded.value`, pricesKept(s.node), text)
			return err
		})
	}
	return wrapped(err, "keep the prices")
}

// Audit implements store.Store.
func (s *Store) Audit(r store.AuditRow) error {
	ctx, cancel := context.WithTimeout(context.Background(), auditMax)
	defer cancel()
	err := s.transactionWithin(ctx, once, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO audit (time, operator, method, path, target, account_id, key_id, status, node)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, rules.FromTime(s.now()), clean(r.Operator), r.Method, r.Path, clean(r.Target),
			clean(r.AccountID), clean(r.KeyID), r.Status, s.node)
		return err
	})
	return wrapped(err, "write the audit")
}

// Audited implements store.Store.
func (s *Store) Audited(operator string, before int64, limit int) (page []store.AuditRow, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		page = nil
		return each(ctx, tx, `SELECT id, time, operator, method, path, target, account_id, key_id, status, node FROM audit
			WHERE ($1 = '' OR operator = $1) AND ($2 = 0 OR id < $2) ORDER BY id DESC LIMIT $3`, func(rows pgx.Rows) error {
			var r store.AuditRow
			var at int64
			err := rows.Scan(&r.ID, &at, &r.Operator, &r.Method, &r.Path, &r.Target, &r.AccountID, &r.KeyID, &r.Status, &r.Node)
			r.Time = rules.ToTime(at)
			page = append(page, r)
			return err
		}, clean(operator), before, min(max(limit, 1), store.EntriesMax))
	})
	return page, wrapped(err, "read the audit")
}
