package postgres

import (
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// TestLateSettlement: whatever was done to the settlement of a crashed request meanwhile, what its node says of it in the
// end, and told the client, is what the ledger says; but a refund stays one. What was not used of counters goes back.
func TestLateSettlement(t *testing.T) {
	s := dial(t, postgrestest.URL(t), "one")
	a := storetest.MustCreate(t, s, "a", 0).ID
	charge := func(request string, reason account.Reason, amount abi.Nano, counter int64) account.Entry {
		e := storetest.Charged(a, request, false)
		e.Amount, e.Reason = amount, reason
		if counter > 0 {
			e.Counters = []abi.Counter{{Name: "n", Period: "2026-11", Limit: 1000, Amount: counter}}
		}
		return e
	}
	rate := func(amount abi.Nano, counter int64) func(t *testing.T, settled account.Entry) {
		return func(t *testing.T, settled account.Entry) {
			again := account.Entry{AccountID: a, RequestID: settled.RequestID, Time: time.Now(), Amount: amount, Settles: settled.ID,
				ModuleDigest: "sha256:bb"}
			if counter > 0 {
				again.Counters = []abi.Counter{{Name: "n", Period: "2026-11", Limit: 1000, Amount: -counter}}
			}
			if done, err := s.Adjust(again); err != nil || !done {
				t.Fatal(done, err)
			}
		}
	}
	refund := func(t *testing.T, settled account.Entry) {
		if _, _, err := s.Refund(settled, "sorry"); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func(*testing.T, account.Entry) {}
	for _, test := range []struct {
		name        string
		crashed     abi.Nano
		counter     int64
		meanwhile   func(*testing.T, account.Entry)
		late        abi.Nano
		lateCounter int64
		want        abi.Nano
		wantCounter int64
		rows        int // of the request, its hold not among them
	}{
		{"nothing", -6, 100, nothing, -50, 60, -50, 60, 2},
		{"nothing, and all is the same", -6, 60, nothing, -6, 60, -6, 60, 1},
		{"nothing, and only a counter differs", -6, 100, nothing, -6, 60, -6, 60, 2},
		{"nothing, and it used more than is held", 0, 0, nothing, -50, 60, -50, 0, 2},
		{"nothing, and it is free", -6, 100, nothing, 0, 0, 0, 0, 2},
		{"nothing, and it was free all along", 0, 0, nothing, 0, 0, 0, 0, 1},
		{"nothing, and it costs nothing", -6, 100, nothing, 0, 60, 0, 60, 2},
		{"rated", -6, 100, rate(-4, 25), -50, 60, -50, 60, 3},
		{"rated to what it is", -6, 0, rate(-44, 0), -50, 0, -50, 0, 2},
		{"rated away from what it is", -6, 100, rate(-44, 0), -6, 100, -6, 100, 3},
		{"rated, and it is free", -6, 100, rate(-44, 25), 0, 0, 0, 0, 3},
		{"refunded", -6, 100, refund, -50, 60, 0, 0, 2},
		{"refunded, and it is free", -6, 100, refund, 0, 0, 0, 0, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			hold := storetest.Hold(a, test.name, 100)
			if test.counter > 0 {
				hold.Counters = charge("", "", 0, test.counter).Counters
			}
			settled := storetest.MustAppend(t, s, hold, charge(test.name, account.Crashed, test.crashed, test.counter))[1]
			test.meanwhile(t, settled)
			for range 2 {
				storetest.MustAppend(t, s, charge(test.name, account.Finished, test.late, test.lateCounter))
				rows, err := s.Request(test.name)
				if err != nil {
					t.Fatal(err)
				}
				var sum abi.Nano
				var counter int64
				for _, e := range rows[1:] {
					sum += e.Amount
					for _, n := range e.Counters {
						counter += n.Amount
					}
				}
				if sum != test.want || counter != test.wantCounter || len(rows) != 1+test.rows {
					t.Errorf("%d and %d of a counter, want %d and %d in %d rows: %+v", sum, counter, test.want, test.wantCounter, test.rows, rows)
				}
				if last := rows[len(rows)-1]; test.late == 0 && test.lateCounter == 0 && test.rows > 1 && !last.Refund {
					t.Errorf("what turned out to be free is not refunded: %+v", last)
				}
			}
		})
	}
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 || v.OpenHolds != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
