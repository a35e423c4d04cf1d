package server

import (
	"crypto/sha256"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/sqlite"
	"corenode/node/store/sqlite/sqlitetest"
)

// frailStore is a store that fails while it is told to.
type frailStore struct {
	mu      sync.Mutex
	down    bool // Guarded by mu, like the rest.
	account account.Account
	keys    []account.Key
	touched map[string]time.Time
	reads   int
}

var errDown = errors.New("the disk is gone")

func (f *frailStore) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *frailStore) Scan(onAccount func(account.Account) error, onKey func(account.Key) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return errDown
	}
	err := onAccount(f.account)
	for _, k := range f.keys {
		err = errors.Join(err, onKey(k))
	}
	return err
}

func (f *frailStore) AccountKeys(id string) (account.Account, []account.Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	switch {
	case f.down:
		return account.Account{}, nil, errDown
	case id != f.account.ID:
		return account.Account{}, nil, store.ErrNotFound
	}
	return f.account, f.keys, nil
}

func (f *frailStore) Key(id string) (account.Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return account.Key{}, errDown
	}
	for _, k := range f.keys {
		if k.ID == id {
			return k, nil
		}
	}
	return account.Key{}, store.ErrNotFound
}

func (f *frailStore) TouchKeys(used map[string]time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return errDown
	}
	maps.Copy(f.touched, used)
	return nil
}

// TestFailingStoreAtAChange: what was valid stays so while the store is down, a
// change is seen soon after it is back, and the last use of keys is not lost.
func TestFailingStoreAtAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := keyOfA
		f := &frailStore{account: account.Account{ID: "acct_a"}, keys: []account.Key{d(0), d(1)}, touched: map[string]time.Time{}}
		var log strings.Builder
		k, err := OpenKeyring(f, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		stopped, ended := make(chan struct{}), make(chan struct{})
		go func() { defer close(ended); k.Run(stopped) }()
		valid := func(i int) bool {
			_, ok := k.Lookup([]byte(sqlitetest.Secret(0, i)), time.Now())
			return ok
		}
		f.set(func() { f.down, f.keys[1].Revoked = true, time.Now() })
		first := time.Now()
		for range 3 { // several changes of one outage
			k.Changed("acct_a")
		}
		for range 70 {
			time.Sleep(time.Second)
			if !valid(0) {
				t.Fatal("a valid key is refused because the store is down")
			}
		}
		f.set(func() {
			if f.reads < 70 || f.reads > 90 {
				t.Errorf("%d reads in 70 s", f.reads)
			}
			f.down = false
		})
		for range 2 * behindMax / (10 * time.Millisecond) {
			time.Sleep(10 * time.Millisecond)
			if !valid(1) {
				break
			}
		}
		if valid(1) || !valid(0) {
			t.Errorf("after the outage: %v %v, want the first key only", valid(0), valid(1))
		}
		time.Sleep(touchEvery)
		f.set(func() {
			if at := f.touched[d(0).ID]; !at.After(first) {
				t.Errorf("last used %v", f.touched)
			}
			f.reads = 0
		})
		time.Sleep(time.Hour)
		k.Changed("acct_gone")
		f.set(func() {
			if f.reads != 1 {
				t.Errorf("%d reads when nothing is behind", f.reads)
			}
		})
		close(stopped)
		<-ended
		if text := log.String(); strings.Count(text, "not in effect yet") != 3 || strings.Count(text, "as in the store again") != 1 {
			t.Errorf("log:\n%s", text)
		}
	})
}

// TestChangeOfOneKey: of an account whose keys are known, a change of one key reads that one and leaves the others as they are. The first
// key of an account is read with it, and so is all where the store could not be read.
func TestChangeOfOneKey(t *testing.T) {
	f := &frailStore{account: account.Account{ID: "acct_a"}, touched: map[string]time.Time{}}
	k, err := OpenKeyring(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	set := func(i int, change func(*account.Key), reads int) {
		t.Helper()
		change(&f.keys[i])
		f.reads = 0
		if k.KeyChanged("acct_a", f.keys[i].ID); f.reads != reads {
			t.Errorf("the account and its keys were read %d times for key %d, want %d", f.reads, i, reads)
		}
	}
	f.keys = []account.Key{keyOfA(0)}
	set(0, func(*account.Key) {}, 1)
	first, ok := k.Lookup([]byte(sqlitetest.Secret(0, 0)), time.Now())
	if !ok {
		t.Fatal("the first key is refused")
	}
	f.keys = append(f.keys, keyOfA(1), keyOfA(2))
	set(1, func(*account.Key) {}, 0)
	set(1, func(k *account.Key) { k.Budget = 7 }, 0)
	set(2, func(*account.Key) {}, 0)
	set(2, func(k *account.Key) { k.Revoked = time.Now() }, 0)
	second, ok := k.Lookup([]byte(sqlitetest.Secret(0, 1)), time.Now())
	if !ok || second.Limits == nil || second.Limits.Budget != 7 || second.Account != first.Account {
		t.Errorf("a changed key is %+v, %v", second, ok)
	}
	if _, ok := k.Lookup([]byte(sqlitetest.Secret(0, 2)), time.Now()); ok {
		t.Error("a revoked key is valid")
	}
	if same, _ := k.Lookup([]byte(sqlitetest.Secret(0, 0)), time.Now()); same != first {
		t.Error("a key beside one that changed was made anew")
	}
	f.down = true
	k.KeyChanged("acct_a", f.keys[1].ID)
	if _, behind := k.behind["acct_a"]; !behind {
		t.Error("a change that was not read is forgotten")
	}
}

// keyOfA is key i of account 0, as of an account acct_a.
func keyOfA(i int) account.Key {
	return account.Key{ID: sqlitetest.KeyID(0, i), AccountID: "acct_a", Hash: sha256.Sum256([]byte(sqlitetest.Secret(0, i)))}
}

// TestChangesAmongMany takes every verb that ends or makes a key through a store
// of many accounts: each reads one of them.
func TestChangesAmongMany(t *testing.T) {
	const accounts, keysEach = 1500, 3
	dir := t.TempDir()
	if err := sqlitetest.Fill(dir, accounts, keysEach); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	k, err := OpenKeyring(s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	valid := func(secret string) bool {
		_, ok := k.Lookup([]byte(secret), time.Now())
		return ok
	}
	for a := range accounts {
		for i := range keysEach {
			if !valid(sqlitetest.Secret(a, i)) {
				t.Fatalf("key %d of account %d is unknown", i, a)
			}
		}
	}
	revoked, err := s.RevokeKey(sqlitetest.KeyID(7, 1))
	if err != nil {
		t.Fatal(err)
	}
	k.KeyChanged(revoked.AccountID, revoked.ID)
	if valid(sqlitetest.Secret(7, 1)) || !valid(sqlitetest.Secret(7, 0)) || !valid(sqlitetest.Secret(7, 2)) {
		t.Error("a revoked key, and only it, must be refused")
	}
	a, err := s.Account(sqlitetest.AccountName(9))
	if err != nil {
		t.Fatal(err)
	}
	for _, disabled := range []bool{true, false} {
		if _, err := s.UpdateAccount(a.ID, func(a *account.Account) { a.Disabled = disabled }); err != nil {
			t.Fatal(err)
		}
		k.Changed(a.ID)
		if valid(sqlitetest.Secret(9, 0)) == disabled {
			t.Errorf("a key of an account that is disabled = %v", disabled)
		}
	}
	if made, secret, err := s.CreateKey(a.ID, account.KeyLimits{}, time.Time{}); err != nil || valid(secret) {
		t.Errorf("%v", err)
	} else if k.KeyChanged(a.ID, made.ID); !valid(secret) {
		t.Error("a new key is refused")
	}
	if err := k.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, accounts - 1} {
		_, keys, err := s.AccountKeys(sqlitetest.AccountID(i))
		if err != nil || len(keys) != keysEach || time.Since(keys[0].LastUsed) > time.Hour {
			t.Errorf("account %d: %+v, %v", i, keys, err)
		}
	}
}

// BenchmarkOpenKeyring reads 100,000 accounts with three keys each. heap-MB is
// what stays on the heap.
func BenchmarkOpenKeyring(b *testing.B) {
	s := manyAccounts(b)
	for b.Loop() {
		before := heapBytes()
		k, err := OpenKeyring(s, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(heapBytes()-before)/1e6, "heap-MB")
		runtime.KeepAlive(k)
	}
}

// BenchmarkRevoke revokes one key of 300,000: in the store, and until the next
// request is refused. commit-ms is the store's part.
func BenchmarkRevoke(b *testing.B) {
	s := manyAccounts(b)
	k, err := OpenKeyring(s, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	i, commit := 0, time.Duration(0)
	for b.Loop() {
		from := time.Now()
		revoked, err := s.RevokeKey(sqlitetest.KeyID(i, 0))
		commit += time.Since(from)
		if err != nil {
			b.Fatal(err)
		}
		k.Changed(revoked.AccountID)
		if _, ok := k.Lookup([]byte(sqlitetest.Secret(i, 0)), time.Now()); ok {
			b.Fatal("a revoked key is valid")
		}
		i = (i + 1) % benchAccounts
	}
	b.ReportMetric(float64(commit.Microseconds())/1e3/float64(b.N), "commit-ms")
}

const benchAccounts = 100_000

// manyAccounts is the store of a benchmark.
func manyAccounts(b *testing.B) *sqlite.Store {
	dir := b.TempDir()
	if err := sqlitetest.Fill(dir, benchAccounts, 3); err != nil {
		b.Fatal(err)
	}
	s, err := sqlite.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
