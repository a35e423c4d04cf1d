package admin

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
)

func (a *API) status(call) (Status, error) { return Status{Draining: a.node.Draining()}, nil }

func (a *API) drain(call) (Status, error) {
	a.node.Drain()
	return Status{Draining: true}, nil
}

// listAccounts returns a page of the accounts by name. Without a limit it
// returns all that are left, read page by page: nobody who reads the store
// meanwhile waits for more than a page.
func (a *API) listAccounts(c call) (shown list[Account], err error) {
	after, whole := c.query.Get("after"), c.query.Get("limit") == ""
	limit, err := pageLimit(c.query, store.HoldersMax)
	if err != nil {
		return shown, err
	}
	shown = list[Account]{Data: []Account{}}
	for {
		page, err := a.store.Holders(after, limit)
		if err != nil {
			return shown, err
		}
		for _, h := range page {
			shown.Data = append(shown.Data, showAccount(h.Account, h.Money))
		}
		if !whole || len(page) < limit {
			return shown, nil
		}
		after = page[len(page)-1].Account.Name
	}
}

// pageLimit reads how many rows a page is to have: 1 to rowsMax, the default.
func pageLimit(query url.Values, rowsMax int) (int, error) {
	text := query.Get("limit")
	if text == "" {
		return rowsMax, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > rowsMax {
		return 0, invalid(fmt.Errorf("limit is %q, want 1 to %d", text, rowsMax))
	}
	return limit, nil
}

// createAccount makes the account and its first key. Should the key fail, the
// account stays and the error says so: its name is taken from then on.
func (a *API) createAccount(c call, asked NewAccount) (shown CreatedAccount, err error) {
	initial, err := asked.Balance.nano("balance")
	if err != nil {
		return shown, err
	}
	made, err := a.store.CreateAccount(account.Account{
		Name: asked.Name, Unlimited: asked.Unlimited, Concurrency: asked.Concurrency,
		TokensPerMinute: asked.TokensPerMinute, Models: asked.Models,
	}, initial)
	if err != nil {
		return shown, err
	}
	c.about.account = made.ID
	key, secret, err := a.store.CreateKey(made.ID, account.KeyLimits{}, time.Time{})
	a.node.Changed(made.ID)
	if err != nil {
		return shown, fmt.Errorf("the account %s was made, but no key: %w", made.ID, err)
	}
	c.about.key = key.ID
	return CreatedAccount{showAccount(made, store.Money{Balance: initial}), key.ID, secret}, nil
}

func (a *API) showAccount(c call) (shown Account, err error) {
	found, err := a.store.Account(c.target)
	if err != nil {
		return shown, err
	}
	return a.withMoney(found)
}

func (a *API) withMoney(of account.Account) (Account, error) {
	balance, held, err := a.store.Balance(of.ID)
	if err != nil {
		return Account{}, err
	}
	shown := showAccount(of, store.Money{Balance: balance, Held: held})
	shown.Counters, err = a.store.Counters(of.ID)
	return shown, err
}

// changeAccount answers, where it disables an account, when all nodes refuse its keys, or
// names those that did not say so in time.
func (a *API) changeAccount(c call, change AccountChange) (shown Account, err error) {
	changed, err := a.applyChange(c, change)
	if err != nil {
		return shown, err
	}
	var unaware []string
	if change.Disabled != nil && *change.Disabled {
		if unaware, err = a.spread(c.ctx, changed.ID); err != nil {
			return shown, err
		}
	}
	shown, err = a.withMoney(changed)
	shown.UnawareNodes = unaware
	return shown, err
}

func (a *API) applyChange(c call, change AccountChange) (changed account.Account, err error) {
	if changed, err = a.store.Account(c.target); err != nil {
		return changed, err
	}
	c.about.account = changed.ID
	if changed, err = a.store.UpdateAccount(changed.ID, change.apply); err != nil {
		return changed, err
	}
	a.node.Changed(changed.ID)
	return changed, nil
}

func (c AccountChange) apply(to *account.Account) {
	assign(&to.Name, c.Name)
	assign(&to.Concurrency, c.Concurrency)
	assign(&to.TokensPerMinute, c.TokensPerMinute)
	assign(&to.Models, c.Models)
	assign(&to.Unlimited, c.Unlimited)
	assign(&to.Disabled, c.Disabled)
}

func assign[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (a *API) topUp(c call, asked TopUp) (shown Account, err error) {
	amount, err := asked.Amount.nano("amount")
	if err == nil && amount == 0 {
		err = invalid(errors.New("amount is missing or zero"))
	}
	if err != nil {
		return shown, err
	}
	target, err := a.store.Account(c.target)
	if err != nil {
		return shown, err
	}
	c.about.account = target.ID
	if _, err := a.store.TopUp(target.ID, amount, asked.Note, asked.IdempotencyKey); err != nil {
		return shown, err
	}
	a.node.Changed(target.ID)
	return a.withMoney(target)
}

// ledger returns a page of all rows of all accounts, holds and checkpoints included. Ask
// again with after set to the last id until the page is empty.
func (a *API) ledger(c call) (shown list[Entry], err error) {
	query, err := ledgerQuery(c.query)
	if err != nil {
		return shown, err
	}
	entries, err := a.store.Entries(query)
	if err != nil {
		return shown, err
	}
	return listOf(entries, showEntry), nil
}

// refund takes back all that a request was charged, once.
func (a *API) refund(c call, asked Refund) (shown Refunded, err error) {
	e, err := a.store.Settlement(c.target)
	if err != nil {
		return shown, err
	}
	c.about.account = e.AccountID
	e, done, err := a.store.Refund(e, asked.Note)
	if err != nil {
		return shown, err
	}
	a.node.Changed(e.AccountID)
	return Refunded{showEntry(e), done}, nil
}

// verify proves the ledger beside the running node, while its caller is there. It reads all of it, and so one call does at a time.
func (a *API) verify(c call) (store.Verification, error) {
	if !a.proving.TryLock() {
		return store.Verification{}, &Error{Kind: KindConflict, Message: "another call proves the ledger now; ask again when it has ended"}
	}
	defer a.proving.Unlock()
	return a.store.VerifyWithin(c.ctx)
}

// backup writes a copy of the database, and of the modules, to a file on the node's own machine. Each copy looks for room before it is
// made, and so one call makes one at a time.
func (a *API) backup(c call, asked Backup) (shown BackedUp, err error) {
	if !filepath.IsAbs(asked.Path) {
		return shown, invalid(fmt.Errorf("path is %q, want an absolute path on the node's machine", asked.Path))
	}
	if !a.copying.TryLock() {
		return shown, &Error{Kind: KindConflict, Message: "another call makes a backup now; ask again when it has ended"}
	}
	defer a.copying.Unlock()
	missing, err := a.store.Backup(asked.Path)
	return BackedUp{Path: asked.Path, ModulesMissing: missing}, err
}
