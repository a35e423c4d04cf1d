package storetest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// MustCreate makes an account.
func MustCreate(t testing.TB, s store.Store, name string, initial abi.Nano) account.Account {
	t.Helper()
	a, err := s.CreateAccount(account.Account{Name: name}, initial)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// WantBalance holds the balance and what is held to what is wanted.
func WantBalance(t *testing.T, s store.Store, id string, balance, held abi.Nano) {
	t.Helper()
	gotBalance, gotHeld, err := s.Balance(id)
	if err != nil || gotBalance != balance || gotHeld != held {
		t.Errorf("balance of %s = %d, held %d, err %v; want %d, %d", id, gotBalance, gotHeld, err, balance, held)
	}
}

func closedStoreRefuses(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a := MustCreate(t, s, "a", 1).ID
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, _, balance := s.Balance(a)
	_, _, snapshot := scanned(s)
	_, secret := s.Secret("x")
	for i, err := range []error{balance, snapshot, secret, s.Append([]account.Entry{Hold(a, "r", 1)})} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("call %d: %v, want store.ErrClosed", i, err)
		}
	}
}

func accounts(t *testing.T, fresh maker) {
	home := fresh(t)
	s := home.Open(t)
	want, err := s.CreateAccount(account.Account{
		Name: "alice", Concurrency: 3, TokensPerMinute: 1000, Models: []string{"core-1.1", "b"},
	}, 5)
	if err != nil {
		t.Fatal(err)
	}
	WantBalance(t, s, want.ID, 5, 0)
	want.Name, want.Disabled, want.Models = "bob", true, nil
	changed, err := s.UpdateAccount(want.ID, func(a *account.Account) {
		a.Name, a.Disabled, a.Models = want.Name, want.Disabled, want.Models
		a.ID, a.Created = "acct_x", time.Time{} // which stay
	})
	if err != nil || changed.ID != want.ID || changed.Name != "bob" || !changed.Disabled || !changed.Created.Equal(want.Created) {
		t.Fatalf("%+v, %v; want %+v", changed, err, want)
	}
	s.Close()
	s = home.Open(t)
	for _, idOrName := range []string{want.ID, "bob"} {
		got, err := s.Account(idOrName)
		if err != nil || got.ID != want.ID || got.Name != "bob" || !got.Disabled || got.Concurrency != 3 ||
			got.TokensPerMinute != 1000 || got.Models != nil || !got.Created.Equal(want.Created) {
			t.Errorf("Account(%q) = %+v, %v; want %+v", idOrName, got, err, want)
		}
	}
	if _, err := s.Account("alice"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("old name: %v, want store.ErrNotFound", err)
	}
	if _, err := s.CreateAccount(account.Account{Name: "bob"}, 0); !errors.Is(err, store.ErrNameTaken) {
		t.Errorf("second bob: %v, want store.ErrNameTaken", err)
	}
	if _, err := s.UpdateAccount(want.ID, func(a *account.Account) { a.Name = "a b" }); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a bad name: %v, want store.ErrInvalid", err)
	}
	if _, err := s.UpdateAccount("acct_x", func(*account.Account) {}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("update of nobody: %v, want store.ErrNotFound", err)
	}
	all, err := s.Holders("", store.HoldersMax)
	if err != nil || len(all) != 1 {
		t.Errorf("Holders = %v, %v", all, err)
	}
}

// changesAtOnceAreNotLost: each change is made of what the one before left, however many begin at once.
func changesAtOnceAreNotLost(t *testing.T, fresh maker) {
	const writers, times = 4, 10
	s := fresh(t).Open(t)
	a := MustCreate(t, s, "a", 0)
	key, _, err := s.CreateKey(a.ID, account.KeyLimits{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range times {
				_, err := s.UpdateAccount(a.ID, func(a *account.Account) { a.Concurrency++ })
				_, keyErr := s.UpdateKey(key.ID, func(l *account.KeyLimits) { l.TokensPerMinute++ })
				if err := errors.Join(err, keyErr); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if a, err = s.Account(a.ID); err != nil || a.Concurrency != writers*times {
		t.Errorf("of the account's %d changes %d are left, %v", writers*times, a.Concurrency, err)
	}
	if key, err = s.Key(key.ID); err != nil || key.TokensPerMinute != writers*times {
		t.Errorf("of the key's %d changes %d are left, %v", writers*times, key.TokensPerMinute, err)
	}
}

func invalidAccountsAreRefusedInWhole(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	_, err := s.CreateAccount(account.Account{Name: "a b", Concurrency: -1, TokensPerMinute: -1, Models: []string{""}}, rules.AmountMax+1)
	for _, part := range []string{"name", "concurrency", "tokens per minute", "model id", "amount"} {
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not mention %s", err, part)
		}
	}
	if _, err := s.CreateAccount(account.Account{Name: "acct_1"}, 0); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a name like an id: %v", err)
	}
	if all, _ := s.Holders("", store.HoldersMax); len(all) != 0 {
		t.Errorf("refused accounts were stored: %v", all)
	}
}

// modelsThatNoNodeServes: an id that can be that of no model is refused to who gives it. A row that has one is read, and changed
// in all else.
func modelsThatNoNodeServes(t *testing.T, fresh maker) {
	s, a := emptyStore(t, fresh)
	key, _, err := s.CreateKey(a.ID, account.KeyLimits{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]string{{"a", " b"}, {"b "}, {"a,b"}, {"-b"}, {strings.Repeat("b", 129)}} {
		_, err := s.CreateAccount(account.Account{Name: "b", Models: bad}, 0)
		_, _, keyErr := s.CreateKey(a.ID, account.KeyLimits{Models: bad}, time.Time{})
		if !errors.Is(err, store.ErrInvalid) || !errors.Is(keyErr, store.ErrInvalid) {
			t.Errorf("made with %q: %v, %v", bad, err, keyErr)
		}
	}
	for _, table := range []string{"accounts", "keys"} {
		if err := s.Exec(`UPDATE ` + table + ` SET models = '["a"," b"]'`); err != nil {
			t.Fatal(err)
		}
	}
	stored := []string{"a", " b"}
	a, err = s.UpdateAccount(a.ID, func(a *account.Account) { a.Disabled = true })
	if err != nil || !a.Disabled || !slices.Equal(a.Models, stored) {
		t.Errorf("an account is changed in all else: %+v, %v", a, err)
	}
	key, err = s.UpdateKey(key.ID, func(l *account.KeyLimits) { l.Budget = 5 })
	if err != nil || key.Budget != 5 || !slices.Equal(key.Models, stored) {
		t.Errorf("a key is changed in all else: %+v, %v", key, err)
	}
	more := append(slices.Clone(stored), "c")
	_, err = s.UpdateAccount(a.ID, func(a *account.Account) { a.Models = more })
	_, keyErr := s.UpdateKey(key.ID, func(l *account.KeyLimits) { l.Models = more })
	if !errors.Is(err, store.ErrInvalid) || !errors.Is(keyErr, store.ErrInvalid) {
		t.Errorf("given again with another: %v, %v", err, keyErr)
	}
}

func topUpIsDoneOncePerIdempotencyKey(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a, b := MustCreate(t, s, "a", 0), MustCreate(t, s, "b", 0)
	for range 3 {
		if balance, err := s.TopUp(a.ID, 7, "note", "once"); err != nil || balance != 7 {
			t.Fatalf("TopUp = %d, %v", balance, err)
		}
	}
	if _, err := s.TopUp(a.ID, 8, "", "once"); !errors.Is(err, store.ErrIdempotencyMismatch) {
		t.Errorf("other amount: %v", err)
	}
	if _, err := s.TopUp(b.ID, 7, "", "once"); !errors.Is(err, store.ErrIdempotencyMismatch) {
		t.Errorf("other account: %v", err)
	}
	if balance, err := s.TopUp(a.ID, -10, "correction", ""); err != nil || balance != -3 {
		t.Errorf("correction = %d, %v", balance, err)
	}
	if _, err := s.TopUp("acct_nobody", 1, "", "k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown account: %v, want store.ErrNotFound", err)
	}
	if _, err := s.TopUp(a.ID, 1, strings.Repeat("x", rules.NoteBytesMax+1), ""); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("long note: %v, want store.ErrInvalid", err)
	}
	WantBalance(t, s, a.ID, -3, 0)
	WantBalance(t, s, b.ID, 0, 0)
	entries, _, err := s.Statement(store.StatementQuery{AccountID: a.ID})
	if err != nil || len(entries) != 2 || entries[0].Note != "note" || entries[0].Kind != account.TopUp {
		t.Errorf("entries = %+v, %v", entries, err)
	}
}

func keys(t *testing.T, fresh maker) {
	home := fresh(t)
	s := home.Open(t)
	a := MustCreate(t, s, "a", 0)
	expires := time.Unix(2e9, 0).UTC()
	key, secret, err := s.CreateKey(a.ID, account.KeyLimits{}, expires)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(secret, "sk-") || len(secret) != 3+43 || sha256.Sum256([]byte(secret)) != key.Hash {
		t.Errorf("secret %q of %d bytes does not match its key", secret, len(secret))
	}
	used := time.Unix(1900000000, 0)
	for _, at := range []time.Time{used, used.Add(-time.Hour)} { // late news changes nothing
		if err := s.TouchKeys(map[string]time.Time{key.ID: at, "key_gone": at}); err != nil {
			t.Fatal(err)
		}
	}
	_, keys, err := scanned(s)
	if err != nil || len(keys) != 1 || keys[0].Hash != key.Hash || !keys[0].LastUsed.Equal(used) ||
		!keys[0].Expires.Equal(expires) || !keys[0].Revoked.IsZero() || keys[0].Hint != secret[:7] {
		t.Fatalf("scanned keys %+v, %v", keys, err)
	}
	first, err := s.RevokeKey(key.ID)
	again, errAgain := s.RevokeKey(key.ID)
	if err != nil || errAgain != nil || first.Revoked.IsZero() || !first.Revoked.Equal(again.Revoked) {
		t.Errorf("revoked %v (%v), again %v (%v)", first.Revoked, err, again.Revoked, errAgain)
	}
	if _, err := s.RevokeKey("key_no"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("revoke of nothing: %v", err)
	}
	for _, end := range []time.Time{time.Now().Add(-time.Second), time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if _, _, err := s.CreateKey(a.ID, account.KeyLimits{}, end); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("key that expires %v: %v, want store.ErrInvalid", end, err)
		}
	}
	if _, _, err := s.CreateKey("acct_no", account.KeyLimits{}, time.Time{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("key for nobody: %v", err)
	}
	s.Close()
	files, _ := filepath.Glob(filepath.Join(home.Dir, "*"))
	for _, path := range files {
		if content, _ := os.ReadFile(path); bytes.Contains(content, []byte(secret)) {
			t.Errorf("%s contains the secret of a key", path)
		}
	}
}

func pricesAreKept(t *testing.T, fresh maker) {
	home := fresh(t)
	s := home.Open(t)
	if kept, err := s.KeptPrices(); err != nil || len(kept) != 0 {
		t.Errorf("of a new folder: %v, %v", kept, err)
	}
	last := map[string]abi.Prices{"m": {Input: 240, Cached: 24, Output: 2400}, "n": {}}
	for _, prices := range []map[string]abi.Prices{{"m": {Input: 1}}, last} {
		if err := s.KeepPrices(prices); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if kept, err := home.Open(t).KeptPrices(); err != nil || !maps.Equal(kept, last) {
		t.Errorf("kept %v, %v, want %v", kept, err, last)
	}
}

func secretsStay(t *testing.T, fresh maker) {
	home := fresh(t)
	s := home.Open(t)
	one, err := s.Secret("sessions")
	if err != nil || len(one) != 32 {
		t.Fatal(one, err)
	}
	other, _ := s.Secret("signatures")
	s.Close()
	again, _ := home.Open(t).Secret("sessions")
	if !bytes.Equal(one, again) || bytes.Equal(one, other) {
		t.Error("a secret changed, or two are the same")
	}
}

func firstStart(t *testing.T, fresh maker) {
	home := fresh(t)
	s := home.Open(t)
	former := filepath.Join(home.Dir, "default.key") // of another store: its only readable copy
	if err := os.WriteFile(former, []byte("sk-former\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path, aside, err := store.FirstStart(s, home.Dir, rules.FirstAccount(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(aside); err != nil || string(kept) != "sk-former\n" || aside == former {
		t.Errorf("the key of another store: %q in %q, %v", kept, aside, err)
	}
	secret, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(err, info.Mode())
	}
	accounts, keys, err := scanned(s)
	if err != nil || len(accounts) != 1 || len(keys) != 1 || !accounts[0].Unlimited || accounts[0].Name != "default" ||
		keys[0].Hash != sha256.Sum256(bytes.TrimSpace(secret)) || !keys[0].Expires.IsZero() {
		t.Fatalf("accounts %+v keys %+v err %v", accounts, keys, err)
	}
	os.Remove(path)
	if _, err := s.UpdateAccount(accounts[0].ID, func(a *account.Account) { a.Name = "renamed" }); err != nil {
		t.Fatal(err)
	}
	if path, aside, err := store.FirstStart(s, home.Dir, rules.FirstAccount(time.Now())); err != nil || path != "" || aside != "" {
		t.Errorf("second start made %q, %q, %v", path, aside, err)
	}
	if all, _ := s.Holders("", store.HoldersMax); len(all) != 1 {
		t.Errorf("second start made an account: %v", all)
	}
}

// scanKeepsKeysApart reads several keys at once: each has its own hash.
func scanKeepsKeysApart(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	want := map[string]string{} // secret by key id
	for _, name := range []string{"a", "b", "c"} {
		a := MustCreate(t, s, name, 0)
		for range 2 {
			key, secret, err := s.CreateKey(a.ID, account.KeyLimits{}, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			want[key.ID] = secret
		}
	}
	_, keys, err := scanned(s)
	if err != nil || len(keys) != len(want) {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, k := range keys {
		if k.Hash != sha256.Sum256([]byte(want[k.ID])) {
			t.Errorf("key %s has the hash of another secret", k.ID)
		}
	}
}

// scanned is all that Scan visits.
func scanned(s Store) (accounts []account.Account, keys []account.Key, err error) {
	err = s.Scan(func(a account.Account) error {
		accounts = append(accounts, a)
		return nil
	}, func(k account.Key) error {
		keys = append(keys, k)
		return nil
	})
	return accounts, keys, err
}

// holdersInPages reads accounts of three pages with their money.
func holdersInPages(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	want := map[string]store.Money{}
	for i := range 7 {
		a := MustCreate(t, s, string("GacBfdE"[i]), abi.Nano(i))
		want[a.ID] = store.Money{Balance: abi.Nano(i)}
		if i%2 == 0 {
			MustAppend(t, s, Hold(a.ID, "r"+a.Name, 5), Hold(a.ID, "s"+a.Name, 6))
			want[a.ID] = store.Money{Balance: abi.Nano(i), Held: 11}
		}
	}
	after, names := "", ""
	for range 4 {
		page, err := s.Holders(after, 3)
		if err != nil || len(page) > 3 {
			t.Fatal(len(page), err)
		}
		for _, h := range page {
			if h.Money != want[h.Account.ID] {
				t.Errorf("%s has %+v, want %+v", h.Account.Name, h.Money, want[h.Account.ID])
			}
			after, names = h.Account.Name, names+h.Account.Name
		}
	}
	if names != "BEGacdf" {
		t.Errorf("pages hold %q", names)
	}
}

// accountKeys reads one account among others, revoked keys included.
func accountKeys(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a, b := MustCreate(t, s, "a", 0), MustCreate(t, s, "b", 0)
	var made []account.Key
	for range 3 {
		key, _, err := s.CreateKey(a.ID, account.KeyLimits{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, key)
		if _, _, err := s.CreateKey(b.ID, account.KeyLimits{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.RevokeKey(made[1].ID); err != nil {
		t.Fatal(err)
	}
	got, keys, err := s.AccountKeys(a.ID)
	if err != nil || got.Name != "a" || len(keys) != 3 {
		t.Fatalf("%+v, %+v, %v", got, keys, err)
	}
	for _, k := range keys {
		if k.AccountID != a.ID || k.Revoked.IsZero() == (k.ID == made[1].ID) {
			t.Errorf("%+v", k)
		}
	}
	if _, scan, err := scanned(s); err != nil || len(scan) != 5 {
		t.Errorf("Scan visits %d keys, %v; want those that are not revoked", len(scan), err)
	}
	if _, _, err := s.AccountKeys("acct_no"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
	broken := errors.New("broken")
	if err := s.Scan(func(account.Account) error { return broken }, nil); !errors.Is(err, broken) {
		t.Errorf("a visit that fails: %v", err)
	}
}
