package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// Charged is a settlement of 100 nano-dollars by a module.
func Charged(accountID, request string, provisional bool) account.Entry {
	return account.Entry{Kind: account.Settlement, AccountID: accountID, RequestID: request, KeyID: "key", Model: "m", Time: time.Now(),
		Amount: -100, Usage: abi.Usage{InputUncached: 3}, Tier: 1, Reason: account.Finished, ModuleDigest: "sha256:aa",
		Provisional: provisional}
}

// RefundOf takes back what a request was charged.
func RefundOf(accountID, request string) account.Entry {
	return account.Entry{Kind: account.Adjustment, AccountID: accountID, RequestID: request, Time: time.Now(), Refund: true}
}

// refund: a refund takes back what its settlement and a re-rating charged,
// once, whether it comes with its settlement, behind it or twice; nothing of it is
// rated again, and the ledger verifies.
func refund(t *testing.T, fresh maker) {
	s, a := emptyStore(t, fresh)
	if err := s.Append([]account.Entry{Charged(a.ID, "one", false), RefundOf(a.ID, "one"), RefundOf(a.ID, "one")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Append([]account.Entry{Charged(a.ID, "two", true), Charged(a.ID, "three", true)}); err != nil {
		t.Fatal(err)
	}
	two, err := s.Settlement("two")
	if err != nil {
		t.Fatal(err)
	}
	again := account.Entry{AccountID: a.ID, RequestID: "two", Time: time.Now(), Amount: 30, Settles: two.ID, ModuleDigest: "sha256:bb"}
	if done, err := s.Adjust(again); err != nil || !done {
		t.Fatal(done, err)
	}
	if err := s.Append([]account.Entry{RefundOf(a.ID, "two"), RefundOf(a.ID, "three")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Append([]account.Entry{RefundOf(a.ID, "two"), Charged(a.ID, "two", true)}); err != nil { // of a batch that was tried before
		t.Fatal(err)
	}
	var refunds []abi.Nano
	rows, _, err := s.Statement(store.StatementQuery{AccountID: a.ID})
	for _, e := range rows {
		if !e.Refund {
			continue
		}
		refunds = append(refunds, e.Amount)
		if e.ModuleDigest != "" || e.KeyID != "key" || e.Model != "m" || e.Settles == 0 || e.RequestID == "" {
			t.Errorf("a refund is %+v", e)
		}
	}
	if err != nil || !slices.Equal(refunds, []abi.Nano{100, 70, 100}) {
		t.Errorf("refunded %v, %v", refunds, err)
	}
	if balance, _, err := s.Balance(a.ID); err != nil || balance != 1000 {
		t.Errorf("the balance is %d, %v, want what it was", balance, err)
	}
	if waiting, err := s.Provisional(0); err != nil || len(waiting) != 0 {
		t.Errorf("what was refunded waits to be rated: %+v, %v", waiting, err)
	}
	three, err := s.Settlement("three")
	if err != nil {
		t.Fatal(err)
	}
	again.Settles, again.RequestID = three.ID, "three"
	if done, err := s.Adjust(again); err != nil || done {
		t.Errorf("what was refunded was rated again: %t, %v", done, err)
	}
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 {
		t.Errorf("the ledger: %+v, %v", v, err)
	}
}

// refundOfNothing: a refund whose settlement is not in the ledger is rejected,
// as is one that says what a refund cannot say.
func refundOfNothing(t *testing.T, fresh maker) {
	s, a := emptyStore(t, fresh)
	if err := s.Append([]account.Entry{Charged(a.ID, "one", false)}); err != nil {
		t.Fatal(err)
	}
	b, err := s.CreateAccount(account.Account{Name: "b"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	withModule, settlement := RefundOf(a.ID, "one"), Charged(a.ID, "two", false)
	withModule.ModuleDigest, settlement.Refund = "sha256:aa", true
	for _, e := range []account.Entry{RefundOf(a.ID, "nobody"), RefundOf(b.ID, "one"), RefundOf(a.ID, ""), withModule, settlement} {
		if err := s.Append([]account.Entry{e}); !store.Rejects(err) || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// refundByHand: an operator's refund is done once, and says the row again.
func refundByHand(t *testing.T, fresh maker) {
	s, a := emptyStore(t, fresh)
	if err := s.Append([]account.Entry{Charged(a.ID, "one", false)}); err != nil {
		t.Fatal(err)
	}
	e, err := s.Settlement("one")
	if err != nil {
		t.Fatal(err)
	}
	first, done, err := s.Refund(e, "ticket 12")
	if err != nil || !done || first.Amount != 100 || first.Note != "ticket 12" || first.RequestID != "one" {
		t.Errorf("refunded %+v, %t, %v", first, done, err)
	}
	second, done, err := s.Refund(e, "ticket 13")
	if err != nil || done || second.ID != first.ID || second.Note != "ticket 12" {
		t.Errorf("refunded again %+v, %t, %v", second, done, err)
	}
	if balance, _, err := s.Balance(a.ID); err != nil || balance != 1000 {
		t.Errorf("the balance is %d, %v", balance, err)
	}
}

func emptyStore(t *testing.T, fresh maker) (Store, account.Account) {
	t.Helper()
	s := fresh(t).Open(t)
	a, err := s.CreateAccount(account.Account{Name: "a"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}
