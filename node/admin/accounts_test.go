package admin

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/sqlite"
	"corenode/node/store/sqlite/sqlitetest"
)

func TestLifeOfAnAccount(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store) {
		made, err := c.CreateAccount(NewAccount{Name: "alice", Balance: Amount{USD: "12.5"}, Concurrency: 2, TokensPerMinute: 100, Models: []string{"core-1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(made.Key, "sk-") || made.BalanceNanoUSD != 12_500_000_000 || made.BalanceUSD != "12.50" || made.HeldUSD != "0.00" {
			t.Errorf("made %+v", made)
		}
		_, keys, err := s.AccountKeys(made.ID)
		if err != nil || len(keys) != 1 || keys[0].ID != made.KeyID || keys[0].Hash != sha256.Sum256([]byte(made.Key)) {
			t.Errorf("keys %+v, %v", keys, err)
		}
		entry := account.Entry{Kind: account.Hold, AccountID: made.ID, RequestID: "r", Held: 5e8, Time: time.Now()}
		if err := s.Append([]account.Entry{entry}); err != nil {
			t.Fatal(err)
		}
		shown, err := c.Account("alice")
		if err != nil || shown.HeldNanoUSD != 500_000_000 || shown.HeldUSD != "0.50" || shown.ID != made.ID {
			t.Errorf("shown %+v, %v", shown, err)
		}
		byID, err := c.Account(made.ID)
		if err != nil || !reflect.DeepEqual(byID, shown) {
			t.Errorf("by id %+v, %v", byID, err)
		}
		node.takeChanged()
		name, yes, none := "bob", true, []string{}
		changed, err := c.ChangeAccount("alice", AccountChange{Name: &name, Disabled: &yes, Models: &none})
		if err != nil || changed.Name != "bob" || !changed.Disabled || len(changed.Models) != 0 || changed.Concurrency != 2 ||
			changed.BalanceNanoUSD != 12_500_000_000 || changed.HeldNanoUSD != 500_000_000 {
			t.Errorf("changed %+v, %v", changed, err)
		}
		if told := node.takeChanged(); !slices.Equal(told, []string{made.ID}) {
			t.Errorf("the node was told of %v", told)
		}
		all, err := allAccounts(c)
		if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], changed) {
			t.Errorf("list %+v, %v", all, err)
		}
	})
}

// TestAccountsInPages lists more accounts than a page holds, whole and in pages.
func TestAccountsInPages(t *testing.T) {
	const accounts = 2*store.HoldersMax + 5
	dir := t.TempDir()
	if err := sqlitetest.Fill(dir, accounts, 1); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	api := New(s, &fakeNode{}, nil, nil, nil)
	c := Local(api)
	all, err := allAccounts(c)
	if err != nil || len(all) != accounts || all[0].Name != sqlitetest.AccountName(0) ||
		all[accounts-1].Name != sqlitetest.AccountName(accounts-1) {
		t.Fatalf("%d accounts, %v", len(all), err)
	}
	pages := 0
	if err := c.AccountPages(func(page []Account) error {
		pages++
		return nil
	}); err != nil || pages != 3 {
		t.Errorf("%d pages, %v", pages, err)
	}
	stop := errors.New("enough")
	if err := c.AccountPages(func([]Account) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a visit that fails: %v", err)
	}
	for query, want := range map[string][]int{
		"":                         {0, accounts}, // as before there were pages
		"limit=3":                  {0, 3},
		"limit=3&after=customer-1": {accounts, 0},
		"limit=2&after=" + sqlitetest.AccountName(6):           {7, 2},
		"after=" + sqlitetest.AccountName(accounts-3):          {accounts - 2, 2},
		"limit=10&after=" + sqlitetest.AccountName(accounts-1): {accounts, 0},
	} {
		_, _, body := api.Handle(t.Context(), "GET", Root+"/accounts", []byte(query), nil)
		var page list[Account]
		if err := json.Unmarshal(body, &page); err != nil || page.Data == nil || len(page.Data) != want[1] ||
			want[1] > 0 && page.Data[0].Name != sqlitetest.AccountName(want[0]) {
			t.Errorf("%q: %d accounts, %v, want %d from %d", query, len(page.Data), err, want[1], want[0])
		}
	}
}
