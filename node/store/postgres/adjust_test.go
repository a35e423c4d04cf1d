package postgres

import (
	"testing"

	"corenode/actors/account"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
)

// TestRefundBesideARating: a rating that comes while a batch with the refund of its settlement
// is held up is not behind that refund, for who reads in order.
func TestRefundBesideARating(t *testing.T) {
	s := dial(t, postgrestest.URL(t), "one")
	a := storetest.MustCreate(t, s, "a", 0).ID
	settled := storetest.MustAppend(t, s, storetest.Settlement(a, "r", -5))[0].ID
	ctx := t.Context()
	slow, err := s.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Rollback(ctx)
	if err := s.append(ctx, slow, []account.Entry{storetest.Settlement(a, "slow", -1)}); err != nil {
		t.Fatal(err)
	}
	refunded, rated := make(chan error, 1), make(chan error, 1)
	go func() {
		refunded <- s.Append([]account.Entry{storetest.Settlement(a, "slow", -1), storetest.RefundOf(a, "r")})
	}()
	awaitLocks(t, s, 1)
	go func() {
		_, err := s.Adjust(account.Entry{AccountID: a, RequestID: "r", Amount: 2, Settles: settled, ModuleDigest: "m"})
		rated <- err
	}()
	awaitLocks(t, s, 2)
	if err := slow.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	for _, done := range []chan error{refunded, rated} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	storetest.WantBalance(t, s, a, -1, 0)
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 {
		t.Errorf("%v, %v", v.Findings, err)
	}
}
