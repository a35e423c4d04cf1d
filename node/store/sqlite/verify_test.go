package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// usedStore is a data folder with some of everything in its ledger.
func usedStore(t *testing.T) (s *Store, a account.Account) {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if a, err = s.CreateAccount(account.Account{Name: "a"}, 1_000_000); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.CreateKey(a.ID, account.KeyLimits{}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TopUp(a.ID, 7, "", "invoice 17"); err != nil {
		t.Fatal(err)
	}
	input := []byte("charge input")
	hash := sha256.Sum256(input)
	row := func(kind account.EntryKind, request string) account.Entry {
		return account.Entry{Kind: kind, AccountID: a.ID, RequestID: request, Model: "m", Time: time.Now()}
	}
	hold, open, checkpoint, settled := row(account.Hold, "one"), row(account.Hold, "two"), row(account.Checkpoint, "two"), row(account.Settlement, "one")
	hold.Held, open.Held = 500, 700
	checkpoint.Usage = abi.Usage{InputUncached: 5, Output: 1}
	settled.Amount, settled.Usage, settled.Tier, settled.Reason = -300, abi.Usage{InputUncached: 3}, 1, account.Finished
	settled.ModuleDigest, settled.InputHash, settled.ChargeInput = "sha256:aa", hex.EncodeToString(hash[:]), input
	if err := s.Append([]account.Entry{hold, open, checkpoint, settled}); err != nil {
		t.Fatal(err)
	}
	e, err := s.Settlement("one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Adjust(account.Entry{AccountID: a.ID, RequestID: "one",
		Time: time.Now(), Amount: 20, Settles: e.ID, ModuleDigest: "sha256:bb"}); err != nil {
		t.Fatal(err)
	}
	withheld := row(account.Settlement, "three")
	withheld.Amount, withheld.Usage, withheld.ModuleDigest, withheld.Provisional = -40, abi.Usage{InputUncached: 1}, "sha256:aa", true
	if err := s.Append([]account.Entry{withheld}); err != nil {
		t.Fatal(err)
	}
	if e, err = s.Settlement("three"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Adjust(account.Entry{AccountID: a.ID, RequestID: "three",
		Time: time.Now(), Amount: 10, Settles: e.ID, ModuleDigest: "sha256:bb"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Refund(e, "ticket 4"); err != nil {
		t.Fatal(err)
	}
	return s, a
}

func TestVerify(t *testing.T) {
	s, _ := usedStore(t)
	v, err := s.Verify()
	if err != nil || len(v.Findings) > 0 || v.Rows != 10 || v.Accounts != 1 || v.Charges != 2 || v.OpenHolds != 1 {
		t.Errorf("a sound ledger: %+v, %v", v, err)
	}
	// Each statement breaks one rule; the triggers that forbid it are dropped first.
	const allow = `DROP TRIGGER IF EXISTS ledger_no_update; DROP TRIGGER IF EXISTS ledger_no_delete; PRAGMA foreign_keys = OFF;`
	for _, c := range []struct{ harm, says string }{
		{`UPDATE balances SET amount = amount + 1`, "sum of its rows"},
		{`DELETE FROM balances`, "has a balance"},
		{`UPDATE usage SET output = output + 1`, "sums of usage"},
		{`UPDATE usage SET charged = charged - 1`, "sums of usage"},
		{`DELETE FROM usage`, "sums of usage"},
		{`INSERT INTO usage SELECT account_id, day + 1, model, key_id, 0, 0, 0, 0, 0, 0, 0 FROM usage LIMIT 1`, "sums of usage"},
		{`DELETE FROM ledger WHERE kind = 'checkpoint'`, "no gaps"},
		{`DROP INDEX ledger_once; INSERT INTO ledger (kind, account_id, request_id, time) SELECT kind, account_id, request_id, time FROM ledger WHERE kind = 'settlement'`, "settled once"},
		{`INSERT INTO accounts SELECT 'acct_x', 'x', 0, 0, 0, 0, '[]', 0; INSERT INTO balances VALUES ('acct_x', -300); UPDATE balances SET amount = amount + 300 WHERE account_id <> 'acct_x';
			UPDATE ledger SET account_id = 'acct_x' WHERE kind = 'settlement'`, "the account that held"},
		{`DELETE FROM open_holds`, "open until it is settled"},
		{`UPDATE open_holds SET held = held + 1`, "a hold without a settlement"},
		{`UPDATE ledger SET settles = 1 WHERE kind = 'adjustment'`, "names a settlement"},
		{`UPDATE ledger SET module_digest = '' WHERE kind = 'adjustment'`, "names a settlement"},
		{`UPDATE ledger SET module_digest = '' WHERE kind = 'settlement'`, "names its module"},
		{`UPDATE ledger SET charge_input = x'00' WHERE kind = 'settlement'`, "what its hash says"},
		{`UPDATE ledger SET input_hash = '' WHERE kind = 'settlement'`, "what its hash says"},
		{`DELETE FROM accounts`, "names is there"},
		{`UPDATE keys SET account_id = 'acct_x'`, "names is there"},
		{`UPDATE open_holds SET checkpoint_id = 0`, "last checkpoint"},
		{`UPDATE open_holds SET checkpoint_id = hold_id`, "last checkpoint"},
		{`UPDATE idempotency SET amount = amount + 1`, "idempotency key"},
		{`UPDATE idempotency SET entry_id = entry_id + 1`, "idempotency key"},
		{`INSERT INTO ledger (kind, account_id, time, settles, module_digest) SELECT kind, account_id, time, settles, module_digest FROM ledger WHERE kind = 'adjustment' AND refund = 0`, "re-rated once"},
		{`DROP INDEX ledger_refund; INSERT INTO ledger (kind, account_id, time, settles, refund) SELECT kind, account_id, time, settles, refund FROM ledger WHERE refund = 1`, "refunded once"},
		{`UPDATE ledger SET amount = amount - 1 WHERE refund = 1; UPDATE balances SET amount = amount - 1`, "all that was charged"},
		{`UPDATE ledger SET id = 99 WHERE id = 10; UPDATE ledger SET id = 10 WHERE id = 9; UPDATE ledger SET id = 9 WHERE id = 99`, "after its refund"},
		{`UPDATE ledger SET module_digest = 'sha256:aa' WHERE refund = 1`, "a refund has none"},
		{`UPDATE ledger SET refund = 1 WHERE kind = 'checkpoint'`, "only an adjustment"},
	} {
		s, _ := usedStore(t)
		s.write.mu.Lock()
		err := s.write.db.Exec(allow + c.harm)
		s.write.mu.Unlock()
		if err != nil {
			t.Fatalf("%s: %v", c.harm, err)
		}
		if v, err := s.Verify(); err != nil || !strings.Contains(strings.Join(v.Findings, "\n"), c.says) {
			t.Errorf("%s: found %q, %v; want %q", c.harm, v.Findings, err, c.says)
		}
	}
}

func TestBackupAndRestore(t *testing.T) {
	s, a := usedStore(t)
	one, err := s.Secret("node")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "copy.db")
	if _, err := s.Backup(file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup's mode is %v, %v", info.Mode(), err)
	}
	if _, err := s.Backup(file); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("over an existing file: %v", err)
	}
	// What comes after the backup is not in it.
	if _, err := s.TopUp(a.ID, 5, "", ""); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	v, err := Restore(file, dir)
	if err != nil || v.Rows != 10 {
		t.Fatalf("restored %+v, %v", v, err)
	}
	if _, err := Restore(file, dir); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("into a folder that has a database: %v", err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	was, _, _ := s.Balance(a.ID)
	if is, held, err := again.Balance(a.ID); err != nil || is != was-5 || held != 700 {
		t.Errorf("balance %d, held %d, %v; the original has %d", is, held, err, was)
	}
	if two, err := again.Secret("node"); err != nil || string(one) != string(two) {
		t.Errorf("the secret is not in the backup: %v", err)
	}

	broken := filepath.Join(t.TempDir(), "broken.db")
	if err := os.WriteFile(broken, []byte("not a database at all, but long enough to be read as one header"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "none")
	if _, err := Restore(broken, dir); err == nil {
		t.Error("a file that is no backup was restored")
	}
	if _, err := os.Stat(filepath.Join(dir, DatabaseName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed restore leaves a database: %v", err)
	}
}

// backedUp gives a store with rows and a backup of it, larger than what a pipe holds.
func backedUp(t *testing.T) (s *Store, file string) {
	t.Helper()
	s, _ = usedStore(t)
	s.write.mu.Lock()
	err := s.write.exec(`INSERT INTO settings (name, value) VALUES ('large', zeroblob(200000))`)
	s.write.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "copy.db")
	if _, err := s.Backup(file); err != nil {
		t.Fatal(err)
	}
	return s, file
}

// wantFiles says what a folder has, beside the file of its lock.
func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.Name() != store.LockName {
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the folder has %q, want %q", got, want)
	}
}

// TestRestoreBesideWhatIsLeft: a file of an earlier database, whichever, would
// be taken for a part of the backup; it may be all that is left, and stays.
func TestRestoreBesideWhatIsLeft(t *testing.T) {
	_, file := backedUp(t)
	for _, name := range []string{"corenode.db", "corenode.db-wal", "corenode.db-shm", "corenode.db-journal"} {
		dir := t.TempDir()
		left := filepath.Join(dir, name)
		if err := os.WriteFile(left, []byte("rows"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(file, dir); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "move corenode.db* away first") {
			t.Errorf("beside %s: %v", name, err)
		}
		wantFiles(t, dir, name)
		if text, err := os.ReadFile(left); err != nil || string(text) != "rows" {
			t.Errorf("%s is %q now, %v", name, text, err)
		}
	}
	dir := t.TempDir()
	if _, err := Restore(file, dir); err != nil {
		t.Error(err)
	}
	wantFiles(t, dir, DatabaseName)
	busy, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if _, err := Restore(file, busy.Dir()); !errors.Is(err, store.ErrLocked) {
		t.Errorf("into the folder of a node that runs: %v", err)
	}
}

// TestRestoreCutShort holds a restore in the middle of its copy: there is no
// database that a start would take, and none is left when the rest is missing.
func TestRestoreCutShort(t *testing.T) {
	_, file := backedUp(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pipe, dir := filepath.Join(t.TempDir(), "pipe"), t.TempDir()
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Restore(pipe, dir)
		done <- err
	}()
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(whole[:len(whole)-8192]); err != nil { // the copy has begun when it is written
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, DatabaseName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a copy has the name of the database: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("half a backup was restored")
	}
	wantFiles(t, dir)
}

// TestRestoreOfNoBackup: what has no ledger in it is not sound because nothing
// contradicts itself, and what a running node writes has its newest rows elsewhere.
func TestRestoreOfNoBackup(t *testing.T) {
	s, file := backedUp(t)
	live := filepath.Join(s.Dir(), DatabaseName)
	if info, err := os.Stat(live + "-wal"); err != nil || info.Size() == 0 {
		t.Fatalf("the store has nothing in its WAL: %v", err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	blank := slices.Clone(whole)
	clear(blank[60:64]) // user_version
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	db, err := sqlite3.Open(foreign)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Exec(`CREATE TABLE songs (title TEXT)`), db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, says string }{
		{"nothing", write(nil), "not a database"},
		{"less than a header", write(whole[:99]), "not a database"},
		{"zeros", write(make([]byte, 9000)), "not a database"},
		{"a schema of version 0", write(blank), "not of corenode backup"},
		{"another program's", foreign, "not of corenode backup"},
		{"a copied live database", live, "corenode backup FILE --data-dir"},
	} {
		dir := t.TempDir()
		if v, err := Restore(c.path, dir); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: restored %d rows, %v; want %q", c.name, v.Rows, err, c.says)
		}
		wantFiles(t, dir)
	}
	if _, err := Restore(file, t.TempDir()); err != nil {
		t.Error(err)
	}
}
