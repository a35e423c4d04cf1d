package server

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
)

// directoryOf loads a directory.
func directoryOf(accounts []account.Account, keys []account.Key) *directory {
	d := newDirectory()
	err := d.Load(func(onAccount func(account.Account) error, onKey func(account.Key) error) error {
		for _, a := range accounts {
			if err := onAccount(a); err != nil {
				return err
			}
		}
		for _, k := range keys {
			if err := onKey(k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return d
}

// keyOf makes a key whose secret is its id.
func keyOf(owner, id string) account.Key {
	return account.Key{ID: id, AccountID: owner, Hash: sha256.Sum256([]byte(id))}
}

// used is what the next Flush writes.
func used(t *testing.T, d *directory) map[string]time.Time {
	t.Helper()
	all := map[string]time.Time{}
	err := d.Flush(func(used map[string]time.Time) error {
		for id, at := range used {
			if at.After(all[id]) { // a key may come more than once; the latest counts
				all[id] = at
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDirectoryKnowsWhatIsValid(t *testing.T) {
	now := time.Now()
	if _, ok := newDirectory().Lookup([]byte(goodKey), now); ok {
		t.Error("an empty directory knows a key")
	}
	d := testKeys()
	who, ok := d.Lookup([]byte(goodKey), now)
	if !ok || who.KeyID != "key_good" || who.Account.ID != "acct_good" {
		t.Fatalf("the good key is %+v", who)
	}
	for _, secret := range []string{"", "sk-revoked", "sk-expired", "sk-disabled", "sk-orphan", goodKey + "x"} {
		if who, ok := d.Lookup([]byte(secret), now); ok {
			t.Errorf("%q is %+v", secret, who)
		}
	}
	broken := errors.New("broken")
	err := d.Load(func(func(account.Account) error, func(account.Key) error) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("a scan that fails: %v", err)
	}
}

func TestKeyExpiresByTheClock(t *testing.T) {
	at := time.Unix(5000, 1)
	k := keyOf("a", "s")
	k.Expires = at
	d := directoryOf([]account.Account{{ID: "a"}}, []account.Key{k})
	if _, ok := d.Lookup([]byte("s"), at.Add(-1)); !ok {
		t.Error("expired too early")
	}
	if _, ok := d.Lookup([]byte("s"), at); ok {
		t.Error("works when it has expired")
	}
}

// TestDirectoryAgainstMap changes accounts and single keys at random, and holds every lookup to
// a plain map of what was set last.
func TestDirectoryAgainstMap(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	const accounts, keysMax = 300, 8
	set := func(i int) (account.Account, []account.Key) {
		a := account.Account{ID: fmt.Sprint("acct_", i), Concurrency: rnd.IntN(1000), Disabled: rnd.IntN(8) == 0}
		var keys []account.Key
		for j := range keysMax {
			k := keyOf(a.ID, fmt.Sprint("key_", i, "_", j))
			switch rnd.IntN(4) {
			case 0:
				continue
			case 1:
				k.Revoked = time.Unix(1, 0)
			}
			keys = append(keys, k)
		}
		return a, keys
	}
	var owners []account.Account
	var all []account.Key
	want := map[string]int{} // by secret: the concurrency of its account
	expect := func(a account.Account, keys []account.Key) {
		for j := range keysMax {
			delete(want, fmt.Sprint("key_", a.ID[len("acct_"):], "_", j))
		}
		for _, k := range keys {
			if !a.Disabled && k.Revoked.IsZero() {
				want[k.ID] = a.Concurrency
			}
		}
	}
	for i := range accounts {
		a, keys := set(i)
		owners, all = append(owners, a), append(all, keys...)
		expect(a, keys)
	}
	d := directoryOf(owners, all)
	for round := range 400 {
		a, keys := set(rnd.IntN(accounts + 50)) // some are new
		d.Set(a, keys)
		expect(a, keys)
		setSingly(rnd, d, a, keys, want)
		if round%50 != 0 {
			continue
		}
		found := 0
		for i := range accounts + 50 {
			for j := range keysMax {
				secret := fmt.Sprint("key_", i, "_", j)
				who, ok := d.Lookup([]byte(secret), time.Now())
				concurrency, valid := want[secret]
				if ok != valid || ok && (who.Account.Concurrency != concurrency || who.KeyID != secret) {
					t.Fatalf("round %d: %s is %v %+v, want %v %d", round, secret, ok, who, valid, concurrency)
				}
				if ok {
					found++
				}
			}
		}
		if found < accounts {
			t.Fatalf("only %d keys are valid: the test proves little", found)
		}
	}
}

// setSingly changes keys of an account one by one: some end, some begin, some stay.
func setSingly(rnd *rand.Rand, d *directory, a account.Account, keys []account.Key, want map[string]int) {
	for _, k := range keys {
		if k.Revoked = (time.Time{}); rnd.IntN(2) == 0 {
			k.Revoked = time.Unix(1, 0)
		}
		if !d.SetKey(k) {
			continue // the directory has none of the account
		}
		if delete(want, k.ID); k.Revoked.IsZero() {
			want[k.ID] = a.Concurrency
		}
	}
}

// TestValidKeyIsNeverMissing looks keys up while their account and those beside
// them change all the time.
func TestValidKeyIsNeverMissing(t *testing.T) {
	const neighbors = 50
	var owners []account.Account
	var keys []account.Key
	for i := range neighbors {
		owners = append(owners, account.Account{ID: fmt.Sprint(i)})
		keys = append(keys, keyOf(fmt.Sprint(i), fmt.Sprint("n", i)))
	}
	stays := []account.Key{keyOf("0", "stays"), keyOf("0", "also")}
	d := directoryOf(owners, append(keys, stays...))
	stop := make(chan struct{})
	var changing sync.WaitGroup
	for worker := range 2 {
		changing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if worker == 0 {
					fresh := keyOf("0", fmt.Sprint("new", i))
					d.Set(account.Account{ID: "0", Concurrency: i}, append(stays, fresh))
					d.SetKey(stays[i%len(stays)])
					fresh.Revoked = time.Unix(1, 0)
					d.SetKey(fresh)
				} else {
					n := 1 + i%(neighbors-1)
					d.Set(account.Account{ID: fmt.Sprint(n), Disabled: i%3 == 0}, []account.Key{keyOf(fmt.Sprint(n), fmt.Sprint("n", n))})
				}
			}
		})
	}
	for i := range 20_000 {
		for _, k := range stays {
			if _, ok := d.Lookup([]byte(k.ID), time.Unix(int64(i), 0)); !ok {
				t.Errorf("lookup %d misses the key %s", i, k.ID)
			}
		}
		if i%1000 == 0 {
			_ = d.Flush(func(map[string]time.Time) error { return errors.New("refused") })
		}
	}
	close(stop)
	changing.Wait()
	if last := used(t, d); len(last) != 2 || last["stays"].Unix() != 19_999 {
		t.Errorf("last used %v", last)
	}
}

// TestFlush follows the last use of keys: nothing twice, nothing lost when the
// store refuses, and some hundred rows at a time.
func TestFlush(t *testing.T) {
	const count = 2*flushChunk + 10
	owner := account.Account{ID: "a"}
	var keys []account.Key
	for i := range count {
		keys = append(keys, keyOf("a", fmt.Sprint("k", i)))
	}
	d := directoryOf([]account.Account{owner}, keys)
	if first := used(t, d); len(first) != 0 {
		t.Errorf("nobody came, and %v were used", first)
	}
	for second := range int64(3) {
		for _, k := range keys[:count-1] {
			d.Lookup([]byte(k.ID), time.Unix(1000+second, 500))
		}
	}
	chunks := 0
	err := d.Flush(func(used map[string]time.Time) error {
		if chunks++; chunks == 2 {
			return errors.New("the store is gone")
		}
		if len(used) != flushChunk {
			t.Errorf("%d keys at once", len(used))
		}
		d.Lookup([]byte("k0"), time.Unix(2000, 0)) // meanwhile
		return nil
	})
	if err == nil || chunks != 2 {
		t.Fatalf("%d chunks, %v", chunks, err)
	}
	d.Set(owner, keys) // new entries for the same keys
	d.Lookup([]byte("k1"), time.Unix(3000, 0))
	rest := used(t, d)
	if len(rest) < count-1-flushChunk || len(rest) > count-1-flushChunk+2 || rest["k0"].Unix() != 2000 || rest["k1"].Unix() != 3000 {
		t.Errorf("%d keys are left after a chunk was written: k0 %v, k1 %v", len(rest), rest["k0"], rest["k1"])
	}
	if again := used(t, d); len(again) != 0 {
		t.Errorf("%d keys are written twice", len(again))
	}
}

// manyKeys is a directory of so many accounts with three keys each.
func manyKeys(accounts int) (*directory, []string) {
	owners, secrets := make([]account.Account, accounts), make([]string, 0, 3*accounts)
	keys := make([]account.Key, 0, 3*accounts)
	for i := range owners {
		owners[i] = account.Account{ID: fmt.Sprintf("acct_%020x", i), Name: fmt.Sprintf("customer-%d", i)}
		for j := range 3 {
			id := fmt.Sprintf("key_%020x", 3*i+j)
			keys, secrets = append(keys, keyOf(owners[i].ID, id)), append(secrets, id)
		}
	}
	return directoryOf(owners, keys), secrets
}

func TestLookupAllocatesNothing(t *testing.T) {
	d, secrets := manyKeys(1000)
	i, now := 0, time.Now()
	allocs := testing.AllocsPerRun(5000, func() {
		i++
		if _, ok := d.Lookup([]byte(secrets[i%len(secrets)]), now.Add(time.Duration(i)*time.Second)); !ok {
			t.Fatal("a key is missing")
		}
		_, _ = d.Lookup([]byte("sk-stranger"), now)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// BenchmarkLookup is one of 300,000 keys, from all processors at once.
func BenchmarkLookup(b *testing.B) {
	d, secrets := manyKeys(100_000)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		now := time.Now()
		for i := rand.IntN(len(secrets)); p.Next(); i++ {
			if _, ok := d.Lookup([]byte(secrets[i%len(secrets)]), now); !ok {
				b.Error("a key is missing")
			}
		}
	})
}

// BenchmarkSet is the change of one account of 100,000.
func BenchmarkSet(b *testing.B) {
	d, _ := manyKeys(100_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		id := fmt.Sprintf("acct_%020x", i%100_000)
		d.Set(account.Account{ID: id}, []account.Key{keyOf(id, "x"+id), keyOf(id, "y"+id), keyOf(id, "z"+id)})
	}
}
