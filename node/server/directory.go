package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"corenode/actors/account"
)

// shardCount is how many tables the keys are spread over. A change of an account
// copies the tables that its keys are in: at 400,000 keys some 100 pointers each.
const shardCount = 4096

// flushChunk is the most keys whose last use is written at once: whoever else
// waits for the store waits for so many rows.
const flushChunk = 256

// directory finds the key and the account that a secret acts for, by the SHA-256
// of the secret. It holds the keys that may be valid: not revoked, of an account
// that is not disabled. What it holds does not depend on the store's health:
// trouble there is never a 401.
//
// Lookup takes no lock and allocates nothing. Keys are in shards, each an
// immutable table behind a pointer; Set makes new tables and swaps them in, so a
// key that is valid before and after a change is found all the while.
type directory struct {
	shards [shardCount]atomic.Pointer[table]
	// seen heads the keys that were used since the last Flush, linked by next.
	seen atomic.Pointer[keyEntry]

	mu sync.Mutex
	// accounts heads the keys of each account that are in the shards, linked by
	// sibling. Guarded by mu.
	accounts map[string]*keyEntry
}

// keyEntry is one key. What Lookup reads is immutable.
type keyEntry struct {
	Identity
	hash    [sha256.Size]byte
	expires int64     // Unix nanoseconds, 0 = never
	sibling *keyEntry // another key of the account; Guarded by directory.mu

	// used is the Unix second of the last use that no Flush has taken, 0 = none.
	// Invariant: it is not 0 exactly while the entry is in the list of seen ones
	// or in the hands of the one goroutine that puts it there or takes it out.
	used atomic.Int64
	next *keyEntry // in the list of seen ones; owned like used
}

// table is an open-addressed hash table, at most three quarters full. It is immutable.
type table struct {
	slots []*keyEntry // a power of two of them
	keys  int
}

// newDirectory returns a directory that knows no key.
func newDirectory() *directory { return &directory{accounts: map[string]*keyEntry{}} }

// Load fills the directory, in place of what it has. scan gives it all accounts and then all keys;
// those that can never be valid again are left out. With an error all is as before.
func (d *directory) Load(scan func(func(account.Account) error, func(account.Key) error) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	owners, accounts := map[string]*account.Account{}, map[string]*keyEntry{}
	var members [shardCount][]*keyEntry
	err := scan(func(a account.Account) error {
		if !a.Disabled {
			owners[a.ID] = &a
		}
		return nil
	}, func(k account.Key) error {
		owner := owners[k.AccountID]
		if owner == nil || !k.Revoked.IsZero() {
			return nil
		}
		e := newEntry(owner, k)
		e.sibling, accounts[owner.ID] = accounts[owner.ID], e
		members[shardOf(&e.hash)] = append(members[shardOf(&e.hash)], e)
		return nil
	})
	if err != nil {
		return err
	}
	d.accounts = accounts
	for i, entries := range members {
		d.shards[i].Store(newTable(entries))
	}
	return nil
}

// Set makes keys all that an account has; requests that are checked when it
// returns see that. A disabled account has none.
func (d *directory) Set(a account.Account, keys []account.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.accounts[a.ID]
	var first *keyEntry
	for _, k := range keys {
		if !a.Disabled && k.Revoked.IsZero() && k.AccountID == a.ID {
			e := newEntry(&a, k)
			first, e.sibling = e, first
		}
	}
	if first == nil {
		delete(d.accounts, a.ID)
	} else {
		d.accounts[a.ID] = first
	}
	gone := func(e *keyEntry) bool { return old != nil && e.Account == old.Account }
	for _, shard := range touched(old, first) {
		d.rebuild(shard, gone, first)
	}
}

// SetKey makes one key of an account what it is, and leaves the others as they are. It says false, and does nothing, where the
// directory has no key of the account: it does not know that one.
func (d *directory) SetKey(k account.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := d.accounts[k.AccountID]
	if first == nil {
		return false
	}
	var fresh *keyEntry
	if k.Revoked.IsZero() {
		fresh = newEntry(first.Account, k)
	}
	d.rebuild(shardOf(&k.Hash), func(e *keyEntry) bool { return e.KeyID == k.ID }, fresh)
	for link := &first; *link != nil; link = &(*link).sibling {
		if (*link).KeyID == k.ID {
			*link = (*link).sibling
			break
		}
	}
	if fresh != nil {
		fresh.sibling, first = first, fresh
	}
	if d.accounts[k.AccountID] = first; first == nil {
		delete(d.accounts, k.AccountID)
	}
	return true
}

// touched returns the shards that the keys of both lists are in.
func touched(lists ...*keyEntry) (shards []int) {
	for _, e := range lists {
		for ; e != nil; e = e.sibling {
			shards = append(shards, shardOf(&e.hash))
		}
	}
	slices.Sort(shards)
	return slices.Compact(shards)
}

// rebuild replaces keys in a shard that are gone by fresh ones, in one
// swap: a key that stays is never missing. The caller holds mu.
func (d *directory) rebuild(shard int, gone func(*keyEntry) bool, fresh *keyEntry) {
	var entries []*keyEntry
	if t := d.shards[shard].Load(); t != nil {
		entries = make([]*keyEntry, 0, t.keys+1)
		for _, e := range t.slots {
			if e != nil && !gone(e) {
				entries = append(entries, e)
			}
		}
	}
	for e := fresh; e != nil; e = e.sibling {
		if shardOf(&e.hash) == shard {
			entries = append(entries, e)
		}
	}
	d.shards[shard].Store(newTable(entries))
}

func newEntry(owner *account.Account, k account.Key) *keyEntry {
	e := &keyEntry{Identity: Identity{KeyID: k.ID, Account: owner}, hash: k.Hash}
	if l := k.KeyLimits; len(l.Models) > 0 || l.TokensPerMinute > 0 || l.Budget > 0 {
		e.Limits = &l
	}
	if !k.Expires.IsZero() {
		e.expires = k.Expires.UnixNano()
	}
	return e
}

func newTable(entries []*keyEntry) *table {
	size := 1
	for size*3 < len(entries)*4 || size == len(entries) { // one slot is empty: a search ends there
		size *= 2
	}
	t := &table{slots: make([]*keyEntry, size), keys: len(entries)}
	for _, e := range entries {
		i := t.home(&e.hash)
		for t.slots[i] != nil {
			i = (i + 1) & (size - 1)
		}
		t.slots[i] = e
	}
	return t
}

// The shard and the place in it come from different bytes of the hash.
func shardOf(hash *[sha256.Size]byte) int {
	return int(binary.LittleEndian.Uint64(hash[:8]) % shardCount)
}

func (t *table) home(hash *[sha256.Size]byte) int {
	return int(binary.LittleEndian.Uint64(hash[8:16]) & uint64(len(t.slots)-1))
}

// find returns the key with a hash. Where a search begins comes from the hash,
// which an attacker cannot steer; the comparison that decides takes the same
// time for every secret.
func (t *table) find(hash *[sha256.Size]byte) *keyEntry {
	for i := t.home(hash); t.slots[i] != nil; i = (i + 1) & (len(t.slots) - 1) {
		if e := t.slots[i]; subtle.ConstantTimeCompare(hash[:], e.hash[:]) == 1 {
			return e
		}
	}
	return nil
}

// Lookup finds the key that a secret is, unless it has expired by now, and
// remembers that it was used.
func (d *directory) Lookup(secret []byte, now time.Time) (*Identity, bool) {
	hash := sha256.Sum256(secret)
	t := d.shards[shardOf(&hash)].Load()
	if t == nil {
		return nil, false
	}
	e := t.find(&hash)
	if e == nil || e.expires != 0 && now.UnixNano() >= e.expires {
		return nil, false
	}
	if second := now.Unix(); e.used.Load() != second && e.used.Swap(second) == 0 {
		d.see(e)
	}
	return &e.Identity, true
}

// see puts an entry into the list of seen ones. The caller owns it.
func (d *directory) see(e *keyEntry) {
	for {
		e.next = d.seen.Load()
		if d.seen.CompareAndSwap(e.next, e) {
			return
		}
	}
}

// Flush hands to write when keys were last used, by key id, for those used since
// the last Flush: at most flushChunk of them a call. A key whose account was
// changed may come more than once, in any order: the latest use counts. Those
// that write refuses are kept for the next Flush.
func (d *directory) Flush(write func(used map[string]time.Time) error) error {
	chunk := make([]*keyEntry, 0, flushChunk)
	e := d.seen.Swap(nil)
	for e != nil {
		chunk = chunk[:0]
		for ; e != nil && len(chunk) < flushChunk; e = e.next {
			chunk = append(chunk, e)
		}
		if err := d.flush(chunk, write); err != nil {
			for e != nil {
				next := e.next
				d.see(e)
				e = next
			}
			return err
		}
	}
	return nil
}

// flush writes the last use of entries that the caller owns.
func (d *directory) flush(chunk []*keyEntry, write func(map[string]time.Time) error) error {
	used := make(map[string]time.Time, len(chunk))
	seconds := make([]int64, len(chunk))
	for i, e := range chunk {
		seconds[i] = e.used.Swap(0) // from here on a Lookup may own it again
		if at := time.Unix(seconds[i], 0); at.After(used[e.KeyID]) {
			used[e.KeyID] = at // a changed account has a second entry for the same key
		}
	}
	err := write(used)
	if err != nil {
		for i, e := range chunk {
			if e.used.CompareAndSwap(0, seconds[i]) {
				d.see(e)
			}
		}
	}
	return err
}
