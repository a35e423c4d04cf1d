package storetest

import (
	"errors"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// provisionalChargesAreRatedOnce: a provisional charge waits until one
// adjustment names it, and its input comes back byte for byte.
func provisionalChargesAreRatedOnce(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a, err := s.CreateAccount(account.Account{Name: "a"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	charge := func(request string, provisional bool) account.Entry {
		return account.Entry{Kind: account.Settlement, AccountID: a.ID, RequestID: request, Model: "m", Time: time.Now(), Amount: -10,
			Tier: 1, Reason: account.Finished, ModuleDigest: "sha256:00", InputHash: "ff", ChargeInput: []byte{0, 1, 2, 255},
			Provisional: provisional}
	}
	rows := []account.Entry{charge("sure", false), charge("maybe", true), charge("12345", true)}
	if err := s.Append(rows); err != nil {
		t.Fatal(err)
	}

	for _, ref := range []string{"sure", "maybe"} {
		e, err := s.Settlement(ref)
		if err != nil || e.RequestID != ref || string(e.ChargeInput) != "\x00\x01\x02\xff" || e.ModuleDigest != "sha256:00" {
			t.Errorf("settlement %s: %+v, %v", ref, e, err)
		}
	}
	if _, err := s.Settlement("nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown request: %v", err)
	}

	waiting, err := s.Provisional(0)
	if err != nil || len(waiting) != 2 || waiting[0].RequestID != "maybe" {
		t.Fatalf("provisional: %+v, %v", waiting, err)
	}
	first := waiting[0]
	again := account.Entry{AccountID: a.ID, RequestID: first.RequestID, Model: first.Model, Time: time.Now(), Amount: -5,
		Usage: first.Usage, Tier: 1, Settles: first.ID, Note: "rated again"}
	for i, want := range []bool{true, false} {
		if done, err := s.Adjust(again); err != nil || done != want {
			t.Errorf("adjusted %d times: %v, %v", i+1, done, err)
		}
	}
	if balance, _, err := s.Balance(a.ID); err != nil || balance != 1000-30-5 {
		t.Errorf("balance %d, %v", balance, err)
	}
	if waiting, err := s.Provisional(0); err != nil || len(waiting) != 1 || waiting[0].RequestID != "12345" {
		t.Errorf("after one adjustment %+v wait, %v", waiting, err)
	}
	again.Settles, again.Amount = 999, abi.Nano(1)
	if done, err := s.Adjust(again); !errors.Is(err, store.ErrNotFound) || done {
		t.Errorf("an adjustment of nothing: %v, %v", done, err)
	}
}
