package sqlite

import (
	"path/filepath"
	"testing"

	"corenode/actors/account"
	"corenode/node/store/storetest"
)

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
	if err := s.Append([]account.Entry{storetest.Charged(a.ID, "one", false), storetest.Charged(a.ID, "two", true)}); err != nil {
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
	if err := s.Append([]account.Entry{storetest.RefundOf(a.ID, "two")}); err != nil {
		t.Errorf("a refund in a migrated folder: %v", err)
	}
	if balance, _, err := s.Balance(a.ID); err != nil || balance != 900 {
		t.Errorf("the balance is %d, %v", balance, err)
	}
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 || v.Charges != 2 {
		t.Errorf("the ledger: %+v, %v", v, err)
	}
}
