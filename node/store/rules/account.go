// Package rules has what every store decides alike: what may be stored, what a batch of
// ledger rows changes, and the stored form of values. It is pure: it reads no clock and
// no database.
package rules

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// AmountMax bounds one top-up in both directions: a billion dollars. Balances
// of many such sums still fit an int64; a row that would not is ErrInvalid.
const AmountMax abi.Nano = 1e18

// NoteBytesMax bounds the words of a top-up, and its idempotency key.
const NoteBytesMax = 1000

// hintBytes is how much of a secret a list may show: "sk-" and 24 of its 256 bits.
const hintBytes = 7

// namePattern keeps names usable in a shell and on one line of a log.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// Account reports everything about an account that cannot be stored.
func Account(a account.Account) error {
	return errors.Join(withoutModels(a), models(a.Models))
}

func withoutModels(a account.Account) error {
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{store.ErrInvalid}, args...)...))
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
	return errors.Join(errs...)
}

func models(ids []string) error {
	var errs []error
	for _, model := range ids {
		if err := account.CheckModel(model); err != nil {
			errs = append(errs, fmt.Errorf("%w: model id %.80q: %w", store.ErrInvalid, model, err))
		}
	}
	return errors.Join(errs...)
}

// KeyLimits reports everything about limits that cannot be stored.
func KeyLimits(l account.KeyLimits) error {
	return errors.Join(models(l.Models), amounts(l))
}

func amounts(l account.KeyLimits) (err error) {
	if l.TokensPerMinute < 0 {
		err = fmt.Errorf("%w: tokens per minute %d: want 0 (no limit) or more", store.ErrInvalid, l.TokensPerMinute)
	}
	if l.Budget < 0 || l.Budget > AmountMax {
		err = errors.Join(err, fmt.Errorf("%w: budget %d nano-dollars: want 0 (no limit) to %d", store.ErrInvalid, l.Budget, AmountMax))
	}
	return err
}

// Amount refuses a top-up beyond AmountMax.
func Amount(amount abi.Nano) error {
	if amount < -AmountMax || amount > AmountMax {
		return fmt.Errorf("%w: amount %d nano-dollars: want at most %d either way", store.ErrInvalid, amount, AmountMax)
	}
	return nil
}

// TopUp refuses a top-up that cannot be stored.
func TopUp(amount abi.Nano, note, idempotencyKey string) error {
	err := Amount(amount)
	if len(note) > NoteBytesMax || len(idempotencyKey) > NoteBytesMax {
		err = errors.Join(err, fmt.Errorf("%w: note of %d bytes, idempotency key of %d: want at most %d",
			store.ErrInvalid, len(note), len(idempotencyKey), NoteBytesMax))
	}
	return err
}

// Note refuses words that are too many.
func Note(note string) error {
	if len(note) > NoteBytesMax {
		return fmt.Errorf("%w: note of %d bytes, want at most %d", store.ErrInvalid, len(note), NoteBytesMax)
	}
	return nil
}

// Expiry refuses an end of a key that is past or cannot be stored; zero = for ever.
func Expiry(expires, now time.Time) error {
	if !expires.IsZero() && (expires.Before(now) || expires.Year() > 2261) {
		return fmt.Errorf("%w: it expires at %s, want a time between now and the year 2261", store.ErrInvalid, expires.Format(time.RFC3339))
	}
	return nil
}

// NewAccount completes an account that is made now.
func NewAccount(a account.Account, now time.Time) account.Account {
	a.ID, a.Created = newID("acct_"), now.UTC()
	return a
}

// EditAccount has edit change an account, and refuses what cannot be stored. Models that stay are not looked at: a row may have
// ids that cannot be given, and is not to keep an account from being disabled.
func EditAccount(a account.Account, edit func(*account.Account)) (account.Account, error) {
	id, created, before := a.ID, a.Created, slices.Clone(a.Models)
	edit(&a)
	a.ID, a.Created = id, created
	return a, errors.Join(withoutModels(a), otherModels(before, a.Models))
}

// EditKey is EditAccount of the limits of a key.
func EditKey(l account.KeyLimits, edit func(*account.KeyLimits)) (account.KeyLimits, error) {
	before := slices.Clone(l.Models)
	edit(&l)
	return l, errors.Join(amounts(l), otherModels(before, l.Models))
}

func otherModels(before, now []string) error {
	if slices.Equal(before, now) {
		return nil
	}
	return models(now)
}

// NewKey makes a key with its secret.
func NewKey(accountID string, now, expires time.Time) (account.Key, string) {
	var random [32]byte
	rand.Read(random[:])
	secret := "sk-" + base64.RawURLEncoding.EncodeToString(random[:])
	return account.Key{
		ID: newID("key_"), AccountID: accountID, Hash: sha256.Sum256([]byte(secret)), Hint: secret[:hintBytes],
		Created: now.UTC(), Expires: expires,
	}, secret
}

// FirstAccount makes what a first start stores.
func FirstAccount(now time.Time) store.First {
	a := NewAccount(account.Account{Name: store.DefaultAccount, Unlimited: true}, now)
	key, secret := NewKey(a.ID, now, time.Time{})
	return store.First{Account: a, Key: key, Secret: secret}
}

// newID returns prefix and 80 random bits.
func newID(prefix string) string {
	var random [10]byte
	rand.Read(random[:])
	return prefix + hex.EncodeToString(random[:])
}

// ModelsText is the stored form of a list of models: a JSON array; [] means all.
func ModelsText(models []string) string {
	if len(models) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(models) // a list of strings always has a JSON form
	return string(text)
}

// ModelLists are the lists of models that the rows of one query had so far, by
// their stored form: most accounts share one of few.
type ModelLists map[string][]string

// Of reads the stored form of the models of an account or a key.
func (l ModelLists) Of(id, text string) ([]string, error) {
	if text == "[]" {
		return nil, nil
	}
	list, known := l[text]
	if !known {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, fmt.Errorf("%s: models: %w", id, err)
		}
		l[text] = list
	}
	return list, nil
}

// FromTime gives the stored form of a time: Unix nanoseconds, 0 for never.
// Times beyond what 64 bits reach (years 1678 to 2262) become the nearest.
func FromTime(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Year() > 2261:
		return math.MaxInt64
	case t.Year() < 1679:
		return math.MinInt64
	}
	return t.UnixNano()
}

// Before gives the stored form of the last moment before a time that is not zero.
func Before(t time.Time) int64 {
	return max(FromTime(t), math.MinInt64+1) - 1
}

// ToTime reads the stored form of a time.
func ToTime(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
