package sqlite

import (
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"corenode/actors/account"
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
	err := s.write.transaction(func() error {
		if err := s.write.insertAccount(a); err != nil || initial == 0 {
			return err
		}
		_, err := s.write.addTopUp(a.ID, initial, "initial balance", a.Created)
		return err
	})
	if err != nil {
		return account.Account{}, fmt.Errorf("create account %q: %w", a.Name, err)
	}
	return a, nil
}

func (c *conn) insertAccount(a account.Account) error {
	err := c.exec(`INSERT INTO accounts (`+accountColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, accountValues(a)...)
	if err != nil {
		return nameTaken(err)
	}
	return c.exec(`INSERT INTO balances (account_id, amount) VALUES (?, 0)`, a.ID)
}

// UpdateAccount implements store.Store.
func (s *Store) UpdateAccount(id string, edit func(*account.Account)) (a account.Account, err error) {
	err = s.write.transaction(func() error {
		if a, err = only(s.write.accounts(`WHERE id = ?`, id)); err != nil {
			return err
		}
		if a, err = rules.EditAccount(a, edit); err != nil {
			return err
		}
		err := s.write.exec(`UPDATE accounts SET name = ?2, unlimited = ?3, disabled = ?4, concurrency = ?5,
			tokens_per_minute = ?6, models = ?7 WHERE id = ?1`, accountValues(a)[:7]...)
		return nameTaken(err)
	})
	return a, wrapped(err, "update account %q", id)
}

const selectHolders = `SELECT ` + accountColumns + `, b.amount, coalesce(h.held, 0)
	FROM accounts JOIN balances b ON b.account_id = accounts.id
	LEFT JOIN (SELECT account_id, sum(held) AS held FROM open_holds GROUP BY account_id) h ON h.account_id = accounts.id
	WHERE name > ? ORDER BY name LIMIT ?`

// Holders implements store.Store.
func (s *Store) Holders(after string, limit int) (page []store.Holder, err error) {
	models := rules.ModelLists{}
	err = s.asked.viewEach(selectHolders, func(r row) error {
		a, err := scanAccount(r, models)
		page = append(page, store.Holder{Account: a, Money: store.Money{Balance: abi.Nano(r.num(8)), Held: abi.Nano(r.num(9))}})
		return err
	}, after, int64(min(max(limit, 1), store.HoldersMax)))
	return page, wrapped(err, "list accounts")
}

// Account implements store.Store.
func (s *Store) Account(idOrName string) (found account.Account, err error) {
	err = s.read.view(func() error {
		found, err = only(s.read.accounts(`WHERE id = ?1 OR name = ?1`, idOrName))
		return err
	})
	return found, wrapped(err, "account %q", idOrName)
}

// TopUp implements store.Store.
func (s *Store) TopUp(accountID string, amount abi.Nano, note, idempotencyKey string) (abi.Nano, error) {
	if err := rules.TopUp(amount, note, idempotencyKey); err != nil {
		return 0, fmt.Errorf("top up: %w", err)
	}
	var balance int64
	err := s.write.transaction(func() error {
		done, err := s.write.toppedUp(accountID, amount, idempotencyKey)
		if err == nil && !done {
			err = s.write.topUpOnce(accountID, amount, note, idempotencyKey, s.now())
		}
		if err != nil {
			return err
		}
		balance, err = s.write.number(`SELECT amount FROM balances WHERE account_id = ?`, accountID)
		return err
	})
	return abi.Nano(balance), wrapped(err, "top up %s", accountID)
}

// toppedUp says whether the top-up was done before under this key.
func (c *conn) toppedUp(accountID string, amount abi.Nano, key string) (done bool, err error) {
	if key == "" {
		return false, nil
	}
	err = c.each(`SELECT account_id, amount FROM idempotency WHERE key = ?`, func(r row) error {
		if r.text(0) != accountID || abi.Nano(r.num(1)) != amount {
			return store.ErrIdempotencyMismatch
		}
		done = true
		return nil
	}, key)
	return done, err
}

func (c *conn) topUpOnce(accountID string, amount abi.Nano, note, key string, now time.Time) error {
	id, err := c.addTopUp(accountID, amount, note, now)
	if err != nil || key == "" {
		return err
	}
	return c.exec(`INSERT INTO idempotency (key, account_id, amount, entry_id) VALUES (?, ?, ?, ?)`,
		key, accountID, int64(amount), id)
}

// addTopUp appends the row and keeps the sum.
func (c *conn) addTopUp(accountID string, amount abi.Nano, note string, now time.Time) (id int64, err error) {
	entries := []account.Entry{{Kind: account.TopUp, AccountID: accountID, Amount: amount, Note: note, Time: now}}
	err = c.append(entries)
	return entries[0].ID, err
}

func (c *conn) accounts(where string, args ...any) (all []account.Account, err error) {
	err = c.eachAccount(func(a account.Account) error {
		all = append(all, a)
		return nil
	}, `SELECT `+accountColumns+` FROM accounts `+where, args...)
	return all, err
}

func (c *conn) eachAccount(visit func(account.Account) error, query string, args ...any) error {
	models := rules.ModelLists{}
	return c.each(query, func(r row) error {
		a, err := scanAccount(r, models)
		if err != nil {
			return err
		}
		return visit(a)
	}, args...)
}

// scanAccount reads a row that begins with accountColumns.
func scanAccount(r row, lists rules.ModelLists) (account.Account, error) {
	a := account.Account{
		ID: r.text(0), Name: r.text(1), Unlimited: r.flag(2), Disabled: r.flag(3),
		Concurrency: int(r.num(4)), TokensPerMinute: r.num(5), Created: r.time(7),
	}
	var err error
	a.Models, err = lists.Of(a.ID, r.text(6))
	return a, err
}

// accountValues are the values of accountColumns.
func accountValues(a account.Account) []any {
	return []any{a.ID, a.Name, a.Unlimited, a.Disabled, int64(a.Concurrency), a.TokensPerMinute, rules.ModelsText(a.Models), a.Created}
}

// nameTaken turns a broken uniqueness into the sentinel. The name is the only
// unique column of an account that a caller chooses.
func nameTaken(err error) error {
	if errors.Is(err, sqlite3.CONSTRAINT_UNIQUE) {
		return store.ErrNameTaken
	}
	return err
}

// changedOne gives store.ErrNotFound when the last statement found no row to change.
func (c *conn) changedOne(what string) error {
	if c.db.Changes() == 0 {
		return fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	return nil
}
