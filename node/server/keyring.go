package server

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
)

// touchEvery is how coarse the last use of a key is known.
const touchEvery = time.Minute

// behindMin and behindMax bound the wait before a change that the store did not
// let us read is read again: it doubles from one to the other.
const behindMin, behindMax = 50 * time.Millisecond, time.Second

// keyStore is what a Keyring needs of the store.
type keyStore interface {
	Scan(func(account.Account) error, func(account.Key) error) error
	AccountKeys(id string) (account.Account, []account.Key, error)
	Key(id string) (account.Key, error)
	TouchKeys(used map[string]time.Time) error
}

// Keyring keeps the directory that authenticates requests what the store says:
// all of it once, at the start, then one account or key at a time. While the store
// cannot be read the directory stays as it is, and what changed meanwhile is
// read again and again until it is seen.
type Keyring struct {
	store     keyStore
	directory *directory
	log       *slog.Logger

	mu     sync.Mutex          // one read at a time, so that the last one is the newest
	behind map[string]struct{} // accounts whose change was not read. Guarded by mu. Bounded by the accounts.
	wake   chan struct{}       // has room for one: there is something in behind
}

// OpenKeyring reads all accounts and keys.
func OpenKeyring(s keyStore, log *slog.Logger) (*Keyring, error) {
	k := &Keyring{store: s, directory: newDirectory(), log: log, behind: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	// What the scan leaves behind is collected as it goes: the peak of the heap
	// is what the node's memory looks like from outside.
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	if err := k.directory.Load(s.Scan); err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	return k, nil
}

// Lookup implements KeySource.
func (k *Keyring) Lookup(secret []byte, now time.Time) (*Identity, bool) {
	return k.directory.Lookup(secret, now)
}

// Changed reads an account and its keys anew. Requests that start when it
// returns see them, unless the store fails: then they do soon.
func (k *Keyring) Changed(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ensure(id, k.read(id))
}

// KeyChanged is Changed for one key of an account, which is all that it reads of one whose keys it knows.
func (k *Keyring) KeyChanged(accountID, keyID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, err := k.store.Key(keyID)
	if err == nil && !k.directory.SetKey(key) {
		err = k.read(accountID)
	}
	k.ensure(accountID, err)
}

// ensure sees to it that an account which could not be read is read again. The caller holds mu.
func (k *Keyring) ensure(id string, err error) {
	if err == nil {
		return
	}
	k.log.Error("a change of an account is not in effect yet; it is read again until it is", "account", id, "error", err.Error())
	k.behind[id] = struct{}{}
	select {
	case k.wake <- struct{}{}:
	default: // it is awake
	}
}

// read brings one account from the store to the directory. The caller holds mu.
func (k *Keyring) read(id string) error {
	a, keys, err := k.store.AccountKeys(id)
	if errors.Is(err, store.ErrNotFound) {
		a, err = account.Account{ID: id}, nil // it is gone, and its keys with it
	}
	if err != nil {
		return err
	}
	k.directory.Set(a, keys)
	delete(k.behind, id)
	return nil
}

// Follow reads accounts anew that other nodes changed; nil is all of them.
func (k *Keyring) Follow(ids []string) error {
	if ids == nil {
		return k.Reload(func(...string) {})
	}
	for _, id := range ids {
		k.mu.Lock() // one by one: Changed waits for one read at most
		err := k.read(id)
		k.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// Reload reads all accounts and keys anew, and calls read with all accounts then.
func (k *Keyring) Reload(read func(ids ...string)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []string
	err := k.directory.Load(func(onAccount func(account.Account) error, onKey func(account.Key) error) error {
		return k.store.Scan(func(a account.Account) error {
			ids = append(ids, a.ID)
			return onAccount(a)
		}, onKey)
	})
	if err != nil {
		return fmt.Errorf("read accounts: %w", err)
	}
	clear(k.behind)
	read(ids...)
	return nil
}

// Run does what happens in the background until stopped is closed.
func (k *Keyring) Run(stopped <-chan struct{}) {
	var both sync.WaitGroup
	both.Go(func() { k.touchKeys(stopped) })
	both.Go(func() { k.catchUp(stopped) })
	both.Wait()
}

// catchUp reads the accounts that are behind until none is.
func (k *Keyring) catchUp(stopped <-chan struct{}) {
	for {
		select {
		case <-stopped:
			return
		case <-k.wake:
		}
		if k.caughtUp() { // a second change woke it for what it has read since
			continue
		}
		for wait := behindMin; ; wait = min(2*wait, behindMax) {
			select {
			case <-stopped:
				return
			case <-time.After(wait):
			}
			if k.readBehind() {
				k.log.Info("accounts and keys are as in the store again")
				break
			}
		}
	}
}

// readBehind reads the accounts that are behind, until one fails, and says
// whether none is left.
func (k *Keyring) readBehind() bool {
	k.mu.Lock()
	ids := slices.Collect(maps.Keys(k.behind))
	k.mu.Unlock()
	for _, id := range ids {
		k.mu.Lock() // one by one: Changed waits for one read at most
		err := k.read(id)
		k.mu.Unlock()
		if err != nil {
			return false
		}
	}
	return k.caughtUp()
}

// caughtUp says whether no account is behind.
func (k *Keyring) caughtUp() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.behind) == 0
}

// touchKeys keeps the last use of keys on disk.
func (k *Keyring) touchKeys(stopped <-chan struct{}) {
	tick := time.NewTicker(touchEvery)
	defer tick.Stop()
	for {
		select {
		case <-stopped:
			return
		case <-tick.C:
			if err := k.Flush(); err != nil {
				k.log.Warn("write the last use of keys; it is kept and written later", "error", err.Error())
			}
		}
	}
}

// Flush writes down when keys were last used.
func (k *Keyring) Flush() error { return k.directory.Flush(k.store.TouchKeys) }
