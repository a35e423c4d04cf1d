package postgres

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/extensions"
	"corenode/node/admin"
	"corenode/node/store"
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

// TestTokensOfLateSettlements: sums of usage have what a late settlement used above the one that it corrects, once, and also
// where that costs nothing. A row of a release that did not count it stays as it was counted.
func TestTokensOfLateSettlements(t *testing.T) {
	s := dial(t, postgrestest.URL(t), "one")
	crash := func(a, request string, used abi.Usage) account.Entry {
		e := storetest.Charged(a, request, false)
		e.Amount, e.Usage, e.Reason = 0, used, account.Crashed
		return storetest.MustAppend(t, s, storetest.Hold(a, request, 1000), e)[1]
	}
	late := func(a, request string, amount abi.Nano, used abi.Usage) {
		e := storetest.Charged(a, request, false)
		e.Amount, e.Usage, e.Reason = amount, used, account.Canceled
		for range 2 {
			storetest.MustAppend(t, s, e)
		}
	}
	all := abi.Usage{InputUncached: 100, CacheRead: 40, CacheWrite: 7, Output: 50, Reasoning: 20}
	some := abi.Usage{InputUncached: 100, Output: 30}
	for name, test := range map[string]struct {
		write func(a string)
		want  abi.Usage
		cost  abi.Nano
	}{
		"above nothing":      {func(a string) { crash(a, "r1", abi.Usage{}); late(a, "r1", -312, all) }, all, 312},
		"above a checkpoint": {func(a string) { crash(a, "r2", some); late(a, "r2", -312, all) }, all, 312},
		"below a checkpoint": {func(a string) { crash(a, "r3", all); late(a, "r3", -312, some) }, some, 312},
		"at no price":        {func(a string) { crash(a, "r4", some); late(a, "r4", 0, all) }, all, 0},
		"a free error":       {func(a string) { crash(a, "r5", some); late(a, "r5", 0, abi.Usage{}) }, some, 0},
		"not counted then": {func(a string) {
			old := storetest.Charged(a, "r6", false)
			old.Settles, old.Usage, old.Reason, old.Note = crash(a, "r6", some).ID, all, "", lateNote
			if done, err := s.Adjust(old); err != nil || !done {
				t.Fatal(done, err)
			}
		}, some, 100},
	} {
		a := storetest.MustCreate(t, s, strings.ReplaceAll(name, " ", "-"), 0).ID
		test.write(a)
		sums, err := s.Usage(store.UsageQuery{AccountID: a})
		if err != nil || len(sums) != 1 || sums[0].Requests != 1 || sums[0].Usage != test.want || sums[0].Charged != test.cost {
			t.Errorf("%s: %+v, %v; want %+v for %d", name, sums, err, test.want, test.cost)
		}
	}
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 || v.OpenHolds != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// lates are requests of an account whose nodes were taken for dead.
type lates struct {
	t *testing.T
	s *Store
	a string
}

func (l lates) charge(request string, provisional bool, amount abi.Nano, counter int64) account.Entry {
	e := storetest.Charged(l.a, request, provisional)
	e.Amount, e.Counters = amount, []abi.Counter{{Name: "n", Period: "2026-11", Limit: 1000, Amount: counter}}
	return e
}

// crash settles a request as another node does.
func (l lates) crash(request string, provisional bool) account.Entry {
	e, hold := l.charge(request, provisional, -6, 100), storetest.Hold(l.a, request, 100)
	e.Reason, hold.Counters = account.Crashed, e.Counters
	return storetest.MustAppend(l.t, l.s, hold, e)[1]
}

// late settles a request as its own node does.
func (l lates) late(request string, provisional bool) {
	e := l.charge(request, provisional, -50, 60)
	e.ChargeInput, e.InputHash = []byte(request), fmt.Sprintf("%x", sha256.Sum256([]byte(request)))
	storetest.MustAppend(l.t, l.s, e)
}

// waiting are the rows that wait to be rated again, of the requests that are wanted.
func (l lates) waiting(want ...string) (all []account.Entry) {
	l.t.Helper()
	for after := int64(0); ; {
		page, err := l.s.Provisional(after)
		if err != nil {
			l.t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		all, after = append(all, page...), page[len(page)-1].ID
	}
	if got := column(all, func(e account.Entry) string { return e.RequestID }); !slices.Equal(got, want) {
		l.t.Fatalf("%q wait, want %q", got, want)
	}
	return all
}

// rate makes an amount and a counter of a row that waits.
func (l lates) rate(e account.Entry, amount abi.Nano, counter int64, want bool) {
	l.t.Helper()
	again := account.Entry{AccountID: l.a, RequestID: e.RequestID, Model: e.Model, Time: time.Now(), Amount: amount - e.Amount,
		Settles: e.ID, ModuleDigest: "sha256:bb", Note: "rated again"}
	for _, n := range e.Counters {
		n.Amount = counter - n.Amount
		again.Counters = append(again.Counters, n)
	}
	if done, err := l.s.Adjust(again); err != nil || done != want {
		l.t.Fatalf("rated: %v, %v; want %v", done, err, want)
	}
}

func (l lates) wantSums(request string, amount abi.Nano, counter int64, rows int) {
	l.t.Helper()
	all, err := l.s.Request(request)
	for _, e := range all {
		if amount -= e.Amount; e.Kind != account.Hold && len(e.Counters) == 1 {
			counter -= e.Counters[0].Amount
		}
	}
	if err != nil || amount != 0 || counter != 0 || len(all) != rows {
		l.t.Errorf("%s lacks %d and %d of a counter, %d rows, %v: %+v", request, amount, counter, len(all), err, all)
	}
}

// TestProvisionalLateSettlementIsRatedOnce: a late settlement that charges provisionally waits to be rated again, with all that its
// request is charged by then, and it is done once. A rating of what was charged before it came changes nothing.
func TestProvisionalLateSettlementIsRatedOnce(t *testing.T) {
	s := dial(t, postgrestest.URL(t), "one")
	l := lates{t, s, storetest.MustCreate(t, s, "a", 0).ID}
	final, provisional := l.crash("final", false), l.crash("provisional", true)
	before := l.waiting("provisional")
	l.late("final", true)
	l.late("provisional", true)
	all := l.waiting("final", "provisional")
	for i, settled := range []account.Entry{final, provisional} {
		e := all[i]
		if e.Amount != -50 || len(e.Counters) != 1 || e.Counters[0].Amount != 60 || string(e.ChargeInput) != e.RequestID ||
			e.Model != settled.Model || e.KeyID != settled.KeyID || e.AccountID != l.a {
			t.Errorf("%+v waits", e)
		}
	}
	l.rate(before[0], -4, 10, false) // it was read before the late one came
	for i, e := range all {
		l.rate(e, -44, 25, true)
		l.rate(e, -44, 25, false)
		l.late(e.RequestID, true) // its node sends it again
		l.wantSums(e.RequestID, -44, 25, 4)
		l.waiting([]string{"provisional"}[:1-i]...)
	}

	// What is final by then is not rated: a late one that is, one after a rating, one that was refunded.
	rated := l.crash("rated", true)
	l.rate(l.waiting("rated")[0], -4, 100, true)
	l.late("rated", true)
	settled := l.crash("settled", true)
	l.late("settled", false)
	refunded := l.crash("refunded", true)
	l.late("refunded", true)
	last := l.waiting("refunded")
	if _, _, err := s.Refund(refunded, "sorry"); err != nil {
		t.Fatal(err)
	}
	l.waiting()
	for _, e := range append(last, rated, settled) {
		l.rate(e, -1, 1, false)
	}
	l.wantSums("rated", -50, 60, 4)
	l.wantSums("settled", -50, 60, 3)
	l.wantSums("refunded", 0, 0, 4)
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 || v.OpenHolds != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

type anyModules = admin.Modules // embedded under its own name it would hide a method

// replays makes the same charge of whatever a module was given.
type replays struct{ anyModules }

func (replays) Replay(digest string, input []byte) (extensions.Charge, error) {
	hash := fmt.Sprintf("%x", sha256.Sum256(input))
	return extensions.Charge{Amount: 50, Tier: 1, ModuleDigest: digest, Input: input, InputHash: hash}, nil
}

// TestReplayOfARow: an operator has a late settlement, or a re-rating, computed again by the id of its row, though no row has the id
// before: a settlement that was there already drew that one.
func TestReplayOfARow(t *testing.T) {
	s := dial(t, postgrestest.URL(t), "one")
	l := lates{t, s, storetest.MustCreate(t, s, "a", 0).ID}
	api := admin.Local(admin.New(s, nil, replays{}, nil, nil))
	l.crash("late", false)
	l.late("late", false)
	l.crash("rated", true)
	again := l.waiting("rated")[0]
	l.late("late", false) // its node sends it again
	again.Settles, again.Amount, again.Provisional, again.Reason, again.Counters = again.ID, -44, false, "", nil
	again.ChargeInput, again.InputHash = []byte("rated"), fmt.Sprintf("%x", sha256.Sum256([]byte("rated")))
	if done, err := s.Adjust(again); err != nil || !done {
		t.Fatal(done, err)
	}
	for _, request := range []string{"late", "rated"} {
		rows, err := s.Request(request)
		if err != nil || len(rows) != 3 {
			t.Fatalf("%+v, %v", rows, err)
		}
		row := rows[2].ID
		if e, err := s.Entry(row - 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: the row before it is %+v, %v", request, e, err)
		}
		if r, err := api.Replay(strconv.FormatInt(row, 10)); err != nil || !r.Same || r.Entry.ID != row || r.LedgerNanoUSD != -50 {
			t.Errorf("%s: row %d: %+v, %v", request, row, r, err)
		}
	}
}
