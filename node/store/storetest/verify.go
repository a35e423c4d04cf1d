package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// Use makes an account in an empty store, with some of everything in its ledger: 10 rows.
func Use(t testing.TB, s store.Store) account.Account {
	t.Helper()
	a := MustCreate(t, s, "a", 1_000_000)
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
	hold, open, checkpoint, settled := row(account.Hold, "one"), row(account.Hold, "two"), row(account.Checkpoint, "two"),
		row(account.Settlement, "one")
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
	return a
}

func verify(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	Use(t, s)
	v, err := s.Verify()
	if err != nil || len(v.Findings) > 0 || v.Rows != 10 || v.Accounts != 1 || v.Charges != 2 || v.OpenHolds != 1 {
		t.Errorf("a sound ledger: %+v, %v", v, err)
	}
	// Each statement breaks one rule; what forbids it is taken away first.
	for _, c := range []struct{ harm, says string }{
		{`UPDATE balances SET amount = amount + 1`, "sum of its rows"},
		{`DELETE FROM balances`, "has a balance"},
		{`UPDATE usage SET output = output + 1`, "sums of usage"},
		{`UPDATE usage SET charged = charged - 1`, "sums of usage"},
		{`DELETE FROM usage`, "sums of usage"},
		{`INSERT INTO usage SELECT account_id, day + 1, model, key_id, 0, 0, 0, 0, 0, 0, 0 FROM usage LIMIT 1`, "sums of usage"},
		{`DELETE FROM ledger WHERE kind = 'checkpoint'`, "no gaps"},
		{`DROP INDEX ledger_once; INSERT INTO ledger (kind, account_id, request_id, time) SELECT kind, account_id, request_id, time FROM ledger WHERE kind = 'settlement'`, "settled once"},
		{`INSERT INTO accounts SELECT 'acct_x', 'x', false, false, 0, 0, '[]', 0; INSERT INTO balances VALUES ('acct_x', -300); UPDATE balances SET amount = amount + 300 WHERE account_id <> 'acct_x';
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
		{`INSERT INTO ledger (kind, account_id, time, settles, module_digest) SELECT kind, account_id, time, settles, module_digest FROM ledger WHERE kind = 'adjustment' AND NOT refund`, "re-rated once"},
		{`DROP INDEX ledger_refund; INSERT INTO ledger (kind, account_id, time, settles, refund) SELECT kind, account_id, time, settles, refund FROM ledger WHERE refund`, "refunded once"},
		{`UPDATE ledger SET amount = amount - 1 WHERE refund; UPDATE balances SET amount = amount - 1`, "all that was charged"},
		{`UPDATE ledger SET id = 99 WHERE id = 10; UPDATE ledger SET id = 10 WHERE id = 9; UPDATE ledger SET id = 9 WHERE id = 99`, "after its refund"},
		{`UPDATE ledger SET module_digest = 'sha256:aa' WHERE refund`, "a refund has none"},
		{`UPDATE ledger SET refund = true WHERE kind = 'checkpoint'`, "only an adjustment"},
	} {
		home := fresh(t)
		if changed, ok := home.Harms[c.harm]; ok {
			c.harm = changed
		}
		if c.harm == "" {
			continue
		}
		s := home.Open(t)
		Use(t, s)
		err := s.Exec(home.Allow + c.harm)
		if err != nil {
			t.Fatalf("%s: %v", c.harm, err)
		}
		if v, err := s.Verify(); err != nil || !strings.Contains(strings.Join(v.Findings, "\n"), c.says) {
			t.Errorf("%s: found %q, %v; want %q", c.harm, v.Findings, err, c.says)
		}
	}
}
