package sqlite

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// charged is a settlement of 100 nano-dollars by a module.
func charged(accountID, request string, provisional bool) account.Entry {
	return account.Entry{Kind: account.Settlement, AccountID: accountID, RequestID: request, KeyID: "key", Model: "m", Time: time.Now(),
		Amount: -100, Usage: abi.Usage{InputUncached: 3}, Tier: 1, Reason: account.Finished, ModuleDigest: "sha256:aa", Provisional: provisional}
}

func refundOf(accountID, request string) account.Entry {
	return account.Entry{Kind: account.Adjustment, AccountID: accountID, RequestID: request, Time: time.Now(), Refund: true}
}

// TestRefund: a refund takes back what its settlement and a re-rating charged,
// once, whether it comes with its settlement, behind it or twice; nothing of it is
// rated again, and the ledger verifies.
func TestRefund(t *testing.T) {
	s, a := emptyStore(t)
	if err := s.Append([]account.Entry{charged(a.ID, "one", false), refundOf(a.ID, "one"), refundOf(a.ID, "one")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Append([]account.Entry{charged(a.ID, "two", true), charged(a.ID, "three", true)}); err != nil {
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
	if err := s.Append([]account.Entry{refundOf(a.ID, "two"), refundOf(a.ID, "three")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Append([]account.Entry{refundOf(a.ID, "two"), charged(a.ID, "two", true)}); err != nil { // of a batch that was tried before
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

// TestRefundOfNothing: a refund whose settlement is not in the ledger is rejected,
// as is one that says what a refund cannot say.
func TestRefundOfNothing(t *testing.T) {
	s, a := emptyStore(t)
	if err := s.Append([]account.Entry{charged(a.ID, "one", false)}); err != nil {
		t.Fatal(err)
	}
	b, err := s.CreateAccount(account.Account{Name: "b"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	withModule, settlement := refundOf(a.ID, "one"), charged(a.ID, "two", false)
	withModule.ModuleDigest, settlement.Refund = "sha256:aa", true
	for _, e := range []account.Entry{refundOf(a.ID, "nobody"), refundOf(b.ID, "one"), refundOf(a.ID, ""), withModule, settlement} {
		if err := s.Append([]account.Entry{e}); !store.Rejects(err) || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// TestRefundByHand: an operator's refund is done once, and says the row again.
func TestRefundByHand(t *testing.T) {
	s, a := emptyStore(t)
	if err := s.Append([]account.Entry{charged(a.ID, "one", false)}); err != nil {
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

// TestOldFolderTakesRefunds: a data folder from before there were refunds is
// migrated, its rows stand, its charges can be refunded, and it verifies.
func TestOldFolderTakesRefunds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.CreateAccount(account.Account{Name: "a"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Append([]account.Entry{charged(a.ID, "one", false), charged(a.ID, "two", true)}); err != nil {
		t.Fatal(err)
	}
	s.write.mu.Lock()
	err = s.write.db.Exec(`DROP INDEX ledger_refund; ALTER TABLE ledger DROP COLUMN refund; ALTER TABLE ledger DROP COLUMN replica;
		ALTER TABLE ledger DROP COLUMN upstream_request_id; ALTER TABLE ledger DROP COLUMN usage_source; DROP TABLE usage; DROP INDEX ledger_time;
		DROP TABLE ledger_counters; DROP TABLE counters; DROP TABLE audit; DROP INDEX keys_budget; ALTER TABLE keys DROP COLUMN models;
		ALTER TABLE keys DROP COLUMN tokens_per_minute; ALTER TABLE keys DROP COLUMN budget; PRAGMA user_version = 2;`)
	s.write.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Append([]account.Entry{refundOf(a.ID, "two")}); err != nil {
		t.Errorf("a refund in a migrated folder: %v", err)
	}
	if balance, _, err := s.Balance(a.ID); err != nil || balance != 900 {
		t.Errorf("the balance is %d, %v", balance, err)
	}
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 || v.Charges != 2 {
		t.Errorf("the ledger: %+v, %v", v, err)
	}
}

func emptyStore(t *testing.T) (*Store, account.Account) {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	a, err := s.CreateAccount(account.Account{Name: "a"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}
