package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// AmountMax bounds one top-up in both directions: a billion dollars. Balances
// of many such sums still fit an int64; a row that would not is ErrInvalid.
const AmountMax abi.Nano = 1e18

// noteBytesMax bounds the words of a top-up, and its idempotency key.
const noteBytesMax = 1000

const accountColumns = `id, name, unlimited, disabled, concurrency, tokens_per_minute, models, created`

// namePattern keeps names usable in a shell and on one line of a log.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// CreateAccount stores a new account with a fresh ID and creation time; an
// initial balance other than 0 becomes a top-up row in the same transaction.
func (s *Store) CreateAccount(a account.Account, initial abi.Nano) (account.Account, error) {
	a.ID, a.Created = newID("acct_"), s.now().UTC()
	if err := errors.Join(checkAccount(a), checkAmount(initial)); err != nil {
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

// UpdateAccount replaces everything of the account with that ID but its ID,
// creation time and money.
func (s *Store) UpdateAccount(a account.Account) error {
	if err := checkAccount(a); err != nil {
		return fmt.Errorf("update account: %w", err)
	}
	err := s.write.transaction(func() error {
		err := s.write.exec(`UPDATE accounts SET name = ?2, unlimited = ?3, disabled = ?4, concurrency = ?5,
			tokens_per_minute = ?6, models = ?7 WHERE id = ?1`, accountValues(a)[:7]...)
		if err != nil {
			return nameTaken(err)
		}
		return s.write.changedOne("account " + a.ID)
	})
	return wrapped(err, "update account")
}

// Holder is an account and its money.
type Holder struct {
	Account account.Account
	Money   Money
}

// HoldersMax is the most accounts that one call of Holders returns.
const HoldersMax = 1000

const selectHolders = `SELECT ` + accountColumns + `, b.amount, coalesce(h.held, 0)
	FROM accounts JOIN balances b ON b.account_id = accounts.id
	LEFT JOIN (SELECT account_id, sum(held) AS held FROM open_holds GROUP BY account_id) h ON h.account_id = accounts.id
	WHERE name > ? ORDER BY name LIMIT ?`

// Holders returns a page of the accounts by name: those whose name is above
// after, which is the last one of the page before. limit is 1 to HoldersMax.
func (s *Store) Holders(after string, limit int) (page []Holder, err error) {
	s.read.mu.Lock()
	defer s.read.mu.Unlock()
	models := modelLists{}
	err = s.read.each(selectHolders, func(r row) error {
		a, err := scanAccount(r, models)
		page = append(page, Holder{a, Money{Balance: abi.Nano(r.num(8)), Held: abi.Nano(r.num(9))}})
		return err
	}, after, int64(min(max(limit, 1), HoldersMax)))
	return page, wrapped(err, "list accounts")
}

// Account finds an account by its ID or its name, or gives ErrNotFound.
func (s *Store) Account(idOrName string) (account.Account, error) {
	s.read.mu.Lock()
	defer s.read.mu.Unlock()
	found, err := only(s.read.accounts(`WHERE id = ?1 OR name = ?1`, idOrName))
	return found, wrapped(err, "account %q", idOrName)
}

// TopUp adds money to an account, or takes it for a negative amount, and
// returns the new balance. The same idempotency key (empty = none) with the
// same account and amount does it once; with others it is ErrIdempotencyMismatch.
func (s *Store) TopUp(accountID string, amount abi.Nano, note, idempotencyKey string) (abi.Nano, error) {
	err := checkAmount(amount)
	if len(note) > noteBytesMax || len(idempotencyKey) > noteBytesMax {
		err = errors.Join(err, fmt.Errorf("%w: note of %d bytes, idempotency key of %d: want at most %d",
			ErrInvalid, len(note), len(idempotencyKey), noteBytesMax))
	}
	if err != nil {
		return 0, fmt.Errorf("top up: %w", err)
	}
	var balance int64
	err = s.write.transaction(func() error {
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
			return ErrIdempotencyMismatch
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
	models := modelLists{}
	return c.each(query, func(r row) error {
		a, err := scanAccount(r, models)
		if err != nil {
			return err
		}
		return visit(a)
	}, args...)
}

// modelLists are the lists of models that the rows of one query had so far, by
// their stored form: most accounts share one of few.
type modelLists map[string][]string

// scanAccount reads a row that begins with accountColumns.
func scanAccount(r row, lists modelLists) (account.Account, error) {
	a := account.Account{
		ID: r.text(0), Name: r.text(1), Unlimited: r.flag(2), Disabled: r.flag(3),
		Concurrency: int(r.num(4)), TokensPerMinute: r.num(5), Created: r.time(7),
	}
	var err error
	if a.Models, err = lists.read(r.text(6)); err != nil {
		return a, fmt.Errorf("account %s: models: %w", a.ID, err)
	}
	return a, nil
}

func (lists modelLists) read(text string) ([]string, error) {
	if text == "[]" {
		return nil, nil
	}
	list, known := lists[text]
	if !known {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, err
		}
		lists[text] = list
	}
	return list, nil
}

// modelsText is the stored form of a list of models.
func modelsText(models []string) string {
	if len(models) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(models) // a list of strings always has a JSON form
	return string(text)
}

// accountValues are the values of accountColumns.
func accountValues(a account.Account) []any {
	return []any{a.ID, a.Name, a.Unlimited, a.Disabled, int64(a.Concurrency), a.TokensPerMinute, modelsText(a.Models), a.Created}
}

// checkAccount reports everything about an account that cannot be stored.
func checkAccount(a account.Account) error {
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if !namePattern.MatchString(a.Name) {
		refuse("name %.80q: want 1 to 64 letters, digits or . _ @ -, first a letter or digit", a.Name)
	}
	if strings.HasPrefix(a.Name, "acct_") {
		refuse("name %q looks like an account id", a.Name)
	}
	if a.Concurrency < 0 {
		refuse("concurrency %d: want 0 (no limit) or more", a.Concurrency)
	}
	if a.TokensPerMinute < 0 {
		refuse("tokens per minute %d: want 0 (no limit) or more", a.TokensPerMinute)
	}
	return errors.Join(append(errs, checkModels(a.Models))...)
}

func checkModels(models []string) error {
	var errs []error
	for _, model := range models {
		if model == "" || len(model) > 256 {
			errs = append(errs, fmt.Errorf("%w: model id %.80q: want 1 to 256 bytes", ErrInvalid, model))
		}
	}
	return errors.Join(errs...)
}

func checkAmount(amount abi.Nano) error {
	if amount < -AmountMax || amount > AmountMax {
		return fmt.Errorf("%w: amount %d nano-dollars: want at most %d either way", ErrInvalid, amount, AmountMax)
	}
	return nil
}

// nameTaken turns a broken uniqueness into the sentinel. The name is the only
// unique column of an account that a caller chooses.
func nameTaken(err error) error {
	if errors.Is(err, sqlite3.CONSTRAINT_UNIQUE) {
		return ErrNameTaken
	}
	return err
}

// changedOne gives ErrNotFound when the last statement found no row to change.
func (c *conn) changedOne(what string) error {
	if c.db.Changes() == 0 {
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return nil
}

// newID returns prefix and 80 random bits.
func newID(prefix string) string {
	var random [10]byte
	rand.Read(random[:])
	return prefix + hex.EncodeToString(random[:])
}
